"""How requests reach a server: a closed loop of so many clients, or an open one at a rate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from slipstream.bench.figures import arrivals
from slipstream.bench.target import Answer, Target
from slipstream.bench.texts import assistant, user
from slipstream.bench.workloads import Talk


@dataclass(frozen=True, slots=True)
class Level:
    """How hard it is pushed: `clients` that each wait for their answer, or `rate` conversations a
    second whatever the answers."""

    clients: int | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        assert (self.clients is None) != (self.rate is None)

    @property
    def name(self) -> str:
        return f"{self.rate:g}/s" if self.clients is None else f"c={self.clients}"

    @property
    def value(self) -> float:
        return float(self.clients or self.rate or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a run begins no more conversations, and when a request has failed. Seconds."""

    requests: int
    seconds: float | None = None
    timeout: float = 600.0


@dataclass(frozen=True, slots=True)
class Run:
    """One load on one server: its answers, and the seconds from the start to the last one."""

    answers: Sequence[Answer]
    seconds: float


async def pushed(
    target: Target, talks: Iterator[Talk], level: Level, limits: Limits, seed: str
) -> Run:
    """`seed` fixes when requests of an open loop come."""
    answers: list[Answer] = []
    start = time.perf_counter()
    if level.clients is not None:
        await closed(target, islice(talks, limits.requests), level.clients, limits, answers)
    else:
        assert level.rate is not None
        times = islice(arrivals(level.rate, seed), limits.requests)
        await opened(target, talks, times, limits, answers)
    return Run(answers, time.perf_counter() - start)


async def closed(
    target: Target, talks: Iterator[Talk], clients: int, limits: Limits, answers: list[Answer]
) -> None:
    """Each client takes the next conversation when its last one is over."""
    start = time.perf_counter()

    async def client() -> None:
        for talk in talks:
            await held(target, talk, limits, answers)
            if limits.seconds is not None and time.perf_counter() - start >= limits.seconds:
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())


async def opened(
    target: Target,
    talks: Iterator[Talk],
    times: Iterator[float],
    limits: Limits,
    answers: list[Answer],
) -> None:
    """A conversation begins at each of `times`, seconds from now."""
    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for when, talk in zip(times, talks, strict=False):
            if limits.seconds is not None and when > limits.seconds:
                return
            await asyncio.sleep(start + when - time.perf_counter())
            group.create_task(held(target, talk, limits, answers))


async def held(target: Target, talk: Talk, limits: Limits, answers: list[Answer]) -> None:
    """Asks the questions of one conversation; it ends at the first failure."""
    messages = list(talk.opening)
    for question in talk.questions:
        messages.append(user(question))
        answer = await target.attempt(
            messages, talk.tokens, fields=talk.fields, kind=talk.kind, seconds=limits.timeout
        )
        answers.append(answer)
        if answer.failed:
            return
        messages.append(assistant(answer.text))
