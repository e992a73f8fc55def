"""Random adapters for tiny models, in both forms, and the plain twin: weights merged by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten
from mlx_lm.models.switch_layers import SwitchLinear

Tensors = dict[str, mx.array]


def linear(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """(path, module) of what adapters can change in an unopened model, as "layers.0...."."""
    for index, layer in enumerate(model.layers):
        for name, module in layer.named_modules():
            if type(module) in (nn.Linear, SwitchLinear):
                yield f"layers.{index}.{name}", module


def random(
    model: nn.Module, seed: int, *, rank: int = 4, dora: bool = False, only: str = ""
) -> Tensors:
    """Tensors in mlx-lm's form, under paths that begin with layers."""
    keys = iter(mx.random.split(mx.random.key(seed), 500))
    found: Tensors = {}
    for path, module in linear(model):
        if only not in path or (dora and type(module) is SwitchLinear):
            continue
        out, width = module.weight.shape[-2:]
        experts = module.weight.shape[:-2]
        a, b = ((*experts, rank, width), (*experts, out, rank))
        if not experts:
            a, b = a[::-1], b[::-1]
        found[f"{path}.lora_a"] = 0.15 * mx.random.normal(a, key=next(keys))
        found[f"{path}.lora_b"] = 0.15 * mx.random.normal(b, key=next(keys))
        if dora:
            found[f"{path}.m"] = 0.5 + mx.random.uniform(shape=(out,), key=next(keys))
    return found


def write_mlx(
    folder: Path, tensors: Tensors, *, rank: int = 4, scale: float = 2.0, dora: bool = False
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "fine_tune_type": "dora" if dora else "lora",
        "num_layers": -1,
        "lora_parameters": {"rank": rank, "scale": scale, "dropout": 0.0},
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    named = {f"model.{name}": tensor for name, tensor in tensors.items()}
    mx.save_safetensors(str(folder / "adapters.safetensors"), named)
    return folder


PEFT = {"lora_a": "lora_A.weight", "lora_b": "lora_B.weight", "m": "lora_magnitude_vector"}


def write_peft(folder: Path, tensors: Tensors, *, rank: int = 4, **config: Any) -> Path:
    """As PEFT saves it; of linear layers only."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, **config}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    named = {}
    for name, tensor in tensors.items():
        path, _, part = name.rpartition(".")
        turned = tensor.T if tensor.ndim == 2 else tensor
        named[f"base_model.model.model.{path}.{PEFT[part]}"] = mx.contiguous(turned)
    mx.save_safetensors(str(folder / "adapter_model.safetensors"), named)
    return folder


def merge(model: nn.Module, uses: list[tuple[Tensors, float]], *, scale: float = 2.0) -> nn.Module:
    """The model with `uses`, (tensors, scale), added to its weights, in place."""
    for path, module in linear(model):
        weight = module.weight.astype(mx.float32)
        for tensors, strength in uses:
            if f"{path}.lora_a" not in tensors:
                continue
            a, b = tensors[f"{path}.lora_a"], tensors[f"{path}.lora_b"]
            product = b @ a if a.ndim == 3 else (a @ b).T
            weight = weight + scale * strength * product
            if f"{path}.m" in tensors:
                norm = mx.linalg.norm(weight, axis=1)
                weight = (tensors[f"{path}.m"] / norm)[:, None] * weight
        module.weight = weight.astype(module.weight.dtype)
    mx.eval(model.parameters())
    return model


def shapes(model: nn.Module) -> Mapping[str, tuple[int, ...]]:
    return {name: array.shape for name, array in tree_flatten(model.parameters())}
