"""The engine without its thread: a test turns the driver by hand, on a clock of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from slipstream.contracts.errors import SlipstreamError
from slipstream.contracts.limits import Limits
from slipstream.contracts.placement import Needs
from slipstream.contracts.row import Prompt, TokenEvent
from slipstream.contracts.sampling import Sampling
from slipstream.engine.admission import Admission
from slipstream.engine.desk import Desk
from slipstream.engine.driver import Driver
from slipstream.engine.mailbox import Mailbox
from slipstream.engine.session import Session
from slipstream.testing.backend import FakeBackend
from slipstream.testing.clock import ManualClock


def prompt(*ids: int, max_tokens: int = 4, seed: int = 0, **fields: Any) -> Prompt:
    return Prompt(
        ids=ids or (1, 2, 3), max_tokens=max_tokens, sampling=Sampling(seed=seed), **fields
    )


def choices(count: int, *ids: int, **fields: Any) -> list[Prompt]:
    return [prompt(*ids, seed=seed, **fields) for seed in range(count)]


def solo(*ids: int, **fields: Any) -> Prompt:
    return prompt(*ids, needs=Needs(solo=True), **fields)


class Reader:
    """Reads a session to its end, as fast as the loop lets it."""

    def __init__(self, session: Session, loop: asyncio.AbstractEventLoop) -> None:
        self.session = session
        self.events: list[TokenEvent] = []
        self.error: SlipstreamError | None = None
        self.task = loop.create_task(self._read())

    @property
    def tokens(self) -> list[int]:
        return [event.token for event in self.events]

    async def _read(self) -> None:
        try:
            async for batch in self.session.batches():
                self.events += batch
        except SlipstreamError as error:
            self.error = error


class Rig:
    def __init__(
        self, backend: FakeBackend | None = None, clock: ManualClock | None = None, **limits: Any
    ) -> None:
        self.clock = clock or ManualClock()
        self.backend = backend or FakeBackend()
        self.limits = Limits(**limits)
        self.admission = Admission(self.limits, self.clock)
        self.mailbox = Mailbox(lambda delivery: self.desk.receive(delivery))
        self.desk = Desk(self.admission, self.mailbox, self.limits, self.clock)
        self.driver = Driver(self.backend, self.admission, self.mailbox, self.limits, self.clock)
        self.loop = asyncio.new_event_loop()

    def submit(self, asked: Prompt | None = None) -> Session:
        return self.desk.submit([asked or prompt()])[0]

    def submit_all(self, asked: Sequence[Prompt]) -> list[Reader]:
        """The choices of one request, each with its reader."""
        return [self.read(session) for session in self.desk.submit(asked)]

    def read(self, session: Session) -> Reader:
        reader = Reader(session, self.loop)
        self.settle()
        return reader

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self.loop.create_task(coroutine)
        self.settle()
        return task

    def exclusive(self, job: Any, name: str = "job") -> asyncio.Task[Any]:
        return self.spawn(self.desk.run(job, name, idle=False))

    def idle(self, job: Any, name: str = "job") -> asyncio.Task[Any]:
        return self.spawn(self.desk.run(job, name, idle=True))

    def settle(self) -> None:
        """Lets everything on the loop run that can."""
        for _ in range(4):
            self.loop.run_until_complete(asyncio.sleep(0))

    def turn(self, times: int = 1) -> bool:
        more = True
        for _ in range(times):
            more = self.driver.turn()
            self.settle()
        return more

    def run(self, limit: int = 2000) -> None:
        """Turns until there is nothing to do."""
        for _ in range(limit):
            if not self.turn():
                return
        raise AssertionError("the driver did not come to rest")

    def until(self, reached: Callable[[], bool], limit: int = 100) -> None:
        for _ in range(limit):
            if reached():
                return
            self.turn()
        raise AssertionError("it was not reached")

    def finish(self) -> None:
        """Runs out, and checks what holds after every run."""
        self.run()
        self.check_rest()
        self.loop.close()

    def check_rest(self) -> None:
        stats = self.desk.stats()
        assert self.backend.breaches == []
        assert self.backend.live_rows == 0
        assert (stats.group.active, stats.solo.active, stats.waiting) == (0, 0, 0)
        submitted = stats.group.submitted + stats.solo.submitted
        assert sum(stats.finish.values()) == submitted


class Faults:
    """Raises at chosen moments: `at(moment, nth)` once, `always(moment, when)` each time."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._once: set[tuple[str, int]] = set()
        self._always: list[tuple[str, Callable[[Sequence[Prompt]], bool]]] = []

    def at(self, moment: str, nth: int) -> Faults:
        self._once.add((moment, nth))
        return self

    def always(self, moment: str, when: Callable[[Sequence[Prompt]], bool]) -> Faults:
        self._always.append((moment, when))
        return self

    def __call__(self, moment: str, specs: Sequence[Any]) -> Exception | None:
        count = self.counts[moment] = self.counts.get(moment, 0) + 1
        prompts = [spec.prompt for spec in specs]
        hit = (moment, count) in self._once or any(
            moment == bad and when(prompts) for bad, when in self._always
        )
        return OSError(f"{moment} {count} broke") if hit else None
