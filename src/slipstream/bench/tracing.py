"""`bench tracing`: what traces cost a loaded server, as a ratio of its speed with and without."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from slipstream.bench.figures import ratio
from slipstream.bench.processes import served
from slipstream.bench.report import Row
from slipstream.bench.target import Target
from slipstream.bench.texts import Texts, user
from slipstream.contracts.model import ModelInfo
from slipstream.settings import Settings
from slipstream.text.tokenizer import Tokenizer

OFF, FILE, TURNS = "off", "--trace", "--trace and --trace-turns"
LIMIT = 600.0  # seconds: a round that takes longer is stuck


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Lengths in tokens."""

    rounds: int = 6
    streams: int = 8
    waves: int = 2  # answers of each stream in a round: a trace is written once an answer
    prompt: int = 40
    answer: int = 48


def cases(folder: Path) -> Mapping[str, Sequence[str]]:
    """What more a server is started with, by the name of the case."""
    trace = ("--trace", str(folder / "trace.json"))
    turns = ("--trace", str(folder / "both.json"), "--trace-turns", str(folder / "turns.jsonl"))
    return {OFF: (), FILE: trace, TURNS: turns}


async def run(info: ModelInfo, plan: Plan, *, note: Callable[[str], None]) -> list[Row]:
    """A row for each case, in rounds in which the servers take turns, so that a busy machine
    slows all of them alike. `note` hears of each round."""
    tokenizer = Tokenizer.load(info.path)
    async with servers(info, plan) as targets:
        rates: dict[str, list[float]] = {target.name: [] for target in targets}
        for number in range(-1, plan.rounds):
            order = targets if number % 2 else targets[::-1]
            for target in order:
                async with asyncio.timeout(LIMIT):
                    rate = await measured(target, plan, Texts(tokenizer, seed=number))
                if number >= 0:  # the first round warms up
                    rates[target.name].append(rate)
                    note(f"round {number + 1}, {target.name}: {rate:.1f} tok/s")
    return rows(rates)


@asynccontextmanager
async def servers(info: ModelInfo, plan: Plan) -> AsyncIterator[list[Target]]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="slipstream-bench-")))
        settings = Settings(model=str(info.path), batch=plan.streams)
        found = []
        for name, more in cases(folder).items():
            url = await stack.enter_async_context(served(settings, *more))
            found.append(Target(name, url, {"ignore_eos": True}, salted=True))
        yield found


async def measured(target: Target, plan: Plan, texts: Texts) -> float:
    """Tokens a second over all streams."""
    prompts = [[texts.of(plan.prompt) for _ in range(plan.waves)] for _ in range(plan.streams)]

    async def stream(mine: Sequence[str]) -> int:
        answers = [await target.ask([user(text)], plan.answer, alone=True) for text in mine]
        return sum(answer.tokens for answer in answers)

    began = time.perf_counter()
    tokens = await asyncio.gather(*(stream(mine) for mine in prompts))
    return sum(tokens) / (time.perf_counter() - began)


def rows(rates: Mapping[str, Sequence[float]]) -> list[Row]:
    """`cost` is the speed without traces over the speed with them: 1.02 is two per cent."""
    made: list[Row] = []
    for name, each in rates.items():
        cost = ratio(rates[OFF], each)
        made.append(
            {
                "traces": name,
                "tok_s": statistics.median(each),
                "cost": cost.value,
                "from": cost.low,
                "to": cost.high,
            }
        )
    return made
