"""The device thread's loop: whose turn it is, and when to sleep.

One `turn` is one pass; a test may call it without a thread. What a row does, and what a tensor
is, it does not know. No exception of a backend or of a job leaves it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from slipstream.contracts.backend import Backend
from slipstream.contracts.clock import Clock
from slipstream.contracts.errors import Cancelled, Fault, ModelError
from slipstream.contracts.limits import Limits
from slipstream.contracts.report import EngineStats
from slipstream.contracts.row import CancelReason, Failed, Stopped
from slipstream.engine.admission import Admission
from slipstream.engine.guard import forward_fault, guarded, open_fault
from slipstream.engine.lease import Lease, Work
from slipstream.engine.ledger import Ledger
from slipstream.engine.mailbox import (
    Abandon,
    Ask,
    Cancel,
    Close,
    Delivery,
    Mailbox,
    Progress,
    Settled,
    Snapshot,
    Wake,
)
from slipstream.engine.stepper import Stepper
from slipstream.engine.times import Phase, Tell, Times

log = logging.getLogger(__name__)
LOOK_AGAIN_SECONDS = 0.002  # whether a disk has given what all rows wait for


def load(factory: Callable[[], Backend]) -> Backend:
    """Calls `factory`. Raises ModelError, whatever it raised."""
    try:
        return factory()
    except ModelError:
        raise
    except Exception as error:
        log.exception("loading failed")
        raise ModelError(f"The model could not be loaded: {error}") from error


class Driver:
    """Takes `backend` and closes it at the end. All methods belong to the device thread."""

    def __init__(
        self,
        backend: Backend,
        admission: Admission,
        mailbox: Mailbox,
        limits: Limits,
        clock: Clock,
        tell: Tell | None = None,
    ) -> None:
        """`tell` hears of the times of every turn."""
        self.closed = False
        self.busy_since: float | None = None  # start of the turn that runs now
        self._backend = backend
        self._admission = admission
        self._mailbox = mailbox
        self._clock = clock
        self._ledger = Ledger()
        self._stepper = Stepper(backend, admission, self._ledger, limits, clock)
        self._lease = Lease()
        self._closing: float | None = None  # until when rows may run on
        self._settled: list[Settled] = []
        self._turns = 0
        self._times = Times(clock, tell)
        self._memory = backend.memory()
        self._abilities = backend.abilities
        self._publish()

    def run(self) -> None:
        """Turns until closed; asleep while there is nothing to do."""
        while not self.closed:
            more = self.turn()
            if self._stepper.resting and not self._lease.queued and self._lease.held is None:
                self._mailbox.wait(LOOK_AGAIN_SECONDS)
            elif not more and not self.closed:
                self._mailbox.wait()

    def turn(self) -> bool:
        """One pass of the loop. Says whether there is more to do; raises nothing."""
        self._times.lap(Phase.IDLE)
        self.busy_since = self._clock.now()
        self._turns += 1
        try:
            self._read_inbox()
            self._prune()
            if work := self._lease.take(self._rows_want_a_turn):
                self._run_exclusive(work)
                self._times.lap(Phase.JOB)
            else:
                self._admit()
                self._times.lap(Phase.ADMIT)
                self._stepper.step()
                self._stepper.retry()
                self._times.lap(Phase.PREFILL if self._stepper.filled else Phase.STEP)
                self._run_idle()
                self._times.lap(Phase.JOB)
            self._memory = self._backend.memory()
            self._abilities = self._backend.abilities
        except Exception as error:
            log.exception("a turn failed")
            self._stepper.distrust_all(forward_fault(error))
        self._close_when_done()
        self._publish()
        self._times.lap(Phase.PUBLISH)
        self._times.end()
        self.busy_since = None
        return not self.closed and self._more_to_do

    @property
    def _rows_want_a_turn(self) -> bool:
        return self._stepper.busy or self._admission.waiting > 0

    @property
    def _more_to_do(self) -> bool:
        lease = self._lease
        return self._rows_want_a_turn or lease.held is not None or bool(lease.queued)

    def _read_inbox(self) -> None:
        for message in self._mailbox.drain():
            match message:
                case Cancel(key, reason):
                    if live := self._stepper.find(key):
                        self._stepper.end(live, Stopped(reason))
                case Ask(work):
                    self._lease.ask(work)
                case Abandon(work):
                    self._drop(work)
                case Close(deadline) if self._closing is None or deadline < self._closing:
                    self._closing = deadline
                case Wake() | Close():
                    pass

    def _prune(self) -> None:
        """Ends what is past its time: waiters and rows, and at shutdown jobs too."""
        now = self._clock.now()
        for spec in self._admission.expire(now):
            self._stepper.refuse(spec, Stopped(CancelReason.DEADLINE), Progress())
        over = self._closing is not None and now >= self._closing
        for live in self._stepper.living:
            if over:
                self._stepper.end(live, Stopped(CancelReason.SHUTDOWN))
            elif now >= live.spec.deadline:
                self._stepper.end(live, Stopped(CancelReason.DEADLINE))
        if self._closing is not None:
            for work in self._lease.queued:
                self._drop(work)
        if over and self._lease.held:
            self._drop(self._lease.held)

    def _admit(self) -> None:
        """In order of rank over both lanes: who waits for bytes holds up all that come after, so
        that small rows do not overtake it for ever."""
        while spec := self._admission.head():
            try:
                nbytes = guarded(open_fault, self._backend.project, spec)
                if not self._ledger.fits(nbytes, self._memory.kv_budget):
                    return
            except Fault as fault:
                if self._admission.withdraw(spec):
                    self._stepper.refuse(spec, Failed(fault), Progress())
                continue
            if self._admission.take(spec):
                self._ledger.reserve(spec.key, nbytes)
                self._stepper.admit(spec)

    def _run_exclusive(self, work: Work) -> None:
        if not work.begun:
            self._stepper.rest()
        self._run_unit(work)

    def _run_idle(self) -> None:
        """Checked and taken in one step: on this thread nothing can begin between the two."""
        work = self._lease.next_idle()
        if work and not self._rows_want_a_turn:
            self._run_unit(work)

    def _run_unit(self, work: Work) -> None:
        work.begun = True
        try:
            next(work.steps)
        except StopIteration as end:
            self._settle(Settled(work=work, value=end.value))
        except Exception as error:  # noqa: BLE001 it goes to whoever awaits the job
            self._settle(Settled(work=work, error=error))

    def _drop(self, work: Work) -> None:
        """Ends a job between two units. Does nothing when it has ended before."""
        if self._lease.remove(work):
            try:
                guarded(forward_fault, work.steps.close)
            except Fault:
                log.exception("the job %s failed while it was closed", work.name)
            message = f"The job {work.name} was ended before it was done."
            error = Cancelled(CancelReason.SHUTDOWN, message)
            self._settled.append(Settled(work=work, error=error))

    def _settle(self, settled: Settled) -> None:
        self._lease.remove(settled.work)
        self._settled.append(settled)

    def _close_when_done(self) -> None:
        if self._closing is None or self._stepper.living or self._lease.held:
            return
        try:
            guarded(forward_fault, self._backend.close)
        except Fault:
            log.exception("the backend failed while it was closed")
        self.closed = True

    def _publish(self) -> None:
        held = self._lease.held
        stats = EngineStats(
            turns=self._turns,
            lease_held_by=held.name if held else None,
            lease_waiting=len(self._lease.queued),
            memory=self._memory,
            times=self._times.total,
            prompt_tokens=self._stepper.prompt_tokens,
            cached_tokens=self._stepper.cached_tokens,
            generated_tokens=self._stepper.generated_tokens,
        )
        delivery = Delivery(self._stepper.news(), self._settled)
        self._settled = []
        self._mailbox.publish(Snapshot(stats, self._abilities), delivery)
