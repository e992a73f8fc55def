"""Products whose lines have the same bits beside any others: what a CPU needs for that."""

from __future__ import annotations

import mlx.core as mx

FEWEST = 4  # lines: with fewer, MKL sums in another order


def filled(array: mx.array, count: int, axis: int) -> mx.array:
    """With zeros behind, `count` in all along `axis`, where there are fewer."""
    short = count - array.shape[axis]
    if short <= 0:
        return array
    return mx.pad(array, [(0, short if i == axis else 0) for i in range(array.ndim)])
