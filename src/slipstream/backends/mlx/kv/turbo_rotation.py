"""A fixed random rotation: rounds of random signs and a Hadamard transform.

Unlike a product with a matrix, the transform of a vector never depends on how many stand beside it,
so what is encoded with it has the same bytes in any chunk.
"""

from __future__ import annotations

import hashlib

import mlx.core as mx
import numpy as np

from slipstream.backends.mlx.kv.turbo_bits import MULTIPLE
from slipstream.contracts.errors import ModelError

ROUNDS = 3
"""Fewer leave vectors with one or two large numbers lumpy, where the codes are poor."""

FACTORS = (1, 12, 20, 28)
_PRODUCTS = (factor << power for factor in FACTORS for power in range(11))
SIZES = tuple(sorted(size for size in _PRODUCTS if size % MULTIPLE == 0 and size <= 1024))


class Rotation:
    """Of vectors of one of SIZES: for each size one rotation, the same anywhere."""

    def __init__(self, size: int) -> None:
        """Raises ModelError for a size that there is no Hadamard matrix for."""
        if size not in SIZES:
            other = "affine:8:32" if size % 32 == 0 else "bf16"
            raise ModelError(
                f"--kv-scheme turbo takes vectors of {', '.join(map(str, SIZES))} numbers, and "
                f"this model keeps some of {size}. Take --kv-scheme {other}."
            )
        self._signs = [mx.array(signs) for signs in _signs(size)]
        self.matrix = self(mx.eye(size))
        """(size, size): a row vector times it is rotated, to rounding."""

    def __call__(self, x: mx.array) -> mx.array:
        """(..., size) of float32 -> the same."""
        for signs in self._signs:
            x = mx.hadamard_transform(x * signs)
        return x


def _signs(size: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """(ROUNDS, size) of -1 and 1, from a hash: NumPy's generators may change between versions."""
    digest = hashlib.shake_128(f"turn {size}".encode()).digest(ROUNDS * size // 8)
    bits = np.unpackbits(np.frombuffer(digest, np.uint8)).reshape(ROUNDS, size)
    return bits.astype(np.float32) * 2 - 1
