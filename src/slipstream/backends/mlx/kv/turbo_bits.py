"""Codes of 2, 3, 4 or 8 bits as bytes without a gap, and back as symbols: some codes in one number.

A symbol is small enough to look several numbers up at once, which is what makes reading cheap.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from slipstream.backends.mlx.kv.turbo_lookup import Table

WIDTHS = (2, 3, 4, 8)
MULTIPLE = 8
"""Vectors of a multiple of so many numbers fill whole bytes at every width."""


@dataclass(frozen=True, slots=True)
class Packing:
    bits: int

    @property
    def codes(self) -> int:
        """How many codes a symbol holds, the first in its lowest bits. Symbols of 3-bit codes have
        12 bits, all others 8."""
        return 4 if self.bits == 3 else 8 // self.bits

    def bytes(self, size: int) -> int:
        return size * self.bits // 8

    def pack(self, codes: mx.array) -> mx.array:
        """(..., size) of uint8 -> (..., bytes) of uint8."""
        if self.bits == 8:
            return codes
        wide = codes.astype(mx.uint16)
        symbols = wide[..., :: self.codes]
        for place in range(1, self.codes):
            symbols = symbols | wide[..., place :: self.codes] << place * self.bits
        return _as_bytes(symbols) if self.bits == 3 else symbols.astype(mx.uint8)

    def symbols(self, packed: mx.array) -> mx.array:
        """(..., bytes) of uint8 -> (..., size / codes) of unsigned integers."""
        return _as_twelve_bits(packed) if self.bits == 3 else packed

    def table(self, of_code: NDArray[np.float64]) -> Table:
        """A number for each code, as the numbers of each symbol."""
        symbols = np.arange(1 << self.bits * self.codes)[:, None]
        places = np.arange(self.codes) * self.bits
        return Table(of_code[symbols >> places & ((1 << self.bits) - 1)])


def _as_bytes(symbols: mx.array) -> mx.array:
    """Two of 12 bits are three bytes."""
    first, second = symbols[..., ::2], symbols[..., 1::2]
    three = [first & 255, first >> 8 | (second & 15) << 4, second >> 4]
    packed = mx.stack(three, axis=-1).astype(mx.uint8)
    return packed.reshape(*symbols.shape[:-1], 3 * first.shape[-1])


def _as_twelve_bits(packed: mx.array) -> mx.array:
    three = packed.reshape(*packed.shape[:-1], packed.shape[-1] // 3, 3).astype(mx.uint16)
    low, middle, high = three[..., 0], three[..., 1], three[..., 2]
    symbols = mx.stack([low | (middle & 15) << 8, middle >> 4 | high << 4], axis=-1)
    return symbols.reshape(*packed.shape[:-1], 2 * low.shape[-1])
