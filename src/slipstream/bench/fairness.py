"""`bench fairness`: what long prompts do to running streams, and to a short one that comes last."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

from slipstream.bench.marks import Marks
from slipstream.bench.peers import targets
from slipstream.bench.report import Row
from slipstream.bench.target import Answer, Target
from slipstream.bench.texts import Texts, user
from slipstream.contracts.model import ModelInfo
from slipstream.text.tokenizer import Tokenizer

ENDLESS = 3000  # tokens: streams are left, they do not end
FEW = 4  # tokens of an answer of which only the first counts
SETTLED = 8  # tokens of every stream before the clock is read
LATER = 0.2  # seconds from the long prompts to the short one
LIMIT = 900.0  # seconds: a round that takes longer is stuck


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Lengths in tokens."""

    rounds: int = 3
    streams: int = 4
    longs: int = 2
    long: int = 4000  # a long prompt
    short: int = 20  # any other
    quiet: int = 40  # of every stream with nothing beside it


@dataclass(frozen=True, slots=True)
class Round:
    """Milliseconds. Gaps lie between two tokens of one stream."""

    quiet_gaps: Sequence[float]  # nothing else runs
    gaps: Sequence[float]  # while the long prompts fill
    fill_alone: float  # of the long prompts, the later one's first token; no streams
    fill: float  # beside the streams
    newcomer: float  # first token of the short prompt


async def run(
    info: ModelInfo, plan: Plan, *, peer: bool, progress: Callable[[str], None]
) -> list[Row]:
    """A row for each server, medians over the rounds, in which servers take turns."""
    tokenizer = Tokenizer.load(info.path)
    found: dict[str, list[Round]] = {}
    async with targets(info, plan.streams + plan.longs + 1, peer=peer) as servers:
        for number, server in product(range(plan.rounds), servers):
            progress(f"round {number + 1} of {plan.rounds}: {server.name}")
            async with asyncio.timeout(LIMIT):
                one = await measured(server, plan, Texts(tokenizer, seed=number))
            found.setdefault(server.name, []).append(one)
    return [{"server": name, **cells(rounds)} for name, rounds in found.items()]


async def measured(server: Target, plan: Plan, texts: Texts) -> Round:
    fill_alone = max(a.ttft_ms for a in await asyncio.gather(*longs(server, plan, texts)))
    async with running(server, plan, texts) as streams:
        await reached(streams, SETTLED)
        start = time.perf_counter()
        await reached(streams, SETTLED + plan.quiet)
        begin = time.perf_counter()
        filling = asyncio.gather(*longs(server, plan, texts))
        await asyncio.sleep(LATER)
        newcomer = await server.ask([user(texts.of(plan.short))], FEW)
        fills = await filling
        end = max(fill.marks.first for fill in fills)
        await reached(streams, 1, after=end)
    return Round(
        gaps_between(streams, start, begin),
        gaps_between(streams, begin, end),
        fill_alone,
        max(fill.ttft_ms for fill in fills),
        newcomer.ttft_ms,
    )


def longs(server: Target, plan: Plan, texts: Texts) -> list[Coroutine[Any, Any, Answer]]:
    return [server.ask([user(texts.of(plan.long))], FEW) for _ in range(plan.longs)]


@asynccontextmanager
async def running(server: Target, plan: Plan, texts: Texts) -> AsyncIterator[list[Answer]]:
    """Streams that go on while the block runs, and are left at its end."""
    streams = [Answer(Marks(0.0)) for _ in range(plan.streams)]
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(server.ask([user(texts.of(plan.short))], ENDLESS, answer=stream))
            for stream in streams
        ]
        yield streams
        for task in tasks:
            task.cancel()


async def reached(streams: Sequence[Answer], tokens: int, after: float = 0.0) -> None:
    """Until each stream has so many tokens after the time `after`."""
    for stream in streams:
        while sum(when > after for when, _ in stream.marks.pieces) < tokens:
            stream.moved.clear()
            await stream.moved.wait()


def gaps_between(streams: Sequence[Answer], start: float, end: float) -> list[float]:
    """Milliseconds between tokens of one stream, of gaps that end after `start` and begin before
    `end`."""
    return [
        (after - before) * 1000
        for stream in streams
        for (before, _), (after, _) in pairwise(stream.marks.pieces)
        if after > start and before < end
    ]


def cells(rounds: Sequence[Round]) -> dict[str, float]:
    made: dict[str, float] = {}
    for name, gaps in (
        ("quiet", [one.quiet_gaps for one in rounds]),
        ("filling", [one.gaps for one in rounds]),
    ):
        for label, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0)):
            made[f"{name}_{label}_ms"] = statistics.median(at(each, share) for each in gaps)
    made["newcomer_ms"] = statistics.median(one.newcomer for one in rounds)
    made["fill_ms"] = statistics.median(one.fill for one in rounds)
    made["fill_alone_ms"] = statistics.median(one.fill_alone for one in rounds)
    return made


def at(values: Sequence[float], share: float) -> float:
    """The value that a `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
