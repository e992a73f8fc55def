"""`bench serve`: load on any servers that speak OpenAI's chat API, in turn, round by round."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from slipstream.bench.client import base_of, fetched
from slipstream.bench.figures import Bound, percentile
from slipstream.bench.load import Level, Limits, Run, pushed
from slipstream.bench.summary import Cell, rate_row, samples
from slipstream.bench.target import Target
from slipstream.bench.workloads import Size, talks
from slipstream.contracts.errors import Fault, UsageError

Note = Callable[[str], None]
QUIET_START = 0.2  # seconds between two runs, for the first server's connections to close


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is asked of each server. `requests`: conversations of a run; without it some for each
    client."""

    workloads: Sequence[str]
    levels: Sequence[Level]
    rounds: int = 3
    requests: int | None = None
    for_each: int = 2
    seconds: float | None = None
    timeout: float = 600.0
    warmup: int = 1
    size: Size = field(default_factory=Size)
    bounds: Sequence[Bound] = ()
    seed: int = 0

    def limits(self, level: Level) -> Limits:
        requests = self.requests
        if requests is None:
            # A run that is bounded by time needs no other bound.
            usual = max(4, self.for_each * (level.clients or 8))
            requests = usual if self.seconds is None else 1_000_000
        return Limits(requests=requests, seconds=self.seconds, timeout=self.timeout)


async def targets(
    urls: Sequence[str], models: Sequence[str], key: str | None, extra: Mapping[str, Any]
) -> list[Target]:
    """One for each address. `models`: none, one for all, or one for each. Raises UsageError."""
    if len(models) not in {0, 1, len(urls)}:
        raise UsageError("--model: give none, one for all addresses, or one for each.")
    named: Sequence[str | None] = models or [None]
    named = named if len(named) == len(urls) else [*named] * len(urls)
    made: list[Target] = []
    for url, model in zip(urls, named, strict=True):
        base = base_of(url)
        same = sum(target.url.startswith(base) for target in made)
        name = urlsplit(base).netloc + (f" ({same + 1})" if same else "")
        chosen = model or await only_model(base, key)
        more = dict(extra) if chosen is None else {**extra, "model": chosen}
        made.append(Target(name, f"{base}/chat/completions", more, key=key))
    return made


async def only_model(base: str, key: str | None) -> str | None:
    """The model that a server has, None if it lists none. Raises UsageError if it lists several."""
    found = await fetched(f"{base}/models", key)
    names = [str(model["id"]) for model in found.get("data") or ()]
    own = [name for name in names if ":" not in name]  # others are adapters of a base model
    if len(own) > 1:
        raise UsageError(f"{base} has several models; choose by --model: {', '.join(own)}.")
    return next(iter(own or names), None)


async def compare(
    servers: Sequence[Target], plan: Plan, *, rows: Note, progress: Note
) -> list[Cell]:
    """Each workload at each level: rounds in which the servers take turns, the next one first.

    Only one is busy at a time. `rows` gets a cell once it is whole. Raises Fault where a server
    answers nothing of the warm-up."""
    for server in servers:
        await warm(server, plan, progress)
    cells: list[Cell] = []
    for workload in plan.workloads:
        for level in plan.levels:
            runs: dict[str, list[Run]] = {server.name: [] for server in servers}
            for number in range(plan.rounds):
                for server in turned(servers, number):
                    progress(f"{workload} {level.name}, round {number + 1}: {server.name}")
                    runs[server.name].append(await once(server, plan, workload, level, number))
            made = [Cell(workload, level, name, these) for name, these in runs.items()]
            for cell in made:
                rows(_brief(cell))
            cells += made
    return cells


def turned(servers: Sequence[Target], number: int) -> Sequence[Target]:
    """Another server begins in each round."""
    first = number % len(servers)
    return [*servers[first:], *servers[:first]]


async def once(server: Target, plan: Plan, workload: str, level: Level, number: int) -> Run:
    """All servers are asked the same in one round, and something new in the next."""
    seed = f"{plan.seed} {level.name} {number}"
    run = await pushed(
        server, talks(workload, seed, plan.size), level, plan.limits(level), f"{workload} {seed}"
    )
    await asyncio.sleep(QUIET_START)
    return run


async def warm(server: Target, plan: Plan, progress: Note) -> None:
    """Some requests of each workload that are not counted.

    Raises Fault where none at all is answered; what fails one workload only is left to its runs."""
    failures: dict[str, str] = {}
    for workload in plan.workloads if plan.warmup else ():
        few = Limits(requests=plan.warmup, timeout=plan.timeout)
        conversations = talks(workload, f"{plan.seed} warm-up", plan.size)
        run = await pushed(server, conversations, Level(clients=plan.warmup), few, "")
        if all(answer.failed for answer in run.answers):
            failures[workload] = run.answers[0].why
            progress(f"{server.name} fails at {workload}: {failures[workload]}")
    if plan.warmup and len(failures) == len(plan.workloads):
        raise Fault(f"{server.name} answers nothing: {failures[plan.workloads[0]]}")


def _brief(cell: Cell) -> str:
    row = rate_row(cell, ())
    found = samples(cell.good)
    medians = "".join(
        f"  {name} {percentile(values, 0.5):.0f} ms" for name, values in found.items() if values
    )
    kept = f"{row['tok_s']:.1f} tok/s  failed {row['failed']}"
    return f"{cell.workload} {cell.level.name} {cell.server}: {kept}{medians}"
