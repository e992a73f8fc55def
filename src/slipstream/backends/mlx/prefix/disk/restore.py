"""From the disk into the prefix tree, a segment at a time, so that nothing on the device waits.

A prompt whose prefix is still on its way is asked for again in the next turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from slipstream.backends.mlx.prefix.disk.arrays import Layout, keys_loaded, state_loaded
from slipstream.backends.mlx.prefix.disk.file import Damaged, Kind, Prefix, Tensor
from slipstream.backends.mlx.prefix.disk.index import Entry
from slipstream.backends.mlx.prefix.disk.tier import DiskTier, Lost
from slipstream.backends.mlx.prefix.state import KeyValues, owned
from slipstream.backends.mlx.prefix.state import part as between
from slipstream.backends.mlx.prefix.tree import PrefixTree

GAIN = 32  # tokens that reading must save
AHEAD = 3  # segments that are being read, the one that is needed next included
AGAIN = 10.0  # seconds in which a segment is read once: when it is gone by then, there is no room

Space = tuple[str, tuple[str, ...], str]
"""A tenant, adapters, and the form in which rows hold keys and values; see OpenModel.forms."""


@dataclass(frozen=True, slots=True)
class Part:
    """A segment of which the first `tokens` tokens are of use; a state has none."""

    entry: Entry
    tokens: int

    @property
    def stop(self) -> int:
        return self.entry.label.start + self.tokens


class Restorer:
    """Borrows `tree` and `tier`. Belongs to the device thread."""

    def __init__(
        self,
        tier: DiskTier,
        tree: PrefixTree,
        layouts: Mapping[str, Layout],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.hits = 0
        self._tier = tier
        self._tree = tree
        self._layouts = layouts
        self._now = now
        self._read: dict[str, float] = {}  # segment -> when it came

    def advance(self, space: Space, ids: Sequence[int], room: int, patience: float) -> bool:
        """Brings at most one segment of the longest prefix of `ids` into the tree.

        True when there is nothing more to come. `room`: bytes that the prefix may take;
        `patience`: seconds to wait for the disk."""
        parts = self._missing(space, ids, room)
        if not parts:
            return True
        for part in parts[:AHEAD]:
            self._tier.ask(part.entry)
        first = parts[0]
        try:
            tensors = self._tier.take(first.entry, patience)
            if tensors is None:
                return False
            self._insert(space, ids, first, tensors)
        except (Lost, Damaged):
            self._mark(first.entry.label.name)
            return False  # without it the next look finds less
        self._mark(first.entry.label.name)
        self.hits += len(parts) == 1
        return len(parts) == 1

    def _missing(self, space: Space, ids: Sequence[int], room: int) -> list[Part]:
        """What is to be read, in order, so that the tree's longest usable prefix of `ids` grows."""
        known = self._tree.find(space, ids, len(ids)).length
        if len(ids) < known + GAIN:
            return []
        layout = self._layouts[space[-1]]
        digest = layout.space(self._tier.identity, *space[:-1])
        held = self._tree.matched(space, ids)
        if not layout.whole:
            parts = self._keys(layout, digest, ids, held)
            if not parts or parts[-1].stop < known + GAIN:
                return []
            return self._that_fit(parts, room)
        for entry in self._tier.states(digest, ids, known + GAIN - 1):
            stop = entry.label.start
            parts = self._keys(layout, digest, ids[:stop], held) if held < stop else []
            if max([held, *(part.stop for part in parts)]) >= stop or not layout.keyed:
                parts = [*parts, Part(entry, 0)]
                if self._that_fit(parts, room) == parts:
                    return parts
        return []

    def _keys(self, layout: Layout, digest: str, ids: Sequence[int], held: int) -> list[Part]:
        if not layout.keyed:
            return []
        walked = self._tier.walk(Prefix(digest, ids), ids)
        parts = [Part(entry, tokens) for entry, tokens in walked]
        return [part for part in parts if part.stop > held]

    def _that_fit(self, parts: Sequence[Part], room: int) -> list[Part]:
        """The first of `parts` that have room together and were not read a moment ago."""
        fitting: list[Part] = []
        for part in parts:
            room -= part.entry.size
            read = self._read.get(part.entry.label.name)
            if room < 0 or (read is not None and self._now() - read < AGAIN):
                break
            fitting.append(part)
        return fitting

    def _mark(self, name: str) -> None:
        now = self._now()
        self._read = {n: when for n, when in self._read.items() if now - when < AGAIN}
        self._read[name] = now

    def _insert(
        self, space: Space, ids: Sequence[int], part: Part, tensors: Mapping[str, Tensor]
    ) -> None:
        """Raises Damaged when the tensors are not what this model has."""
        label, layout = part.entry.label, self._layouts[space[-1]]
        held = self._tree.matched(space, ids[: part.stop])
        if label.kind is Kind.STATE:
            state = state_loaded(label.note, tensors, layout.whole)
            if held >= part.stop or not layout.keyed:
                self._tree.insert(space, ids[: part.stop], nothing, state)
            return
        arrays = keys_loaded(tensors, layout.keyed, len(label.ids))

        def piece(start: int, stop: int) -> KeyValues:
            return owned(between(arrays, start - label.start, stop - label.start))

        if held >= label.start:  # else what was before it has just been evicted
            self._tree.insert(space, ids[: part.stop], piece)


def nothing(start: int, stop: int) -> KeyValues:
    """The keys and values of a model that has none."""
    return KeyValues({}, 0)
