"""The rows on the device: starts and reads their forwards, retries them, ends them.

Knows what is in flight and who is to blame for a fault. When it is the rows' turn, it does
not know.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from slipstream.contracts.backend import Advance, Backend, Drawn, Row
from slipstream.contracts.clock import Clock
from slipstream.contracts.errors import Fault
from slipstream.contracts.limits import Limits
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import Failed, Finished, Outcome, RowSpec
from slipstream.engine.admission import Admission
from slipstream.engine.guard import forward_fault, guarded
from slipstream.engine.ledger import Ledger
from slipstream.engine.mailbox import Progress, Update
from slipstream.engine.newcomers import Newcomers
from slipstream.engine.planner import Planner
from slipstream.engine.rows import Flight, Live

log = logging.getLogger(__name__)


class Stepper:
    """Borrows the backend, and owns every row from `open` on. Raises nothing of a backend's."""

    def __init__(
        self,
        backend: Backend,
        admission: Admission,
        ledger: Ledger,
        limits: Limits,
        clock: Clock,
    ) -> None:
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.generated_tokens = 0
        self.filled = False  # some prompt, in the last step
        self._backend = backend
        self._admission = admission
        self._ledger = ledger
        self._planner = Planner(limits)
        self._clock = clock
        self._rows: dict[int, Live] = {}
        self._newcomers = Newcomers(backend, self._rows, self._flies, self.end)
        self._flights: list[Flight] = []
        self._read_at = 0.0  # when the newest launch was read
        self._endings: list[Update] = []

    @property
    def living(self) -> list[Live]:
        return list(self._rows.values())

    @property
    def busy(self) -> bool:
        """There are rows, or launches to be read."""
        return bool(self._rows or self._flights)

    @property
    def resting(self) -> bool:
        """There are rows, and none of them goes on before something comes from a disk."""
        lives = self._rows.values()
        return bool(lives) and not self._flights and all(live.row is None for live in lives)

    def find(self, key: int) -> Live | None:
        return self._rows.get(key)

    def admit(self, spec: RowSpec) -> None:
        """Takes `spec`, which holds a place and its bytes; `step` makes its row."""
        self._rows[spec.key] = Live(spec=spec, admitted=self._clock.now())

    def step(self) -> None:
        """Makes rows, starts one forward per lane, then reads those of the turn before."""
        self._newcomers.keep()
        self._newcomers.open()
        ready = [live.row for live in self._rows.values() if live.row and live.ready]
        running = any(live.launched for live in self._rows.values())
        moves = self._planner.plan(ready, running, self._newcomers.rooms())
        self.filled = any(move.tokens < move.row.pending or move.tokens > 1 for move in moves)
        lanes = [[move for move in moves if move.row.spec.lane is lane] for lane in Lane]
        plans = [plan for plan in lanes if plan]
        if all(self._launch(plan) for plan in plans):
            self._collect(keep=len(plans))

    def retry(self) -> None:
        """Advances the first suspect with nothing else in flight: a fault now is its own."""
        live = next((live for live in self._rows.values() if live.suspect), None)
        if live is None or live.row is None:
            return
        self._collect(keep=0)
        plan = self._planner.plan([live.row], running=len(self._rows) > 1)
        try:
            guarded(forward_fault, self._backend.launch, plan)
            draws = guarded(forward_fault, self._backend.collect, 0)
        except Fault as fault:
            log.warning("a row failed alone: %s", fault)
            self.end(live, Failed(fault))
        else:
            live.launched += len(draws)
            self._take(draws)

    def rest(self) -> None:
        """Reads all launches and lets the state of all rows rest."""
        self._collect(keep=0)
        now = self._clock.now()
        for live in self._rows.values():
            live.parked += (now,)
        try:
            guarded(forward_fault, self._backend.park)
        except Fault as fault:
            self.distrust_all(fault)

    def end(self, live: Live, outcome: Outcome) -> None:
        """The one way out of a row: told, place and bytes given back, released."""
        del self._rows[live.spec.key]
        self._endings.append(live.update(outcome))
        self._ledger.release(live.spec.key)
        self._admission.leave(live.spec.lane, self._clock.now() - live.admitted)
        if live.row is None:
            return
        try:
            guarded(forward_fault, self._backend.release, live.row)
        except Fault:
            log.exception("a row was not released cleanly")

    def refuse(self, spec: RowSpec, outcome: Outcome, progress: Progress) -> None:
        """The way out of a request that has no row."""
        self._endings.append(Update(key=spec.key, progress=progress, outcome=outcome))

    def news(self) -> list[Update]:
        """What happened to all rows since the last call."""
        endings, self._endings = self._endings, []
        return endings + [live.update() for live in self._rows.values() if live.news]

    def distrust_all(self, fault: Fault) -> None:
        """After a fault that no row owns. A suspect that meets a second one fails."""
        before = [live for live in self._rows.values() if live.suspect]
        self._collect(keep=0)
        for live in before:  # none of them was in flight, so all are still there
            self.end(live, Failed(fault))
        self._distrust(self.living, fault)

    def _flies(self, row: Row) -> bool:
        return any(move.row is row for flight in self._flights for move in flight.plan)

    def _launch(self, plan: Sequence[Advance]) -> bool:
        """Starts one forward. False when it failed: then nothing is in flight any more."""
        drawing = [move for move in plan if move.tokens == move.row.pending]
        try:
            guarded(forward_fault, self._backend.launch, plan)
        except Fault as fault:
            # Launches before this one are sound: read them before their rows forget.
            self._collect(keep=0)
            self._distrust(self._in(plan), fault)
            return False
        for live in self._in(drawing):
            live.launched += 1
        for live in self._in(plan):
            live.rows_peak = max(live.rows_peak, len(plan))
            live.news |= live.fills  # how far it is
        self._flights.append(Flight(plan, self._clock.now()))
        return True

    def _collect(self, keep: int) -> None:
        """Reads the oldest launches until `keep` are in flight; after a fault none is."""
        unread = len(self._flights) - keep
        if unread <= 0:
            return
        try:
            draws = guarded(forward_fault, self._backend.collect, keep)
        except Fault as fault:
            tainted = [live for flight in self._flights for live in self._in(flight.plan)]
            self._flights.clear()
            self._distrust(tainted, fault)
            return
        read, self._flights = self._flights[:unread], self._flights[unread:]
        now = self._clock.now()
        began = max(self._read_at, read[0].launched)
        self._planner.measure(sum(flight.filled for flight in read), now - began)
        self._read_at = now
        self._take(draws)

    def _take(self, draws: Iterable[Drawn]) -> None:
        now = self._clock.now()
        for drawn in draws:
            live = self._rows.get(drawn.row.spec.key)
            if live is None:
                continue  # it ended at an earlier draw of this very read
            if drawn.fault is not None:
                self.end(live, Failed(drawn.fault))
                continue
            if not live.tokens:
                self.prompt_tokens += len(live.spec.prompt.ids)
                self.cached_tokens += drawn.row.cached
            self.generated_tokens += not drawn.vector
            if finish := live.take(drawn, now):
                self.end(live, Finished(finish))

    def _distrust(self, tainted: Iterable[Live], fault: Fault) -> None:
        """Makes suspects of rows whose forward failed: each must draw a token alone first."""
        log.warning("a forward failed, its rows are retried one by one: %s", fault)
        for live in tainted:
            if live.row is None or live.suspect or live.spec.key not in self._rows:
                continue
            live.suspect = True
            live.launched = len(live.tokens)
            try:
                guarded(forward_fault, self._backend.rewind, live.row, live.tokens)
            except Fault as second:
                self.end(live, Failed(second))

    def _in(self, plan: Iterable[Advance]) -> list[Live]:
        """The rows of `plan` that have not ended."""
        keys = (move.row.spec.key for move in plan)
        return [self._rows[key] for key in keys if key in self._rows]
