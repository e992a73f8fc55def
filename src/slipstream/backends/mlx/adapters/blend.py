"""Which adapters the tokens of one forward run with, and how strongly.

The adapters of a layout lie side by side, A by columns and B by rows, so that a forward has two
products a module whatever its rows ask for; a mask leaves of the first what each token asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx
import numpy as np

from slipstream.backends.mlx.adapters.parts import Adapter, Worn
from slipstream.backends.mlx.row import DeviceRow


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The adapters that lie side by side, in their order."""

    members: tuple[Adapter, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """One module's parts of a layout's adapters. `columns` are (rank, scale) of each member,
    (0, 0.0) where it leaves the module alone. `a` (in, ranks), `b` (ranks, out), of experts one
    of each a line; `gains` (1 + members, out): ones, and what DoRA multiplies by."""

    columns: tuple[tuple[int, float], ...]
    a: mx.array
    b: mx.array
    gains: mx.array | None


class Place(Protocol):
    """Where tokens stand in a forward."""

    @property
    def start(self) -> int: ...
    @property
    def stop(self) -> int: ...


class Blend:
    """`worn` are the adapters of each row, whose tokens lie end to end, `sizes` of each."""

    def __init__(
        self, layout: Layout, worn: Sequence[Sequence[Worn]], sizes: Sequence[int]
    ) -> None:
        self.layout = layout
        places = {adapter: place for place, adapter in enumerate(layout.members)}
        self._lines = np.zeros((len(sizes), len(layout.members)), np.float32)
        self._dora = np.zeros(len(sizes), np.uint32)
        for line, uses in enumerate(worn):
            for use in uses:
                self._lines[line, places[use.adapter]] += use.scale
                if use.adapter.dora:
                    self._dora[line] = places[use.adapter] + 1
        self._sizes = np.array(sizes)
        ends = np.cumsum(self._sizes)
        self._quiet = {
            int(end - size)
            for end, size, uses in zip(ends, sizes, worn, strict=True)
            if not any(use.scale for use in uses)
        }
        self._made: dict[tuple[object, ...], mx.array] = {}
        self._whole: dict[tuple[tuple[int, float], ...], bool] = {}

    def mask(self, stack: Stack, place: Place | None) -> mx.array | None:
        """(tokens, ranks): the factor of each column for each token, of all or of those at
        `place`; None where those run with no adapter."""
        if place is not None and place.start in self._quiet:
            return None
        key = (stack.columns, stack.a.dtype)
        if key not in self._made:
            ranks = [rank for rank, _ in stack.columns]
            scales = np.array([scale for _, scale in stack.columns], np.float32)
            lines = np.repeat(self._lines * scales, ranks, axis=1)
            whole = mx.array(np.repeat(lines, self._sizes, axis=0))
            self._made[key] = whole.astype(stack.a.dtype)
        return self._part(key, place)

    def whole(self, stack: Stack) -> bool:
        """Whether every token has all columns of `stack`, as they are."""
        if stack.columns not in self._whole:  # many modules have the same, in every layer
            scales = np.array([scale for rank, scale in stack.columns if rank], np.float32)
            there = [rank > 0 for rank, _ in stack.columns]
            self._whole[stack.columns] = bool(np.all(self._lines[:, there] * scales == 1.0))
        return self._whole[stack.columns]

    def gains(self, stack: Stack, place: Place | None) -> mx.array | None:
        """(tokens, out), or None where no token runs with a DoRA adapter."""
        if stack.gains is None or not self._dora.any():
            return None
        if ("dora",) not in self._made:
            self._made["dora",] = mx.array(np.repeat(self._dora, self._sizes))
        return stack.gains[self._part(("dora",), place)]

    def _part(self, key: tuple[object, ...], place: Place | None) -> mx.array:
        whole = self._made[key]
        if place is None:
            return whole
        own = (*key, place.start, place.stop)
        if own not in self._made:
            self._made[own] = whole[place.start : place.stop]
        return self._made[own]


class Blends:
    """Makes the blend of each forward; one that equals the last is the last."""

    def __init__(self) -> None:
        self._layout = Layout(())
        self._key: tuple[object, ...] = ()
        self._last: Blend | None = None

    def of(self, rows: Sequence[DeviceRow], sizes: Mapping[DeviceRow, int]) -> Blend | None:
        """`rows` in the order of their tokens; None where none has an adapter."""
        if not any(row.worn for row in rows):
            return None
        key = tuple((row.worn, sizes[row]) for row in rows)
        if self._last is None or key != self._key:
            layout = self._fitting([use.adapter for row in rows for use in row.worn])
            self._last = Blend(layout, [row.worn for row in rows], [sizes[row] for row in rows])
            self._key = key
        return self._last

    def forget(self) -> None:
        """Nothing of before is used again: an adapter has come or gone."""
        self._layout, self._key, self._last = Layout(()), (), None

    def _fitting(self, needed: Sequence[Adapter]) -> Layout:
        """The layout that is, while it has all that are needed and few that no row runs with."""
        wanted = dict.fromkeys(needed)
        members = self._layout.members
        idle = sum(not adapter.rows and adapter not in wanted for adapter in members)
        if not wanted.keys() <= set(members) or 2 * idle > len(members):
            kept = [adapter for adapter in members if adapter.rows or adapter in wanted]
            self._layout = Layout(tuple(dict.fromkeys((*kept, *needed))))
        return self._layout
