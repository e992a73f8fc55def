"""The noise of a draw: a number from (seed, position in the row), and from nothing else.

One uniform a draw is enough, since a token is drawn by inverting the cumulative distribution; so it
is made on the host, and rows cannot disturb one another's.
"""

from __future__ import annotations

_WORD = (1 << 64) - 1


def mixed(x: int) -> int:
    """splitmix64's finaliser (Steele, Lea, Flood 2014): 64 bits in, 64 well mixed bits out."""
    x = (x + 0x9E3779B97F4A7C15) & _WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _WORD
    return x ^ (x >> 31)


def uniform(seed: int, position: int, stream: int = 0) -> float:
    """In [0, 1), 24 bits, exact in float32. `stream` separates several draws at one position."""
    word = mixed(mixed(mixed(seed & _WORD) ^ position) ^ stream)
    return (word >> 40) / float(1 << 24)
