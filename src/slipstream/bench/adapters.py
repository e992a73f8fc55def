"""`bench adapters`: rows over several adapters, and over one, against the same rows on the base.

Interleaved in one run; a ratio is the median over rounds of what a round measured. The adapters
are random ones for every linear layer of the model: what they say costs what any others' would.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream.backends.mlx.boot import boot
from slipstream.bench.marks import Marks, decode_rate, first_token_ms
from slipstream.contracts.adapters import AdapterUse
from slipstream.contracts.backend import Adapting
from slipstream.contracts.model import ModelInfo
from slipstream.library import Engine
from slipstream.settings import Settings

QUESTION = "Write a long story about a river, a mountain and the sea. " * 3
SEVERAL = 4
NONE = "none mounted"
Uses = tuple[AdapterUse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    rows: int = 8
    rank: int = 8
    steps: int = 48  # tokens of each answer
    rounds: int = 3


class Bench:
    """One model, in this process."""

    def __init__(self, info: ModelInfo, plan: Plan) -> None:
        self._info = info
        self._plan = plan
        self._backend: Any = None

    async def run(self) -> list[dict[str, float | int | str]]:
        """A line for each way to ask."""
        plan = self._plan
        # Nothing is found in a prefix cache, so that every prompt is filled by its adapters.
        settings = Settings(model=str(self._info.path), batch=plan.rows, prefix_cache=0.0)
        async with Engine(settings, self._info, self._load) as engine:
            with tempfile.TemporaryDirectory() as folder:
                names = await engine.run_exclusive(lambda: self._write(Path(folder)), "bench")
                asked = {NONE: [()] * plan.rows, **ways(names, plan.rows)}
                rounds: dict[str, list[Sequence[Marks]]] = {way: [] for way in asked}
                for turn in range(plan.rounds + 1):
                    for way, uses in asked.items():
                        marks = await self._round(engine, uses)
                        if turn:  # the first one warms
                            rounds[way].append(marks)
                        if way is NONE:
                            for name in names:
                                await engine.adapters.mount(name, Path(folder) / name)
                    for name in names:
                        await engine.adapters.unmount(name, when_idle=True)
        return [{"way": way, **figures(found, rounds["base"])} for way, found in rounds.items()]

    def _load(self, *arguments: Any) -> Adapting:
        self._backend = boot(*arguments)
        return self._backend

    def _write(self, folder: Path) -> list[str]:
        from slipstream.backends.mlx.adapters.random import write  # device thread only

        names = [f"adapter{n}" for n in range(SEVERAL)]
        for seed, name in enumerate(names):
            write(self._backend.model, folder / name, seed, self._plan.rank)
        return names

    async def _round(self, engine: Engine, uses: Sequence[Uses]) -> Sequence[Marks]:
        return await asyncio.gather(*(self._one(engine, each) for each in uses))

    async def _one(self, engine: Engine, uses: Uses) -> Marks:
        messages = [{"role": "user", "content": QUESTION}]
        more: Mapping[str, Any] = {"max_tokens": self._plan.steps, "temperature": 0.0}
        marks = Marks(time.perf_counter())
        async for delta in engine.stream(messages, adapters=uses, ignore_eos=True, **more):
            marks.pieces.append((time.perf_counter(), delta.tokens))
        return marks


def ways(names: Sequence[str], rows: int) -> dict[str, list[Uses]]:
    """What each row of a round asks for."""
    uses = [(AdapterUse(name),) for name in names]
    return {
        "base": [()] * rows,
        "one adapter": [uses[0]] * rows,
        f"{len(names)} adapters": [uses[row % len(uses)] for row in range(rows)],
        "half with, half without": [
            uses[row % len(uses)] if row % 2 else () for row in range(rows)
        ],
        "two at once": [(*uses[0], AdapterUse(names[1], 0.5))] * rows,
    }


def figures(
    found: Sequence[Sequence[Marks]], base: Sequence[Sequence[Marks]]
) -> dict[str, float | int | str]:
    """Of one way, against the base in the same rounds."""
    rates = [decode_rate(marks) for marks in found]
    plain = [decode_rate(marks) for marks in base]
    return {
        "tok_s": statistics.median(rates),
        "of_base": statistics.median(a / b for a, b in zip(rates, plain, strict=True)),
        "ttft_ms": statistics.median(first_token_ms(marks) for marks in found),
    }
