"""A scripted engine behind the port, and clients for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from array import array
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from slipstream.contracts.adapters import AdapterInfo, AdapterReport, Mounted, check_name
from slipstream.contracts.completion import Completion, Message, PromptSize
from slipstream.contracts.delta import Delta, TextLogprob
from slipstream.contracts.errors import Cancelled, InvalidRequest, NotFound, SlipstreamError
from slipstream.contracts.model import ModelInfo
from slipstream.contracts.placement import AUTOREGRESSIVE, Lane, Placement, Reason
from slipstream.contracts.report import Embeddings, EngineStats, Flushed, Report, RowReport
from slipstream.contracts.row import CancelReason, FinishReason
from slipstream.contracts.sampling import Sampling
from slipstream.contracts.trace import Hop, Moment
from slipstream.serve.app import App
from slipstream.serve.ports import State
from slipstream.serve.run import serve
from slipstream.settings import Settings

MODEL = "acme/tiny-1B"
SAMPLED = {"temperature": 0.7, "top_p": 0.9}  # as if the model asked for it
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
GROUP = Placement(lane=Lane.GROUP, method=AUTOREGRESSIVE, reasons=())
SOLO = Placement(lane=Lane.SOLO, method=AUTOREGRESSIVE, reasons=(Reason.REQUESTED,))

Step = Delta | SlipstreamError | asyncio.Event
"""A delta to hand out, an error to raise, or an event to wait for."""

HELLO: tuple[Step, ...] = (
    Delta(text="Hel", tokens=1),
    Delta(text="", tokens=1),
    Delta(text="lo 🙂", tokens=1),
    Delta(text="!", tokens=2, finish=FinishReason.STOP),
)


def logprob(text: str, value: float = -0.5, *top: tuple[str, float]) -> TextLogprob:
    tops = tuple(TextLogprob(name, name.encode(), number) for name, number in top)
    return TextLogprob(text, text.encode(), value, tops)


@dataclass(eq=False)
class ScriptedRunning:
    completion: Completion
    script: Sequence[Step]
    report: Report
    prompt_tokens: int = 7
    ignored: tuple[str, ...] = ()
    reason: CancelReason | None = None
    rows: Sequence[RowReport] = ()
    hops: Sequence[Hop] = ()
    moments: Sequence[Moment] = ()
    read: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def cancel(self, reason: CancelReason) -> None:
        if not self.ended.is_set():
            self.reason = reason
            self.cancelled.set()
            self.ended.set()

    async def deltas(self) -> AsyncIterator[Delta]:
        self.read.set()
        for step in self.script:
            if isinstance(step, asyncio.Event):
                await self._until(step)
            if self.reason is not None:
                raise Cancelled(self.reason, f"Ended: {self.reason}.")
            if isinstance(step, SlipstreamError):
                raise step
            if isinstance(step, Delta):
                yield step
        self.ended.set()

    async def _until(self, event: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(one.wait()) for one in (event, self.cancelled)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


class ScriptedAdapters:
    """Takes any folder that has no "broken" in its name. `busy` are in use."""

    def __init__(self) -> None:
        self.mounted: dict[str, AdapterInfo] = {}
        self.busy: set[str] = set()

    @property
    def names(self) -> Sequence[str]:
        return tuple(sorted(self.mounted))

    def listed(self) -> Sequence[AdapterReport]:
        return [AdapterReport(self.mounted[n], int(n in self.busy)) for n in self.names]

    async def mount(self, name: str, path: Path) -> Mounted:
        check_name(name)
        if "broken" in path.name:
            raise InvalidRequest("It is broken.", param="path")
        self.mounted[name] = AdapterInfo(
            name=name, path=path, digest="d", method="lora", rank=8, targets=2, bytes=64
        )
        return Mounted(self.mounted[name])

    async def unmount(self, name: str, *, when_idle: bool) -> AdapterInfo:
        if name not in self.mounted:
            raise NotFound("There is none.", param="name")
        if name in self.busy and not when_idle:
            raise InvalidRequest("It is in use.", param="name", code="adapter_in_use")
        return self.mounted.pop(name)


class ScriptedEngine:
    """Answers every completion with `script`. `refusal` is raised by the next `submit`, which
    waits for `compiled`."""

    def __init__(self, script: Sequence[Step] = HELLO) -> None:
        self.state: State = "ready"
        self.script = script
        self.refusal: Exception | None = None
        self.unhealthy: str | None = None
        self.load_error: SlipstreamError | None = None
        self.asked = asyncio.Event()
        self.given_up = asyncio.Event()
        self.compiled = asyncio.Event()
        self.compiled.set()
        self.submitted = asyncio.Event()
        self.closing = asyncio.Event()
        self.loaded = asyncio.Event()
        self.loaded.set()
        self.context = 4096
        self.adapters = ScriptedAdapters()
        self.runnings: list[ScriptedRunning] = []
        self.counted: list[Completion] = []
        self.drains: list[float] = []
        self.embedded: list[str | Sequence[int]] = []
        self.numbers = EngineStats()
        self.flushed = Flushed(written=3, bytes=1 << 20)
        self.info = ModelInfo(
            id=MODEL,
            path=Path("models/tiny"),
            context=8192,
            vocab_size=1000,
            eos_ids=(2,),
            config={},
        )

    @property
    def last(self) -> Completion:
        return self.runnings[-1].completion

    async def submit(self, completion: Completion) -> ScriptedRunning:
        self.asked.set()
        try:
            await self.compiled.wait()
        except asyncio.CancelledError:
            self.given_up.set()
            raise
        if self.refusal is not None:
            raise self.refusal
        placement = SOLO if completion.lane == "solo" else GROUP
        report = Report(
            placement=placement,
            queue_ms=1.5,
            prefill_ms=20.25,
            decode_ms=30.0,
            prompt_tokens=7,
            cached_tokens=3,
            rows_peak=2,
            sampling=Sampling.resolve(completion.sampling, SAMPLED, seed=11),
        )
        running = ScriptedRunning(completion, self.script, report)
        self.runnings.append(running)
        self.submitted.set()
        return running

    async def embed(
        self, inputs: Sequence[str | Sequence[int]], *, dimensions: int | None = None
    ) -> Embeddings:
        """Of each input its length, its place and a third, two tokens an input."""
        self.asked.set()
        try:
            await self.compiled.wait()
        except asyncio.CancelledError:
            self.given_up.set()
            raise
        if self.refusal is not None:
            raise self.refusal
        self.embedded = list(inputs)
        vectors = [array("f", [len(one), place, 1 / 3]) for place, one in enumerate(inputs)]
        report = Report(placement=GROUP, prompt_tokens=2 * len(inputs), rows_peak=2)
        return Embeddings(vectors=[one[:dimensions].tobytes() for one in vectors], report=report)

    def count_tokens(self, completion: Completion) -> PromptSize:
        """One for each character of each message."""
        self.counted.append(completion)
        return PromptSize(sum(len(message["content"]) for message in completion.messages or ()))

    def tokenize(
        self,
        *,
        text: str | None = None,
        messages: Sequence[Message] | None = None,
        add_special_tokens: bool,
    ) -> list[int]:
        """Bytes, after token 1 as the special one."""
        body = text if text is not None else "".join(m["content"] for m in messages or ())
        return [1] * add_special_tokens + list(body.encode())

    def detokenize(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode()

    def token_text(self, token: int) -> str:
        return chr(token)

    async def flush_cache(self) -> Flushed:
        return self.flushed

    def stats(self) -> EngineStats:
        return self.numbers

    def health(self) -> str | None:
        return self.unhealthy

    async def wait_ready(self) -> None:
        await self.loaded.wait()
        if self.load_error is not None:
            self.state = "failed"
            raise self.load_error
        self.state = "ready"

    async def close(self, drain: float) -> None:
        """Waits for what runs, as long as it takes."""
        self.drains.append(drain)
        self.closing.set()
        self.state = "draining"
        for running in self.runnings:
            await running.ended.wait()


@contextlib.asynccontextmanager
async def client_of(
    engine: ScriptedEngine, app: App | None = None, **flags: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A client that reaches the app in process: `app`, or one with `flags` as its settings."""
    app = app or App(engine, Settings(**flags))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


@contextlib.asynccontextmanager
async def served(
    engine: ScriptedEngine, *, keep_alive: float = 10.0, **flags: Any
) -> AsyncIterator[str]:
    """The address of a real server, which is asked to stop at the end and must do so well."""
    lines: asyncio.Queue[str] = asyncio.Queue()
    settings = Settings(port=0, **flags)
    running = asyncio.create_task(
        serve(engine, settings, announce=lines.put_nowait, keep_alive=keep_alive)
    )
    address = (await lines.get()).rpartition(" ")[2]
    try:
        yield address
    finally:
        stop()
        assert await running == 0


def stop() -> None:
    """The signal that a supervisor sends."""
    os.kill(os.getpid(), signal.SIGTERM)


def chat(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "Hi"}], **fields}


def text(**fields: Any) -> dict[str, Any]:
    return {"prompt": "Hi", **fields}


def events(body: str) -> Iterator[str]:
    """The data of each event of a whole stream."""
    for block in body.split("\n\n"):
        if block.startswith("data: "):
            yield block.removeprefix("data: ")


def chunks(body: str) -> list[dict[str, Any]]:
    """The chunks of a stream that ends well."""
    *data, last = events(body)
    assert last == "[DONE]"
    return [json.loads(one) for one in data]
