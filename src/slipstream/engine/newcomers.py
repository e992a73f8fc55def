"""Makes the rows of newcomers: at once, or when what another row fills for them is there.

Knows who waits for whom, and asks the backend to keep and fork; nothing of forwards and faults.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from itertools import takewhile

from slipstream.contracts.backend import Backend, Row
from slipstream.contracts.errors import Fault
from slipstream.contracts.row import Failed
from slipstream.engine.guard import forward_fault, guarded, open_fault
from slipstream.engine.prefixes import awaited, boundaries, next_stops
from slipstream.engine.rows import Awaited, Live, Stop

log = logging.getLogger(__name__)


class Newcomers:
    """Borrows `rows`, all that are admitted, in their order; one without a row is a newcomer.

    `flies` says whether a row is in a launch that is not read yet."""

    def __init__(
        self,
        backend: Backend,
        rows: Mapping[int, Live],
        flies: Callable[[Row], bool],
        end: Callable[[Live, Failed], None],
    ) -> None:
        self._backend = backend
        self._rows = rows
        self._flies = flies
        self._end = end

    def keep(self) -> None:
        """Gives the prefix cache what rows have computed that rest at a stop for it."""
        for key, stop in next_stops(self._rows.values()).items():
            live = self._rows[key]
            reached = live.computed >= stop.length
            if live.row is None or not reached or not stop.keep or self._flies(live.row):
                continue
            try:
                guarded(forward_fault, self._backend.keep, live.row)
            except Fault as fault:
                log.warning("a prefix was not kept: %s", fault)
            live.kept = live.computed  # also when it failed, so that nobody waits for it again

    def open(self) -> None:
        """A choice forks the row that fills for its request; others find in the cache what they
        waited for, and are asked for again as long as that comes from a disk."""
        coming = set()  # requests whose first row comes from a disk
        for live in [live for live in self._rows.values() if live.row is None]:
            source = self._source(live)
            if source is not None:
                self._fork(live, source)
            elif live.family not in coming and not self._waits(live):
                self._make(live, partial(self._backend.open, live.spec))
                if live.row is not None:
                    live.kept = live.row.cached
                elif live.spec.key in self._rows:
                    coming.add(live.family)

    def rooms(self) -> dict[int, int]:
        """How many tokens rows may advance by before their next stop, by key."""
        stops = next_stops(self._rows.values())
        return {k: max(0, stop.length - self._rows[k].computed) for k, stop in stops.items()}

    def _fork(self, live: Live, source: Live) -> None:
        """Makes the row of a choice once `source` has filled the prompt of both."""
        assert source.row is not None
        if source.row.pending > 1 or self._flies(source.row):
            stop = Stop(len(live.spec.prompt.ids) - 1, keep=False)
            live.awaited = Awaited(source.spec.key, stop)
        else:
            live.kept = source.kept
            self._make(live, partial(self._backend.fork, source.row, live.spec))

    def _source(self, choice: Live) -> Live | None:
        """The row that fills the prompt of all choices of a request, if there is one now."""
        lives = (live for live in self._rows.values() if live.family == choice.family)
        return next((live for live in lives if live.fills), None)

    def _waits(self, live: Live) -> bool:
        """Whether `live` waits for a prefix. When that is kept, or its row fills no more, it is
        thought over once again."""
        if live.awaited is not None:
            leader = self._rows.get(live.awaited.key)
            if leader and leader.fills and leader.kept < live.awaited.stop.length:
                return True
        can = self._backend.abilities
        earlier = takewhile(lambda other: other is not live, self._rows.values())
        live.awaited = awaited(live, earlier, can.snapshots) if can.prefixes else None
        return live.awaited is not None

    def _make(self, live: Live, make: Callable[[], Row | None]) -> None:
        """Gives `live` its row, or ends it, or does neither as long as the row is to come."""
        can = self._backend.abilities
        live.awaited = None
        live.boundaries = boundaries(live.spec.prompt, can.snapshots) if can.prefixes else ()
        try:
            live.row = guarded(open_fault, make)
        except Fault as fault:
            log.warning("a row did not open: %s", fault)
            self._end(live, Failed(fault))
