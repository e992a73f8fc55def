"""Weights into memory, with mlx-lm's own loader. On a CPU they become float32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_map
from mlx_lm.utils import load_model as load_mlx_lm

from slipstream.backends.mlx.device import Device
from slipstream.backends.mlx.headless import headless
from slipstream.contracts.errors import ModelError


def load_model(path: Path, device: Device) -> nn.Module:
    """The model of folder `path`, evaluated. Raises ModelError with one clear line."""
    return _loaded(path, device, mx.eval)


def map_model(path: Path, device: Device) -> nn.Module:
    """As `load_model`, but no weight is read until it is used; shapes and types are known."""
    return _loaded(path, device, lambda weights: None)


def _loaded(path: Path, device: Device, evaluate: Callable[[Any], None]) -> nn.Module:
    try:
        model, _ = load_mlx_lm(path, lazy=True, **headless(path))
        if device.is_cpu:
            to_float32(model)
        evaluate(model.parameters())
    except FileNotFoundError as error:
        raise ModelError(f"{path}: {error}. Download the model again.") from error
    except (ValueError, RuntimeError, KeyError, TypeError, OSError) as error:
        raise ModelError(f"{path} cannot be loaded: {one_line(error)}") from error
    model.eval()
    return model


def one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else f"{text[:300]}..."


def to_float32(model: nn.Module) -> None:
    """Dequantises and widens in place: on a CPU float32 is the only quick type."""
    for parent in list(model.modules()):
        for name, child in list(parent.children().items()):
            parent[name] = tree_map(_dense, child, is_leaf=lambda node: isinstance(node, nn.Module))
    model.update(tree_map(_wide, model.parameters()))


def _dense(module: Any) -> Any:
    if isinstance(module, nn.QuantizedLinear):
        out, width = module.weight.shape[0], module.scales.shape[1] * module.group_size
        dense = nn.Linear(width, out, bias="bias" in module)
        if "bias" in module:
            dense.bias = module.bias
    elif isinstance(module, nn.QuantizedEmbedding):
        dense = nn.Embedding(module.weight.shape[0], module.scales.shape[1] * module.group_size)
    else:
        return module
    # Widened first: products in float16 would round what the 4 bits say exactly.
    scales, biases = _wide(module.scales), module.get("biases")
    dense.weight = mx.dequantize(
        module.weight,
        scales,
        None if biases is None else _wide(biases),
        group_size=module.group_size,
        bits=module.bits,
        mode=module.mode,
    ).astype(mx.float32)
    return dense


def _wide(array: mx.array) -> mx.array:
    return array.astype(mx.float32) if array.dtype in (mx.bfloat16, mx.float16) else array


def weight_bytes(model: nn.Module) -> int:
    return sum(array.nbytes for _, array in tree_flatten(model.parameters()))
