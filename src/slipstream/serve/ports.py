"""The seam to everything behind HTTP: what this folder asks of the engine, and no more.

It does not know who implements it; tests use a scripted one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Literal, Protocol

from slipstream.contracts.adapters import AdapterInfo, AdapterReport, Mounted
from slipstream.contracts.completion import Completion, Message, PromptSize
from slipstream.contracts.delta import Delta
from slipstream.contracts.model import ModelInfo
from slipstream.contracts.report import Embeddings, EngineStats, Flushed, Report, RowReport
from slipstream.contracts.row import CancelReason
from slipstream.contracts.trace import Hop, Moment

State = Literal["loading", "ready", "failed", "draining"]


class Running(Protocol):
    """One accepted Completion."""

    @property
    def prompt_tokens(self) -> int: ...

    @property
    def ignored(self) -> tuple[str, ...]:
        """Its fields that change nothing with this model."""
        ...

    @property
    def report(self) -> Report:
        """So far; the placement is there from the start."""
        ...

    @property
    def rows(self) -> Sequence[RowReport]:
        """Its choices that have not ended."""
        ...

    @property
    def hops(self) -> Sequence[Hop]:
        """Where it was so far, beginning with prepare; on the monotonic clock."""
        ...

    @property
    def moments(self) -> Sequence[Moment]:
        """What happened to its rows so far, on the same clock."""
        ...

    def deltas(self) -> AsyncIterator[Delta]:
        """Ends after each choice's delta with `finish`. Raises Fault or Cancelled."""
        ...

    def cancel(self, reason: CancelReason) -> None:
        """Idempotent, and without effect once it has ended."""
        ...


class Adapters(Protocol):
    """Those that are mounted; requests may ask for them by name."""

    @property
    def names(self) -> Sequence[str]: ...

    def listed(self) -> Sequence[AdapterReport]: ...

    async def mount(self, name: str, path: Path) -> Mounted:
        """Raises InvalidRequest, and Unavailable without memory; then nothing has changed."""
        ...

    async def unmount(self, name: str, *, when_idle: bool) -> AdapterInfo:
        """Where `when_idle`, once the last row that runs with it has ended.

        Raises NotFound, and InvalidRequest while it is in use."""
        ...


class Engine(Protocol):
    @property
    def state(self) -> State: ...

    @property
    def info(self) -> ModelInfo:
        """Known while loading too."""
        ...

    @property
    def context(self) -> int:
        """The enforced context length, in tokens."""
        ...

    @property
    def adapters(self) -> Adapters: ...

    async def submit(self, completion: Completion) -> Running:
        """Raises a Refusal; then, or when it is cancelled, nothing was started."""
        ...

    async def embed(
        self, inputs: Sequence[str | Sequence[int]], *, dimensions: int | None = None
    ) -> Embeddings:
        """The vectors of `inputs`, cut to `dimensions` entries. Cancelling it ends its rows.

        Raises a Refusal before anything is computed; then Fault, Cancelled."""
        ...

    def count_tokens(self, completion: Completion) -> PromptSize:
        """How long its prompt is; nothing runs. Raises InvalidRequest."""
        ...

    def tokenize(
        self,
        *,
        text: str | None = None,
        messages: Sequence[Message] | None = None,
        add_special_tokens: bool,
    ) -> list[int]:
        """Ids of exactly one of `text` and `messages`. Raises InvalidRequest."""
        ...

    def detokenize(self, ids: Sequence[int]) -> str: ...

    def token_text(self, token: int) -> str: ...

    async def flush_cache(self) -> Flushed:
        """Returns when nothing of the prefix cache is missing on disk.

        Without a disk tier there is nothing to do. Raises Unavailable when it cannot be written."""
        ...

    def stats(self) -> EngineStats: ...

    def health(self) -> str | None:
        """None while all is well, else the reason why it is not."""
        ...

    async def wait_ready(self) -> None:
        """Starts loading unless it has begun; returns once `state` is ready.

        Raises ModelError when loading failed. Cancelling a call ends only that call."""
        ...

    async def close(self, drain: float) -> None:
        """Refuses new work, gives running work `drain` seconds, releases everything."""
        ...
