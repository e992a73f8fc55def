"""A copy of a model folder with the weights that a CPU runs on, for whom cannot widen them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten

from slipstream.backends.mlx.device import Device
from slipstream.backends.mlx.load import map_model

QUANTISED = ("quantization", "quantization_config")


def write_widened(path: Path, target: Path, device: Device) -> None:
    """Writes model folder `path` into folder `target`, with the weights as they are on `device`.

    Raises ModelError, and OSError when the disk refuses."""
    for file in path.iterdir():
        if file.suffix in (".json", ".jinja", ".model") and not file.name.endswith(".index.json"):
            shutil.copyfile(file, target / file.name)
    config = json.loads((path / "config.json").read_text("utf-8"))
    kept = {name: value for name, value in config.items() if name not in QUANTISED}
    (target / "config.json").write_text(json.dumps(kept), "utf-8")
    weights = dict(tree_flatten(map_model(path, device).parameters()))
    mx.save_safetensors(str(target / "model.safetensors"), weights, metadata={"format": "mlx"})
