"""TurboQuant: vectors are turned at random, and each number is rounded to a few best levels.

After Zandieh, Daliri, Hadian and Mirrokni, arXiv 2504.19874. After the turn all numbers of all
vectors have one known distribution, so one codebook fits any model and nothing is calibrated. Keys
spend all their bits on levels and are kept unbiased by their scale, as EDEN (Vargaftik et al.,
arXiv 2108.08842) and RaBitQ (Gao and Long, arXiv 2405.12497) do, not by a sketch of what is left.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from slipstream.backends.mlx.kv.codec import Parts, folded, unfolded
from slipstream.backends.mlx.kv.turbo_bits import Packing
from slipstream.backends.mlx.kv.turbo_codebook import codebook
from slipstream.backends.mlx.kv.turbo_quantiser import Quantiser
from slipstream.backends.mlx.kv.turbo_rotation import Rotation

TINY = 1e-30
"""Stands for the length of a vector of zeros where something is divided by it."""


class TurboCodec:
    """Parts: codes packed into uint8, and a scale as float32. Products are float32.

    For x = |x| u with levels c for the turned r = R u, the scale is |x| / <r, c>. So the part of c
    along r says x, and over random R the rest lies about x alike every way: its mean is nothing."""

    def __init__(self, size: int, bits: int) -> None:
        """`bits` 2, 3, 4 or 8 a number. Raises ModelError for a size that cannot be turned."""
        self.size = size
        self._turn = Rotation(size)
        book = codebook(size, bits)
        self._quantiser = Quantiser(book)
        self._packing = Packing(bits)
        self._symbols = self._packing.table(book.levels)

    @property
    def bytes_per_vector(self) -> int:
        return self._packing.bytes(self.size) + mx.float32.size

    def encode(self, x: mx.array) -> Parts:
        unit, length = _split(x)
        turned = self._turn(unit)
        codes = self._packing.pack(self._quantiser.codes(turned))
        along = mx.sum(turned * self._read(codes), axis=-1, keepdims=True)
        return codes, length / mx.maximum(along, TINY)

    def decode(self, parts: Sequence[mx.array], dtype: mx.Dtype) -> mx.array:
        codes, scale = parts
        return self.finish(self._read(codes) * scale).astype(dtype)

    def query(self, q: mx.array) -> mx.array:
        return q.astype(mx.float32) @ self._turn.matrix

    def scores(self, q: mx.array, parts: Sequence[mx.array]) -> mx.array:
        codes, scale = parts
        flat = folded(q, codes.shape[1])
        return unfolded(flat @ _across(self._read(codes)) * _across(scale), q)

    def mix(self, weights: mx.array, parts: Sequence[mx.array]) -> mx.array:
        codes, scale = parts
        flat = folded(weights, codes.shape[1])
        return unfolded(flat * _across(scale) @ self._read(codes), weights)

    def finish(self, out: mx.array) -> mx.array:
        return out @ _across(self._turn.matrix)

    def _read(self, codes: mx.array) -> mx.array:
        """Turned vectors, before their scale."""
        return self._symbols(self._packing.symbols(codes))


def _split(x: mx.array) -> tuple[mx.array, mx.array]:
    """Unit vectors and their lengths, in float32; a vector of zeros stays one."""
    x = x.astype(mx.float32)
    top = mx.maximum(mx.max(mx.abs(x), axis=-1, keepdims=True), TINY)
    scaled = x / top  # so that no square overflows
    length = mx.sqrt(mx.sum(scaled * scaled, axis=-1, keepdims=True))
    return scaled / mx.maximum(length, TINY), top * length


def _across(x: mx.array) -> mx.array:
    return x.swapaxes(-1, -2)
