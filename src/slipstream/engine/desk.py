"""The loop side of a running engine: takes requests and jobs in, hands their news out.

Knows sessions, the admission and the mailbox; nothing of threads or of loading.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from slipstream.contracts.clock import Clock
from slipstream.contracts.errors import Fault
from slipstream.contracts.limits import Limits
from slipstream.contracts.placement import Lane
from slipstream.contracts.report import EngineStats
from slipstream.contracts.row import (
    CancelReason,
    Failed,
    Finished,
    Outcome,
    Prompt,
    RowSpec,
    Stopped,
)
from slipstream.engine.admission import Admission
from slipstream.engine.lease import Job, T, Work, units
from slipstream.engine.mailbox import (
    Abandon,
    Ask,
    Cancel,
    Delivery,
    Mailbox,
    Settled,
    Update,
    Wake,
)
from slipstream.engine.placement import place, refuse_too_long
from slipstream.engine.session import Session


class Desk:
    """All methods belong to the loop's thread."""

    def __init__(
        self, admission: Admission, mailbox: Mailbox, limits: Limits, clock: Clock
    ) -> None:
        self._admission = admission
        self._mailbox = mailbox
        self._limits = limits
        self._clock = clock
        self._keys = itertools.count()
        self._sessions: dict[int, Session] = {}
        self._works: set[Work] = set()
        self._placements: Counter[str] = Counter()
        self._finish: Counter[str] = Counter()
        self._ended = asyncio.Event()  # a session; then there is a new one

    def submit(self, prompts: Sequence[Prompt]) -> tuple[Session, ...]:
        """Places and queues the choices of one request, all or none: a session for each.

        `prompts` differ in seed and matcher only. Takes them; when this raises, the caller still
        holds them. Raises InvalidRequest for what cannot run here, QueueFull when too many wait.
        """
        abilities = self._mailbox.snapshot.abilities
        placement = place(prompts[0].needs, abilities)
        refuse_too_long(prompts[0], abilities)
        now = self._clock.now()
        specs = self._specs(prompts, placement.lane, now + self._limits.request_timeout)
        self._admission.offer(specs)
        sessions = tuple(
            Session(spec, placement, submitted=now, outbox=self._limits.outbox, stop=self._stop)
            for spec in specs
        )
        self._sessions.update({session.spec.key: session for session in sessions})
        self._placements.update(placement.reasons or ("none",))
        self._mailbox.post(Wake())
        return sessions

    def _specs(self, prompts: Sequence[Prompt], lane: Lane, deadline: float) -> list[RowSpec]:
        """A row for each choice; where they can share a prefill, the first one leads."""
        keys = [next(self._keys) for _ in prompts]
        leads = lane is Lane.GROUP and shares_prefill(prompts[0])
        return [
            RowSpec(
                key=key,
                lane=lane,
                prompt=prompt,
                deadline=deadline,
                leader=keys[0] if leads and key != keys[0] else None,
            )
            for key, prompt in zip(keys, prompts, strict=True)
        ]

    def using(self, adapter: str) -> int:
        """Sessions that have not ended and want it."""
        wanted = (s.spec.prompt.needs.adapters for s in self._sessions.values())
        return sum(any(use.name == adapter for use in uses) for uses in wanted)

    async def unused(self, adapter: str) -> None:
        """Until no session wants it."""
        while self.using(adapter):
            await self._ended.wait()

    async def run(self, job: Job[T], name: str, *, idle: bool) -> T:
        """The result of `job`, or what it raised. Cancelling this ends the job between units."""
        work = Work(name, units(job), asyncio.get_running_loop().create_future(), idle)
        self._works.add(work)
        self._mailbox.post(Ask(work))
        try:
            result: T = await work.future
        except asyncio.CancelledError:
            self._mailbox.post(Abandon(work))
            raise
        finally:
            self._works.discard(work)
        return result

    def receive(self, delivery: Delivery) -> None:
        """What a turn did, for all rows and jobs at once."""
        for update in delivery.updates:
            self._push(update)
        for settled in delivery.settled:
            settle(settled)

    def end_queue(self) -> None:
        """Ends whatever still waits for a place."""
        for spec in self._admission.clear():
            self._push_end(spec.key, Stopped(CancelReason.SHUTDOWN))

    def fail_all(self, fault: Fault) -> None:
        """When the device thread is gone, nothing else will end what is left."""
        self._admission.clear()
        for key in list(self._sessions):
            self._push_end(key, Failed(fault))
        for work in list(self._works):
            settle(Settled(work=work, error=fault))

    def stats(self) -> EngineStats:
        """The newest snapshot of the device thread, with the counts of this moment."""
        now = self._admission.occupancy()
        return replace(
            self._mailbox.snapshot.stats,
            group=now.group,
            solo=now.solo,
            waiting=now.waiting,
            queue_max=self._limits.queue,
            rejected=now.rejected,
            placements=dict(self._placements),
            finish=dict(self._finish),
        )

    def _stop(self, session: Session, reason: CancelReason) -> None:
        """Whoever takes a waiter out of the queue ends it; a row is the device thread's."""
        if self._admission.withdraw(session.spec):
            self._push_end(session.spec.key, Stopped(reason))
        else:
            self._mailbox.post(Cancel(session.spec.key, reason))

    def _push_end(self, key: int, outcome: Outcome) -> None:
        self._push(Update(key=key, progress=self._sessions[key].progress, outcome=outcome))

    def _push(self, update: Update) -> None:
        session = self._sessions[update.key]
        session.push(update)
        if session.outcome is not None:
            del self._sessions[update.key]
            self._finish[named(session.outcome)] += 1
            self._ended.set()
            self._ended = asyncio.Event()


def shares_prefill(prompt: Prompt) -> bool:
    """Whether one row can fill `prompt` for others. The last token each computes itself, to draw;
    and where the prompt's own tokens are scored, each needs all of them."""
    return len(prompt.ids) > 1 and prompt.shares


def settle(settled: Settled) -> None:
    """Resolves the awaiter's future, unless nobody awaits it any more."""
    future = settled.work.future
    if future.done():
        return
    if settled.error is not None:
        future.set_exception(settled.error)
    else:
        future.set_result(settled.value)


def named(outcome: Outcome) -> str:
    """The name under which an end is counted."""
    match outcome:
        case Finished(reason):
            return reason
        case Stopped(cancelled):
            return cancelled
        case Failed(error):
            return error.code or "fault"
