"""`bench engine`: the raw loop, the engine, and the server over loopback, interleaved in one run.

The raw loop is the limit; a ratio is the median over rounds of what a round measured.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from slipstream.backends.mlx.boot import boot
from slipstream.bench.marks import Marks, decode_rate, first_token_ms
from slipstream.bench.processes import served
from slipstream.bench.target import OURS, Target
from slipstream.bench.texts import user
from slipstream.contracts.backend import Adapting
from slipstream.contracts.model import ModelInfo
from slipstream.library import Engine
from slipstream.settings import Settings

QUESTIONS = (user("Write a long story about a river, a mountain and the sea. " * 3),)
SKEWED = (4000, *[64] * 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    batches: Sequence[int] = (1, 4, 8, 16)
    steps: int = 48  # tokens of each answer
    rounds: int = 3


class Bench:
    """One model, in this process and in a server of its own beside it."""

    def __init__(self, info: ModelInfo, plan: Plan) -> None:
        self._info = info
        self._plan = plan
        self._backend: Any = None

    async def run(self) -> tuple[list[dict[str, float]], dict[str, dict[str, float]]]:
        """(a row per batch size, the skewed case)."""
        most = max(self._plan.batches)
        settings = Settings(model=str(self._info.path), batch=most, queue=most)
        async with (
            Engine(settings, self._info, self._load) as engine,
            served(settings) as url,
        ):
            rows = [await self._batch(engine, url, batch) for batch in self._plan.batches]
            skew = await engine.run_exclusive(self._skewed, "bench")
        return rows, skew

    def _load(self, *arguments: Any) -> Adapting:
        self._backend = boot(*arguments)
        return self._backend

    async def _batch(self, engine: Engine, url: str, batch: int) -> dict[str, float]:
        length = len(engine.tokenize(messages=QUESTIONS, add_special_tokens=True))
        await self._asked(engine, batch)  # warms both
        raws, engines, servers, firsts = [], [], [], []
        for _ in range(self._plan.rounds):
            raws.append(
                batch / await engine.run_exclusive(partial(self._raw, batch, length), "bench")
            )
            engines.append(decode_rate(await self._asked(engine, batch)))
            server = Target(OURS, url, {"ignore_eos": True})
            asking = (server.ask(QUESTIONS, self._plan.steps) for _ in range(batch))
            streams = [answer.marks for answer in await asyncio.gather(*asking)]
            servers.append(decode_rate(streams))
            firsts.append(first_token_ms(streams))
        return {
            "batch": batch,
            "raw_tok_s": statistics.median(raws),
            "engine_tok_s": statistics.median(engines),
            "server_tok_s": statistics.median(servers),
            "engine_ratio": statistics.median(e / r for e, r in zip(engines, raws, strict=True)),
            "server_ratio": statistics.median(s / r for s, r in zip(servers, raws, strict=True)),
            "ttft_ms": statistics.median(firsts),
        }

    async def _asked(self, engine: Engine, batch: int) -> list[Marks]:
        return await asyncio.gather(*(self._one(engine) for _ in range(batch)))

    async def _one(self, engine: Engine) -> Marks:
        marks = Marks(time.perf_counter())
        fields = {"max_tokens": self._plan.steps, "temperature": 0, "ignore_eos": True}
        async for delta in engine.stream(QUESTIONS, **fields):
            marks.pieces.append((time.perf_counter(), delta.tokens))
        return marks

    def _raw(self, batch: int, length: int) -> float:
        from slipstream.backends.mlx.limit import raw_step  # imports mlx: device thread only

        return raw_step(self._backend.model, batch, length + self._plan.steps // 2, 12)

    def _skewed(self) -> dict[str, dict[str, float]]:
        from slipstream.backends.mlx.limit import ours, rectangle

        model = self._backend.model
        if len(model.packable) != len(model.new_caches()):
            return {}
        found = {"ours": ours, "rectangle": rectangle}
        skews = {name: measure(model, SKEWED, 64, 5) for name, measure in found.items()}
        return {
            name: {
                "step_ms": skew.step * 1000,
                "join_ms": skew.join * 1000,
                "leave_ms": skew.leave * 1000,
            }
            for name, skew in skews.items()
        }
