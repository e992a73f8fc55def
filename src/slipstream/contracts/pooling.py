"""How a model's states become one vector for a text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class PoolMode(StrEnum):
    """Which states of a text count, of those that the model would give its head."""

    FIRST = "cls"  # that of the first token
    LAST = "last"
    MEAN = "mean"  # of all tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling:
    """The first `size` entries of the pooled states. `normalized`: then of length 1."""

    mode: PoolMode
    size: int
    normalized: bool

    def __post_init__(self) -> None:
        assert self.size >= 1
