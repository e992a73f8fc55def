"""Numbers to the codes of their nearest levels, without a search."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from slipstream.backends.mlx.kv.turbo_codebook import Codebook
from slipstream.backends.mlx.kv.turbo_lookup import Table

COUNTED = 7
"""Up to so many bounds it is quicker to compare with each than to look into the grid."""


class Quantiser:
    """One look at a grid that is so fine that a cell holds one bound of the codebook at most.

    Numbers are placed in cells by the same arithmetic as the bounds were. It never reverses their
    order, so the codes are exact however it rounds."""

    def __init__(self, book: Codebook) -> None:
        self._bounds = book.bounds.astype(np.float32).tolist()
        gap = min(np.diff(self._bounds), default=2.0)
        self._reach = self._bounds[-1] + gap
        self._cells = 1 << int(np.ceil(np.log2(4 * self._reach / gap)))
        self._grid = Table(self._filled())

    def codes(self, x: mx.array) -> mx.array:
        """(...) of float32 -> (...) of uint8: how many bounds lie below each."""
        return self.counted(x) if len(self._bounds) <= COUNTED else self.looked_up(x)

    def counted(self, x: mx.array) -> mx.array:
        codes = mx.zeros(x.shape, mx.uint8)
        for bound in self._bounds:
            codes = codes + (x > bound)
        return codes

    def looked_up(self, x: mx.array) -> mx.array:
        cell = self._grid(self._cell(x)).reshape(*x.shape, 2)
        return (cell[..., 1] + (x > cell[..., 0])).astype(mx.uint8)

    def _cell(self, x: mx.array) -> mx.array:
        place = (x + self._reach) * (self._cells / (2 * self._reach))
        cell = mx.clip(place, 0, self._cells - 1).astype(mx.uint32)
        return cell & (self._cells - 1)  # what is not a number has a cell, too

    def _filled(self) -> NDArray[np.float64]:
        """For each cell the bound in it, or none, and how many bounds lie in cells below."""
        held = np.array(self._cell(mx.array(self._bounds)))
        count = np.bincount(held, minlength=self._cells)
        assert np.max(count) == 1
        bound = np.full(self._cells, np.inf)
        bound[held] = self._bounds
        return np.stack([bound, np.cumsum(count) - count], axis=1)
