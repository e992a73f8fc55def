"""The prefix cache in RAM: what rows leave behind, under a cap in bytes.

Borrows a row's caches to copy from, takes them over when the row is done; entries are never
written. Nothing of a failed forward gets in: arrays are evaluated before they are stored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from slipstream.backends.mlx.opening import OpenModel
from slipstream.backends.mlx.paths import spread
from slipstream.backends.mlx.prefix.disk.restore import Space
from slipstream.backends.mlx.prefix.disk.side import DiskSide
from slipstream.backends.mlx.prefix.disk.tier import DiskTier
from slipstream.backends.mlx.prefix.outline import Outline
from slipstream.backends.mlx.prefix.state import (
    KeyValues,
    Rest,
    buffers,
    cuttable,
    owned,
    part,
    rest,
    resume,
    viewed,
)
from slipstream.backends.mlx.prefix.tree import Hit, PrefixTree
from slipstream.backends.mlx.row import DeviceRow
from slipstream.contracts.backend import PrefixStats
from slipstream.contracts.row import RowSpec

log = logging.getLogger(__name__)
LEAST = 16  # tokens: shorter prefixes cost more to keep than to compute


class PrefixStore:
    """`cap` in bytes; it may be lowered for a while by `trim`. Borrows `disk`, its second tier."""

    def __init__(
        self,
        model: OpenModel,
        cap: int,
        disk: DiskTier | None = None,
        adapters: Callable[[RowSpec], tuple[str, ...]] = lambda spec: (),
    ) -> None:
        """`adapters`: what tells the adapters of a row, by content and scale, from all others."""
        self.cap = cap
        self._adapters = adapters
        self._model = model
        kinds = spread(model.new_caches()).values()
        self.snapshots = not all(cuttable(cache) for cache in kinds)
        self._tree = PrefixTree(need_snapshots=self.snapshots)
        self._disk = None if disk is None else DiskSide(disk, self._tree, model)
        self.outline = Outline(self._tree)
        self._hits = 0
        self._misses = 0
        self._hit_tokens = 0

    def fetch(self, spec: RowSpec, room: int, patience: float) -> bool:
        """Brings what the disk has of a prompt nearer, a segment at a call. True when it is here,
        as far as it fits into `room` bytes; `patience`: seconds to wait for the disk."""
        if self._disk is None:
            return True
        for form in self._model.forms:
            ids = spec.prompt.ids[: self._limit(form, len(spec.prompt.ids) - 1)]
            if not self._disk.fetch(self._space(spec, form), ids, room, patience):
                self.trim(self.cap)
                return False
        self.trim(self.cap)
        return True

    def begin(self, row: DeviceRow) -> None:
        """Gives a fresh row the longest prefix of its prompt that is known, but never all of it."""
        form, hit = self._found(row.spec)
        if hit.length < LEAST:
            self._misses += 1
            return
        self._hits += 1
        self._hit_tokens += hit.length
        pieces: Sequence[Any] = hit.pieces
        snapshot: Any = hit.snapshot
        model = self._model
        fresh = model.coded_caches() if form else model.plain_caches()
        row.caches = resume(fresh, pieces, snapshot, hit.length)
        row.turned = bool(form and model.turns_at)
        row.computed = row.cached = hit.length

    def _found(self, spec: RowSpec) -> tuple[str, Hit]:
        """The longest prefix, and the form in which rows hold it.

        One in codes that ends before codes begin is none: a cold row has no codes there."""
        ids = spec.prompt.ids
        best = "", Hit(0, (), None)
        for form in self._model.forms:
            limit = self._limit(form, len(ids) - 1)
            hit = self._tree.find(self._space(spec, form), ids, limit)
            least = self._model.turns_at if form else 0
            if hit.length >= least and hit.length > best[1].length:
                best = form, hit
        return best

    def _limit(self, form: str, tokens: int) -> int:
        """Most tokens of a prefix in `form`: none are in the model's type past where codes begin,
        whoever wrote them."""
        return tokens if form else min(tokens, self._model.turns_at or tokens)

    def keep(self, row: DeviceRow) -> None:
        """Copies what `row` has computed; nothing of it may be in flight."""
        self._insert(row, row.computed, take=False)

    def take(self, row: DeviceRow) -> None:
        """Takes over what `row` computed, of the tokens that the host knows. The row is done."""
        self._insert(row, min(row.computed, len(row.ids)), take=True)

    def _insert(self, row: DeviceRow, length: int, *, take: bool) -> None:
        if length < LEAST:
            return
        caches = spread(row.caches)
        found = buffers(caches)
        where = self._space(row.spec, self._form(row))
        whole = take and row.segment is None

        def piece(start: int, stop: int) -> KeyValues:
            if whole and start == 0:
                return viewed(found, stop)
            return owned(part(found, start, stop))

        try:
            snapshot: Rest | None = rest(caches) if row.computed == length else None
            self._tree.insert(where, row.ids[:length], piece, snapshot)
            if self._disk is not None:
                self._disk.note(where, row.ids[:length])
        except RuntimeError as error:  # the forward that made it failed after all
            log.warning("a row's state was not kept: %s", error)
        self.trim(self.cap)

    def trim(self, most: int) -> None:
        """Drops what is least recently used until at most `most` bytes are held."""
        self._tree.evict(most)

    @property
    def nbytes(self) -> int:
        return self._tree.nbytes

    def stats(self) -> PrefixStats:
        return PrefixStats(
            entries=self._tree.entries,
            bytes=self._tree.nbytes,
            hits=self._hits,
            misses=self._misses,
            hit_tokens=self._hit_tokens,
            ssd_bytes=self._disk.nbytes if self._disk else 0,
            ssd_hits=self._disk.hits if self._disk else 0,
            dirty=self._disk.dirty if self._disk else 0,
        )

    def flush(self, seconds: float) -> None:
        """Makes durable what the disk tier lacks; takes at most `seconds`."""
        if self._disk is not None:
            self._disk.flush(seconds)

    def _form(self, row: DeviceRow) -> str:
        """In which `row` holds keys and values now."""
        model = self._model
        return "" if model.turns_at and not row.turned else model.forms[0]

    def _space(self, spec: RowSpec, form: str) -> Space:
        """What separates prefixes beside their tokens: the tenant, the adapters, and the form in
        which rows hold them."""
        return spec.prompt.cache_salt, self._adapters(spec), form
