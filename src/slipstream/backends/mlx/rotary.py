"""Rotary positions on a CPU: a forward's layers share one table of cosines and sines.

MLX has no rotary kernel for a CPU and works the table out anew for every layer's queries and keys.
A rotary module turns pairs of numbers, so whatever its kind, what it makes of ones and zeros is
its table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import mlx.core as mx
import mlx.nn as nn

_PROBED = (0, 1, 37, 1000)  # positions at which a table must do what its module does
_TOLERANCE = 1e-5


@dataclass(frozen=True, slots=True)
class Table:
    """Each (tokens, 1, 1, head size): what a number and its partner are multiplied with."""

    own: mx.array
    partner: mx.array


class Rotary:
    """Does what `module` does to heads of `size`, by a table that like modules share."""

    def __init__(self, module: nn.Module, size: int) -> None:
        self._module = module
        self._size = size
        settings = _settings(module)
        self._dims = settings.get("dims") or settings.get("dim") or size
        self._neighbours = bool(settings.get("traditional"))

    @classmethod
    def of(cls, module: nn.Module, size: int) -> Self | None:
        """None when numbers say that `module` does not turn pairs."""
        made = cls(module, size)
        positions = mx.array(_PROBED, mx.int32)
        x = mx.random.normal((len(_PROBED), 2, 1, size), key=mx.random.key(0))
        try:
            found = made.turned(x, made.table(positions, x.dtype))
            wanted = module(x, offset=positions)
        except (ValueError, TypeError):
            return None
        return made if mx.allclose(found, wanted, atol=_TOLERANCE).item() else None

    def like(self, other: Rotary) -> bool:
        """Whether one table serves both."""
        mine, theirs = _settings(self._module), _settings(other._module)
        return (
            type(self._module) is type(other._module)
            and self._size == other._size
            and mine.keys() == theirs.keys()
            and all(_equal(value, theirs[name]) for name, value in mine.items())
        )

    def table(self, positions: mx.array, dtype: mx.Dtype) -> Table:
        """positions (tokens,) int32."""
        shape = (positions.shape[0], 1, 1)
        ones = mx.ones((*shape, self._dims // 2), dtype)
        still = mx.ones((*shape, self._size - self._dims), dtype)
        made = self._module(self._joined(ones, mx.zeros_like(ones), still), offset=positions)
        cosines, sines = self._pairs(made)
        return Table(
            self._joined(cosines, cosines, still),
            self._joined(-sines, sines, mx.zeros_like(still)),
        )

    def turned(self, x: mx.array, table: Table) -> mx.array:
        """x (tokens, heads, 1, size) -> the same."""
        first, second = self._pairs(x)
        return x * table.own + self._joined(second, first, x[..., self._dims :]) * table.partner

    def _pairs(self, x: mx.array) -> tuple[mx.array, mx.array]:
        if self._neighbours:
            return x[..., : self._dims : 2], x[..., 1 : self._dims : 2]
        half = self._dims // 2
        return x[..., :half], x[..., half : self._dims]

    def _joined(self, first: mx.array, second: mx.array, rest: mx.array) -> mx.array:
        if self._neighbours:
            woven = mx.stack([first, second], axis=-1).reshape(*first.shape[:-1], self._dims)
            parts = [woven, rest]
        else:
            parts = [first, second, rest]
        parts = [part for part in parts if part.shape[-1]]
        return parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=-1)


def shared(found: dict[int, Rotary | None]) -> dict[int, Rotary]:
    """By layer, with one object for all that are alike."""
    kinds: list[Rotary] = []
    chosen = {}
    for layer, rotary in found.items():
        if rotary is None:
            continue
        kind = next((kind for kind in kinds if kind.like(rotary)), None)
        if kind is None:
            kinds.append(kind := rotary)
        chosen[layer] = kind
    return chosen


def _settings(module: nn.Module) -> dict[str, Any]:
    """Numbers and arrays that a module was made with."""
    return {**vars(module), **module}


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, mx.array) and isinstance(other, mx.array):
        return bool(mx.array_equal(one, other).item())
    return bool(one == other)
