"""From the prefix tree to the disk, one segment at a call, on the device thread.

It copies to the host's memory and hands over; whether and when it may do so is not known here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipstream.backends.mlx.prefix.disk.arrays import (
    Layout,
    Unstorable,
    between,
    keys_written,
    state_written,
)
from slipstream.backends.mlx.prefix.disk.file import Kind, Label, Prefix, Tensor
from slipstream.backends.mlx.prefix.disk.restore import Space
from slipstream.backends.mlx.prefix.disk.tier import DiskTier
from slipstream.backends.mlx.prefix.state import KeyValues
from slipstream.backends.mlx.prefix.tree import Node, PrefixTree

log = logging.getLogger(__name__)

SEGMENT = 512  # tokens of a file, at most
SEGMENT_BYTES = 32 << 20  # and about as many bytes: what is copied at a time while rows wait
WORTH = 64  # tokens: what is shorter is computed sooner than it is read
MOST = 1024  # sequences that may wait; the oldest are forgotten

Known = tuple[Space, tuple[int, ...]]  # a sequence of tokens in its space


@dataclass(frozen=True, slots=True)
class Handed:
    """The last segment that the tier was given, and of which sequence it was."""

    known: Known
    name: str


class Spill:
    """Borrows `tree` and `tier`. Belongs to the device thread."""

    def __init__(self, tier: DiskTier, tree: PrefixTree, layouts: Mapping[str, Layout]) -> None:
        self._tier = tier
        self._tree = tree
        self._layouts = layouts
        self._waiting: dict[Known, set[str]] = {}  # with the segments of each that were written
        self._handed: Handed | None = None
        tier.write_with(self.write_one)

    @property
    def dirty(self) -> int:
        """Sequences that may not be on disk as a whole."""
        return len(self._waiting)

    def note(self, space: Space, ids: Sequence[int]) -> None:
        """The tree has just got the state of `ids`."""
        if len(ids) >= WORTH:
            self._waiting.setdefault((space, tuple(ids)), set())
        while len(self._waiting) > MOST:
            del self._waiting[next(iter(self._waiting))]

    def write_one(self) -> bool:
        """Hands one segment to the tier, which must be settled. False when nothing is left."""
        self._book()
        while self._waiting:
            # The newest first: it goes on where others end, so these need no files of their own.
            known, written = next(reversed(self._waiting.items()))
            part = self._next_part(*known)
            # One that was written and is not there has been dropped again: the cap is too low.
            if part is not None and part[0].name not in written:
                self._handed = Handed(known, part[0].name)
                self._tier.put(*part)
                return True
            del self._waiting[known]
        return False

    def _book(self) -> None:
        """Notes that the last segment was written, if it was."""
        handed, self._handed = self._handed, None
        settled = self._tier.settled
        if handed and settled and settled.result() and handed.known in self._waiting:
            self._waiting[handed.known].add(handed.name)

    def _next_part(
        self, space: Space, ids: tuple[int, ...]
    ) -> tuple[Label, Mapping[str, Tensor]] | None:
        """The first segment of `ids` that is in the tree and not on disk."""
        path = self._tree.path(space, ids)
        layout = self._layouts[space[-1]]
        digest = layout.space(self._tier.identity, *space[:-1])
        try:
            keys = self._next_keys(digest, ids, path) if layout.keyed else None
            return keys or self._next_state(digest, ids, path)
        except Unstorable as error:
            log.debug("a prefix cannot be written to disk: %s", error)
            return None

    def _next_keys(
        self, digest: str, ids: tuple[int, ...], path: Sequence[tuple[Node, int]]
    ) -> tuple[Label, Mapping[str, Tensor]] | None:
        ids = ids[: sum(taken for _, taken in path)]
        walked = list(self._tier.walk(Prefix(digest, ids), ids))
        start = sum(tokens for _, tokens in walked)
        if start == len(ids):
            self._tier.touch(entry for entry, _ in walked)
            return None
        pieces: list[tuple[int, Any]] = []
        place = 0
        for node, taken in path:
            pieces.append((place, node.piece))
            place += taken
        stop = min(start + tokens_of_a_file(pieces[0][1]), len(ids))
        tensors = keys_written(between(pieces, start, stop))
        begin = Prefix(digest, ids).key(start)
        return self._label(Kind.KEYS, digest, begin, start, ids[start:stop]), tensors

    def _next_state(
        self, digest: str, ids: tuple[int, ...], path: Sequence[tuple[Node, int]]
    ) -> tuple[Label, Mapping[str, Tensor]] | None:
        stored = {entry.label.start for entry in self._tier.states(digest, ids, WORTH - 1)}
        place = 0
        for node, taken in path:
            snapshots: Mapping[int, Any] = node.snapshots
            for length, snapshot in snapshots.items():
                start = place + length
                if length <= taken and start >= WORTH and start not in stored:
                    note, tensors = state_written(snapshot)
                    begin = Prefix(digest, ids).key(start)
                    return self._label(Kind.STATE, digest, begin, start, note=note), tensors
            place += taken
        return None

    def _label(
        self,
        kind: Kind,
        digest: str,
        begin: str,
        start: int,
        ids: tuple[int, ...] = (),
        note: str = "",
    ) -> Label:
        return Label(
            kind=kind,
            space=digest,
            model=self._tier.model,
            begin=begin,
            start=start,
            ids=ids,
            note=note,
        )


def tokens_of_a_file(piece: KeyValues) -> int:
    """How many tokens like those of `piece` go into one file."""
    arrays = [array for pair in piece.arrays.values() for array in pair]
    each = sum(array.nbytes // max(1, array.shape[-2]) for array in arrays)
    return max(1, min(SEGMENT, SEGMENT_BYTES // max(1, each)))
