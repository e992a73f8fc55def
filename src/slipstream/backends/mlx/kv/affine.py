"""Affine codes: each group of numbers is rounded to whole steps between its least and its most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from slipstream.backends.mlx.kv.codec import Parts, folded, unfolded


@dataclass(frozen=True, slots=True)
class AffineCodec:
    """Parts: codes packed into uint32, and a scale and an offset of the vectors' own `dtype` for
    each `group` numbers, which divides `size`.

    `direct`: most queries of one key head for which products with the codes are quicker than
    products with what they say; MLX has fast ones for a GPU."""

    size: int
    bits: int
    group: int
    dtype: mx.Dtype
    direct: int

    def __post_init__(self) -> None:
        assert self.size % self.group == 0

    @property
    def bytes_per_vector(self) -> int:
        return self.size * self.bits // 8 + 2 * self.dtype.size * (self.size // self.group)

    def encode(self, x: mx.array) -> Parts:
        return tuple(mx.quantize(x, group_size=self.group, bits=self.bits))

    def decode(self, parts: Sequence[mx.array], dtype: mx.Dtype) -> mx.array:
        return mx.dequantize(*parts, group_size=self.group, bits=self.bits).astype(dtype)

    def query(self, q: mx.array) -> mx.array:
        return q

    def scores(self, q: mx.array, parts: Sequence[mx.array]) -> mx.array:
        flat = folded(q, parts[0].shape[1])
        if flat.shape[2] <= self.direct:
            found = mx.quantized_matmul(
                flat, *parts, transpose=True, group_size=self.group, bits=self.bits
            )
        else:
            found = flat @ self.decode(parts, q.dtype).swapaxes(-1, -2)
        return unfolded(found, q)

    def mix(self, weights: mx.array, parts: Sequence[mx.array]) -> mx.array:
        flat = folded(weights, parts[0].shape[1])
        if flat.shape[2] <= self.direct:
            found = mx.quantized_matmul(
                flat, *parts, transpose=False, group_size=self.group, bits=self.bits
            )
        else:
            found = flat @ self.decode(parts, weights.dtype)
        return unfolded(found, weights)

    def finish(self, out: mx.array) -> mx.array:
        return out
