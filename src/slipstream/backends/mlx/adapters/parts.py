"""An adapter in memory: its low-rank parts, one for each module that it changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from slipstream.backends.mlx.adapters.files import Piece, refused
from slipstream.backends.mlx.adapters.header import Tensor
from slipstream.backends.mlx.adapters.targets import Spot
from slipstream.contracts.adapters import AdapterInfo

COPIES_A = 3  # of each part: its own, one in the stacks that forwards read, and one beside others
COPIES_B = 2


@dataclass(frozen=True, slots=True, eq=False)
class LowRank:
    """y += scale * (x A) B. `a` (in, rank), `b` (rank, out); of experts, one of each a line.

    With `gain`, (out,), what the weights make of x is then multiplied by it (DoRA)."""

    a: mx.array
    b: mx.array
    scale: float
    gain: mx.array | None

    @property
    def rank(self) -> int:
        return int(self.a.shape[-1])


@dataclass(slots=True, eq=False)
class Adapter:
    """One that is mounted. `rows` are those that run with it now."""

    info: AdapterInfo
    parts: Mapping[int, LowRank]  # by the id of the bare module that each changes
    rows: int = field(default=0)

    @property
    def dora(self) -> bool:
        return self.info.method == "dora"


@dataclass(frozen=True, slots=True)
class Worn:
    """An adapter of a row, which holds on to it."""

    adapter: Adapter
    scale: float


def size(pieces: Mapping[Piece, Spot]) -> int:
    """Bytes that the parts will take, copies included."""
    total = 0
    for piece, spot in pieces.items():
        (width, out), rank = spot.sizes, piece.rule.rank
        low = (COPIES_A * width + COPIES_B * out) * rank * (spot.experts or 1)
        gain = COPIES_B * out if piece.magnitude is not None else 0
        total += (low + gain) * spot.dtype.size
    return total


def made(piece: Piece, spot: Spot, data: bytes, *, transposed: bool) -> LowRank:
    """The part, evaluated. Raises InvalidRequest where it holds a number that is none."""
    a, b = (_array(data, tensor) for tensor in (piece.a, piece.b))
    if transposed or spot.experts is not None:
        a, b = a.swapaxes(-1, -2), b.swapaxes(-1, -2)
    gain = None
    if piece.magnitude is not None:
        magnitude = _array(data, piece.magnitude).astype(mx.float32).reshape(-1)
        weight = dense(spot.module).astype(mx.float32)
        low = piece.rule.scale * (a.astype(mx.float32) @ b.astype(mx.float32)).T
        gain = (magnitude / mx.linalg.norm(weight + low, axis=1)).astype(spot.dtype)
    scale = piece.rule.scale
    if spot.dtype == mx.float32:
        b, scale = b.astype(mx.float32) * scale, 1.0  # then most forwards need no factors
    a, b = (mx.contiguous(array.astype(spot.dtype)) for array in (a, b))
    whole = [array for array in (a, b, gain) if array is not None]
    mx.eval(whole)
    # A number that is none would reach rows that never asked for it, as nought times it is none.
    if not all(bool(mx.all(mx.isfinite(array))) for array in whole):
        raise refused(f"layers.{piece.target} holds an infinity or no number at all")
    return LowRank(a, b, scale, gain)


def dense(module: nn.Module) -> mx.array:
    """The weights, (out, in), dequantised where they are not."""
    if not isinstance(module, nn.QuantizedLinear):
        return module.weight
    return mx.dequantize(
        module.weight,
        module.scales,
        module.get("biases"),
        group_size=module.group_size,
        bits=module.bits,
        mode=module.mode,
    )


def _array(data: bytes, tensor: Tensor) -> mx.array:
    raw = np.frombuffer(data[tensor.start : tensor.stop], np.uint8)
    kinds = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16}
    return mx.array(raw).view(kinds[tensor.dtype]).reshape(tensor.shape)
