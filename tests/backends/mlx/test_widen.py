"""The widened folder is the same model."""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten

from slipstream.backends.mlx.device import Device
from slipstream.backends.mlx.load import load_model
from slipstream.backends.mlx.widen import write_widened
from slipstream.models import folder, starter
from slipstream.settings import cache_home

CPU = Device("cpu", "", 0)


def test_a_widened_folder_holds_the_weights_that_ours_runs_on(tmp_path: Path) -> None:
    path = starter.ensure(cache_home())
    write_widened(path, tmp_path, CPU)
    folder.check(tmp_path)
    assert "quantization" not in json.loads((tmp_path / "config.json").read_text())
    ours, theirs = (dict(tree_flatten(load_model(p, CPU).parameters())) for p in (path, tmp_path))
    assert ours.keys() == theirs.keys()
    assert all(mx.array_equal(ours[name], theirs[name]) for name in ours)
    assert {array.dtype for array in theirs.values()} == {mx.float32}
