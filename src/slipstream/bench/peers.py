"""Servers that a bench asks: ours, and `mlx_lm.server` beside it on the same weights.

It knows how they start and what their requests need; no workload.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from slipstream.bench.client import events
from slipstream.bench.engine import served
from slipstream.bench.marks import Marks
from slipstream.bench.report import Row
from slipstream.contracts.errors import Fault
from slipstream.contracts.model import ModelInfo
from slipstream.settings import Settings

ROUTE = "/v1/chat/completions"
PEER = (
    "from slipstream.backends.mlx.device import load_blas; load_blas()\n"
    "from mlx_lm.server import main; main()"
)
OURS, THEIRS = "slipstream", "mlx_lm.server"
STARTING = 120.0  # seconds until a peer must answer


@dataclass(slots=True)
class Answer:
    """When its pieces came, its text, and what the server counted. `moved` is set by each piece."""

    marks: Marks
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    text: str = ""
    prompt: int = 0
    cached: int = 0

    @property
    def ttft_ms(self) -> float:
        return (self.marks.first - self.marks.asked) * 1000


@dataclass(frozen=True, slots=True)
class Target:
    """A running server. `more` makes its answers go on past an end; `salted`: a request can be
    kept out of its prefix cache."""

    name: str
    url: str
    more: Mapping[str, Any] = field(default_factory=dict)
    salted: bool = False

    async def ask(
        self,
        messages: Sequence[Mapping[str, Any]],
        tokens: int,
        *,
        alone: bool = False,
        answer: Answer | None = None,
    ) -> Answer:
        """One streamed answer of `tokens` tokens, written into `answer` as it comes.

        `alone`: it shares no prefix with any other. Raises Fault when it breaks off."""
        answer = answer or Answer(Marks(0.0))
        body = {
            "messages": messages,
            "max_tokens": tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.more,
        }
        if alone:
            assert self.salted
            body["cache_salt"] = uuid.uuid4().hex
        answer.marks.asked = time.perf_counter()
        async for data in events(self.url, body):
            if data == "[DONE]":
                return answer
            _take(answer, json.loads(data))
        raise Fault(f"{self.name}: the stream ended without [DONE].")


def _take(answer: Answer, chunk: Mapping[str, Any]) -> None:
    for choice in chunk.get("choices") or ():
        if text := choice.get("delta", {}).get("content"):
            answer.marks.pieces.append((time.perf_counter(), 1))
            answer.text += text
            answer.moved.set()
    if usage := chunk.get("usage"):
        answer.prompt = usage["prompt_tokens"]
        details = usage.get("prompt_tokens_details") or {}
        answer.cached = details.get("cached_tokens") or 0


def ratios(rows: Sequence[Row], by: Sequence[str]) -> list[Row]:
    """Times of theirs over times of ours, for rows that agree in the columns `by`."""
    ours = {tuple(row[name] for name in by): row for row in rows if row["server"] == OURS}
    made: list[Row] = []
    for row in rows:
        same = ours.get(tuple(row[name] for name in by))
        if row["server"] == THEIRS and same is not None:
            times = [name for name in row if name.endswith("_ms")]
            made.append(
                {name: row[name] for name in by}
                | {name.removesuffix("_ms"): _over(row[name], same[name]) for name in times}
            )
    return made


def _over(theirs: float | int | str, ours: float | int | str) -> float:
    return float(theirs) / float(ours)


@asynccontextmanager
async def targets(info: ModelInfo, batch: int, *, peer: bool) -> AsyncIterator[list[Target]]:
    """Ours, and with `peer` mlx_lm.server too, warm, on one folder of weights.

    Where ours would widen the weights at load, both get the widened ones."""
    with _weights(info, peer=peer) as folder:
        settings = Settings(model=str(folder), batch=batch)
        async with served(settings) as url:
            found = [Target(OURS, url, {"ignore_eos": True}, salted=True)]
            if not peer:
                yield await _warm(found)
                return
            ends = {str(token): -100 for token in info.eos_ids}
            async with _peer(folder) as theirs:
                found.append(Target(THEIRS, theirs, {"logit_bias": ends}))
                yield await _warm(found)


async def _warm(found: list[Target]) -> list[Target]:
    for target in found:
        await target.ask([{"role": "user", "content": "Hello"}], 4)
    return found


@contextmanager
def _weights(info: ModelInfo, *, peer: bool) -> Iterator[Path]:
    if not peer:
        yield info.path
        return
    from slipstream.backends.mlx.device import load_blas, open_device

    load_blas()
    device = open_device()
    if not device.is_cpu:
        yield info.path
        return
    from slipstream.backends.mlx.widen import write_widened

    with TemporaryDirectory(prefix="slipstream-bench-") as folder:
        write_widened(info.path, Path(folder), device)
        yield Path(folder)


@asynccontextmanager
async def _peer(folder: Path) -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PEER, "--model", str(folder), "--port", str(port)),
        *("--log-level", "WARNING"),
    )
    try:
        await _answering(process, port)
        yield f"http://127.0.0.1:{port}{ROUTE}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _answering(process: asyncio.subprocess.Process, port: int) -> None:
    until = time.monotonic() + STARTING
    while time.monotonic() < until and process.returncode is None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.2)
            continue
        writer.close()
        return
    raise Fault(f"{THEIRS} did not start; its message stands above.")
