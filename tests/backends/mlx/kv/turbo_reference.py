"""TurboQuant in NumPy and double precision: ours, one vector at a time, and the two of the paper,
arXiv 2504.19874. `turn` is an orthogonal matrix that a row vector is multiplied with.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

MSE_TABLE = {1: 0.36, 2: 0.117, 3: 0.03, 4: 0.009}
"""The paper's distortions of Theorem 1; it rounds the last two down from 0.0345 and 0.0095."""


def mse_bound(bits: int) -> float:
    """Theorem 1: of the squared error of unit vectors."""
    return float(np.sqrt(3) * np.pi / 2 * 4.0**-bits)


def product_bound(size: int, bits: int) -> float:
    """Theorem 2: of the squared error of an inner product with a unit vector."""
    return float(np.sqrt(3) * np.pi**2 / size * 4.0**-bits)


def coordinate(size: int, points: int = 1_000_001) -> tuple[Floats, Floats]:
    """Values of one coordinate of a random unit vector, and their probabilities."""
    x = np.linspace(-1, 1, points)
    mass = (1 - x**2) ** ((size - 3) / 2)
    return x, mass / np.sum(mass)


def rotation(size: int, rounds: int = 3) -> Floats:
    """For powers of two: signs from a hash, then Sylvester's matrix, and so on."""
    hadamard = np.ones((1, 1))
    while len(hadamard) < size:
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    digest = hashlib.shake_128(f"turn {size}".encode()).digest(rounds * size // 8)
    bits = [byte >> (7 - place) & 1 for byte in digest for place in range(8)]
    signs = np.array(bits).reshape(rounds, size) * 2.0 - 1
    turned = np.eye(size)
    for row in signs:
        turned = turned * row @ hadamard / np.sqrt(size)
    return turned


def unpacked(packed: NDArray[np.uint8], bits: int) -> Codes:
    """Bytes (..., n) hold the codes one after the other, all lowest bits first."""
    each = np.unpackbits(packed, axis=-1, bitorder="little")
    codes: Codes = each.reshape(*packed.shape[:-1], -1, bits) @ (1 << np.arange(bits))
    return codes


@dataclass(frozen=True, slots=True)
class Encoded:
    """`margin`: how far the nearest number is from where its code would change."""

    codes: Codes
    scale: float
    margin: float


def encode(x: Floats, turn: Floats, levels: Floats) -> Encoded:
    """The scale makes the product of x with what it decodes to that of x with itself."""
    length = float(np.linalg.norm(x))
    turned = (x / length if length else x) @ turn
    codes = nearest(levels, turned)
    margin = float(np.min(np.abs(turned[:, None] - (levels[1:] + levels[:-1]) / 2)))
    along = float(turned @ levels[codes])
    return Encoded(codes, length / along if along else 0.0, margin)


def decode(encoded: Encoded, turn: Floats, levels: Floats) -> Floats:
    return encoded.scale * levels[encoded.codes] @ turn.T


def nearest(levels: Floats, x: Floats) -> Codes:
    return np.searchsorted((levels[1:] + levels[:-1]) / 2, x)


def paper_mse(x: Floats, turn: Floats, levels: Floats) -> Floats:
    """Algorithm 1: unit vectors (n, size) encoded and decoded. Their products are too small."""
    return levels[nearest(levels, x @ turn)] @ turn.T


def paper_product(x: Floats, turn: Floats, normal: Floats, levels: Floats) -> Floats:
    """Algorithm 2: `levels` of one bit less than a number takes, and signs of a sketch of what
    they leave over. `normal` is a square matrix of independent normal numbers."""
    coarse = paper_mse(x, turn, levels)
    left = x - coarse
    length = np.linalg.norm(left, axis=-1, keepdims=True)
    signs = np.sign(left @ normal.T)
    return coarse + np.sqrt(np.pi / 2) / x.shape[-1] * length * (signs @ normal)
