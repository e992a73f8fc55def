"""`bench mixed` and `bench sampler`: what request shapes cost when they ride in one batch.

Each kind alone, and all of them mixed, against plain greedy rows in the same run.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from slipstream.backends.mlx.device import open_device
from slipstream.bench.marks import Marks, decode_rate
from slipstream.contracts.completion import GrammarText
from slipstream.contracts.model import ModelInfo
from slipstream.library import Engine
from slipstream.settings import Settings

ROWS = 16
NUMBERS = '{"type": "array", "items": {"type": "integer"}, "minItems": 400}'
SCHEMA = GrammarText("json_schema", NUMBERS, "guided_json")
MIX = ("plain", "seeded", "penalised", "logprobs", "schema")
SHARES = (4, 4, 4, 2, 2)
PLAIN = MappingProxyType({"temperature": 0.0, "ignore_eos": True})
SEEDED = MappingProxyType({"temperature": 0.8, "top_p": 0.9, "seed": 7, "ignore_eos": True})
PENALISED = MappingProxyType(
    {
        "temperature": 0.0,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.3,
        "frequency_penalty": 0.3,
        "logit_bias": MappingProxyType({100: -1.0, 200: 1.0}),
        "ignore_eos": True,
    }
)
LOGPROBS = MappingProxyType({"temperature": 0.0, "logprobs": 5, "ignore_eos": True})
BOUND = MappingProxyType({"temperature": 0.0, "grammar": SCHEMA})
KINDS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    dict(zip(MIX, (PLAIN, SEEDED, PENALISED, LOGPROBS, BOUND), strict=True))
)
TOPICS = ("rivers", "stars", "bread", "maps", "clocks", "birds", "music", "stone")


async def mixed(info: ModelInfo, steps: int, rounds: int) -> list[dict[str, float | str]]:
    """A row for the mix and for each kind: its rate, and that over the plain rows' of its round."""
    groups = {"mixed": [k for k, n in zip(MIX, SHARES, strict=True) for _ in range(n)]}
    groups |= {kind: [kind] * ROWS for kind in MIX if kind != "plain"}
    rates: dict[str, list[float]] = {name: [] for name in groups}
    plains: list[float] = []
    ratios: dict[str, list[float]] = {name: [] for name in groups}
    settings = Settings(model=str(info.path), batch=ROWS, queue=ROWS)
    async with Engine(settings, info) as engine:
        await measured(engine, groups["mixed"], 8)
        for _ in range(rounds):
            for name, kinds in groups.items():
                plain = await measured(engine, ["plain"] * ROWS, steps)
                rate = await measured(engine, kinds, steps)
                plains.append(plain)
                rates[name].append(rate)
                ratios[name].append(rate / plain)
    first: dict[str, float | str] = {
        "rows": "plain",
        "tok_s": statistics.median(plains),
        "ratio": 1.0,
    }
    return [
        first,
        *(
            {
                "rows": name,
                "tok_s": statistics.median(rates[name]),
                "ratio": statistics.median(ratios[name]),
            }
            for name in groups
        ),
    ]


async def measured(engine: Engine, kinds: Sequence[str], steps: int) -> float:
    """Tokens per second of one row of each of `kinds`, together."""
    topics = itertools.cycle(TOPICS)
    streams = [one(engine, KINDS[kind], next(topics), steps) for kind in kinds]
    return decode_rate(await asyncio.gather(*streams))


async def one(engine: Engine, fields: Mapping[str, Any], topic: str, steps: int) -> Marks:
    messages = [{"role": "user", "content": f"Write a long and lively text about {topic}."}]
    marks = Marks(time.perf_counter())
    async for delta in engine.stream(messages, max_tokens=steps, **fields):
        marks.pieces.append((time.perf_counter(), delta.tokens))
    return marks


async def stages(info: ModelInfo, rows: int) -> list[dict[str, float | str]]:
    """A row for each stage of the pipeline: milliseconds of one step over `rows` rows."""
    settings = Settings(model=str(info.path), batch=1)
    async with Engine(settings, info) as engine:

        def job() -> dict[str, float]:
            from slipstream.backends.mlx.stages import stage_seconds  # imports mlx

            return stage_seconds(rows, info.vocab_size, can_wait=open_device().is_cpu)

        found = await engine.run_exclusive(job, "bench")
    base = found["greedy"]
    return [
        {"stage": name, "ms": seconds * 1000, "over_greedy_ms": (seconds - base) * 1000}
        for name, seconds in found.items()
    ]
