"""Adapters of random numbers for every linear layer of an open model, for whom only their cost
matters."""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx

from slipstream.backends.mlx.adapters.config import CONFIG
from slipstream.backends.mlx.adapters.targets import LINEAR, locate
from slipstream.backends.mlx.opening import OpenModel

SIZE = 0.01  # small, so that what they make a model say stays text


def write(model: OpenModel, folder: Path, seed: int, rank: int) -> None:
    """Writes one into `folder`, in mlx-lm's form."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, mx.array] = {}
    layers = model.model.layers
    for index, layer in enumerate(layers):
        for name, module in layer.named_modules():
            target = f"{index}.{name.replace('.held', '')}"
            spot = locate(layers, target) if isinstance(module, LINEAR) else None
            if spot is None:
                continue
            width, out = spot.sizes
            key = mx.random.key(seed + 1000 * len(tensors))
            first, second = mx.random.split(key)
            path = f"model.layers.{target}"
            tensors[f"{path}.lora_a"] = SIZE * mx.random.normal((width, rank), key=first)
            tensors[f"{path}.lora_b"] = SIZE * mx.random.normal((rank, out), key=second)
    mx.save_safetensors(str(folder / "adapters.safetensors"), tensors)
    config = {"lora_parameters": {"rank": rank, "scale": 1.0}, "num_layers": len(layers)}
    (folder / CONFIG).write_text(json.dumps(config), "utf-8")
