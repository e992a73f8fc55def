"""The engine as a Python library: composes text, gateway and backend. The server is one user.

It knows no HTTP. Everything here belongs to one event loop.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import fields
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from slipstream.backends.mlx.boot import boot
from slipstream.backends.mlx.prefix.disk.behind import WriteBehind
from slipstream.backends.mlx.prefix.disk.folder import Folder
from slipstream.backends.mlx.prefix.disk.tier import DiskTier
from slipstream.backends.mlx.prefix.identity import identity
from slipstream.contracts.backend import Backend
from slipstream.contracts.clock import MonotonicClock
from slipstream.contracts.completion import Completion, Message
from slipstream.contracts.delta import Delta
from slipstream.contracts.errors import InvalidRequest, ModelError, UsageError
from slipstream.contracts.limits import MemoryLimits
from slipstream.contracts.model import ModelInfo
from slipstream.contracts.report import EngineStats, Flushed, Report, RowReport
from slipstream.contracts.row import CancelReason
from slipstream.contracts.sampling import Sampling
from slipstream.contracts.trace import Hop, Moment
from slipstream.engine.gateway import Gateway
from slipstream.engine.lease import Job, T
from slipstream.engine.session import Session
from slipstream.engine.times import TurnLog
from slipstream.settings import Settings, cache_home
from slipstream.text.prepare import Prepared, Preparer, sampling_defaults
from slipstream.text.sink import Folded, deltas, fold, merged
from slipstream.text.template import load_template
from slipstream.text.tokenizer import Tokenizer

log = logging.getLogger(__name__)
Load = Callable[[ModelInfo, MemoryLimits, int, Callable[[], DiskTier] | None], Backend]


class Running:
    """One accepted request, with a session for each choice: its deltas, once, and its report."""

    def __init__(
        self, sessions: Sequence[Session], prepared: Prepared, before: Sequence[Hop]
    ) -> None:
        """`before`: where the request was before it had sessions."""
        self._sessions = sessions
        self._prepared = prepared
        self._before = before

    @property
    def prompt_tokens(self) -> int:
        return len(self._prepared.prompt.ids)

    @property
    def ignored(self) -> tuple[str, ...]:
        """Fields that change nothing with this model."""
        return self._prepared.ignored

    @property
    def report(self) -> Report:
        return Report.overlapping([session.report for session in self._sessions])

    @property
    def rows(self) -> list[RowReport]:
        """Its choices that have not ended."""
        return [
            session.row(choice)
            for choice, session in enumerate(self._sessions)
            if session.outcome is None
        ]

    @property
    def hops(self) -> list[Hop]:
        """Where it was so far, beginning with prepare; on the monotonic clock."""
        return [*self._before, *(hop for session in self._sessions for hop in session.hops)]

    @property
    def moments(self) -> list[Moment]:
        """What happened to its rows so far, on the same clock."""
        return [moment for session in self._sessions for moment in session.moments]

    def deltas(self) -> AsyncGenerator[Delta, None]:
        """Of all choices as they come. Raises Fault or Cancelled; that, and closing it early,
        ends the request."""
        streams = [
            deltas(session, self._prepared.sink(choice))
            for choice, session in enumerate(self._sessions)
        ]
        return streams[0] if len(streams) == 1 else merged(streams)

    def cancel(self, reason: CancelReason) -> None:
        for session in self._sessions:
            session.cancel(reason)


class Engine:
    """One model, ready to answer many requests at once.

    ```python
    async with Engine.load() as engine:
        answer = await engine.chat([{"role": "user", "content": "Hello"}], max_tokens=50)
        print(answer.text)
    ```
    """

    def __init__(
        self,
        settings: Settings,
        info: ModelInfo,
        load: Load = boot,
    ) -> None:
        """Reads tokenizer and template; loads no weights yet. Raises ModelError, UsageError.

        `load` makes the backend, on the device thread, within memory limits and with most tokens
        of a row in one forward."""
        self.info = info
        self.context = _context(settings, info)
        self._tokenizer = Tokenizer.load(info.path)
        template = load_template(
            info,
            self._tokenizer.named,
            given=settings.chat_template,
            variables=_template_variables(settings),
        )
        flags = {name: getattr(settings, flag) for name, flag in _SAMPLING_FLAGS}
        self._preparer = Preparer(
            info,
            self._tokenizer,
            template,
            sampling_defaults(info.generation, flags),
            self.context,
            settings.max_tokens,
            keep_volatile_line=settings.keep_volatile_line,
        )
        self._limits = settings.limits
        disk = None if settings.ssd_cache is None else partial(self._open_disk, settings)
        made = partial(load, info, settings.memory, settings.prefill_chunk, disk)
        self._clock = MonotonicClock()
        self._turn_log = None if settings.trace_turns is None else _turn_log(settings.trace_turns)
        self._gateway = Gateway(made, self._limits, self._clock, self._turn_log)
        self._disk: DiskTier | None = None
        self._behind: WriteBehind | None = None
        self._started = False
        self._numbers = itertools.count(1)

    @classmethod
    def load(cls, model: str | None = None, **settings: Any) -> Self:
        """The engine of `model` (a folder, a hub id, part of a name on disk; None: the starter).

        `settings` are fields of Settings. Gets the model where needed; use it with `async with`.
        Raises ModelError, UsageError."""
        from slipstream.models.obtain import obtain  # pulls in the hub's library

        return cls(Settings(model=model, **settings), obtain(model, cache_home(), download=True))

    async def __aenter__(self) -> Self:
        try:
            await self.wait_ready()
        except BaseException:
            await self.close(0.0)  # nobody calls __aexit__ then
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close(0.0 if error else self._limits.drain_timeout)

    async def wait_ready(self) -> None:
        """Starts loading unless it has begun; returns once requests are taken.

        Raises ModelError when loading failed. Cancelling a call ends only that call."""
        if not self._started:
            self._started = True
            self._gateway.start()
        await self._gateway.wait_ready()
        self._fit_context()
        if self._disk is not None and self._behind is None:
            self._behind = WriteBehind(self._disk, lambda: self.stats().prefix.dirty)
            self._behind.start(self.run_when_idle)

    def _fit_context(self) -> None:
        """The context is no longer than what one row can hold in this memory."""
        most = self._gateway.abilities.context
        if most is None or most >= self.context:
            return
        if most < 1:
            raise ModelError(
                "The memory for rows holds not one. Raise --kv-budget or --memory-budget, or "
                "choose a smaller model; `slipstream fit` shows the numbers."
            )
        log.warning("the context is %d tokens, not %d: memory holds no more", most, self.context)
        self.context = most
        self._preparer.limit_context(most)

    async def close(self, drain: float) -> None:
        """Refuses new work, gives running work `drain` seconds, releases everything."""
        if self._behind is not None:
            await self._behind.stop()
        await self._gateway.close(drain)
        self._preparer.close()
        if self._disk is not None:
            self._disk.close()
        if self._turn_log is not None:
            self._turn_log.close()

    # Asking

    async def chat(self, messages: Sequence[Message], **fields: Any) -> Folded:
        """The whole answer to a conversation. `fields` as for `stream`, but for one choice."""
        completion = self._completion({"messages": messages}, fields)
        return await self._whole(completion)

    async def generate(self, prompt: str | Sequence[int], **fields: Any) -> Folded:
        """The whole continuation of a text, or of token ids, without a template."""
        source = {"text": prompt} if isinstance(prompt, str) else {"ids": tuple(prompt)}
        completion = self._completion({**source, "prompt_param": "prompt"}, fields)
        return await self._whole(completion)

    async def _whole(self, completion: Completion) -> Folded:
        if completion.choices != 1:
            raise InvalidRequest("A whole answer is one choice; stream several.", param="choices")
        running = await self.submit(completion)
        async with aclosing(running.deltas()) as found:
            return fold([delta async for delta in found])

    async def stream(
        self, messages: Sequence[Message], **fields: Any
    ) -> AsyncGenerator[Delta, None]:
        """An answer piece by piece, or several (`choices`); leaving the loop early ends them.

        `fields` are those of Completion, and sampling by name: temperature, top_p, seed, ...
        Raises InvalidRequest, QueueFull, Unavailable; while it runs Fault, Cancelled."""
        running = await self.submit(self._completion({"messages": messages}, fields))
        async with aclosing(running.deltas()) as found:
            async for delta in found:
                yield delta

    async def submit(self, completion: Completion) -> Running:
        """Waits only where a grammar must be compiled first, and may be cancelled there.

        Raises a Refusal; then nothing was started."""
        began = self._clock.now()
        grammar = await self._preparer.grammar(completion)
        prepared = self._preparer.prepare(completion, grammar)
        prompts = [prepared.for_choice(choice) for choice in range(prepared.choices)]
        ready = self._clock.now()
        sessions = self._gateway.submit(prompts)
        before = (Hop("prepare", began, ready), Hop("place", ready, sessions[0].submitted))
        return Running(sessions, prepared, before)

    def _completion(self, source: Mapping[str, Any], given: Mapping[str, Any]) -> Completion:
        sampling = {name: value for name, value in given.items() if name in _SAMPLING_NAMES}
        rest = {name: value for name, value in given.items() if name not in _SAMPLING_NAMES}
        unknown = sorted(rest.keys() - Completion.__dataclass_fields__.keys())
        if unknown:
            raise InvalidRequest(f"There is no field {unknown[0]}.", param=unknown[0])
        return Completion(
            request_id=f"library-{next(self._numbers)}",
            model=self.info.id,
            sampling=sampling,
            **source,
            **rest,
        )

    # Jobs that need the device to themselves

    async def run_exclusive(self, job: Job[T], name: str) -> T:
        """See Gateway.run_exclusive."""
        return await self._gateway.run_exclusive(job, name)

    async def run_when_idle(self, job: Job[T], name: str) -> T:
        """See Gateway.run_when_idle."""
        return await self._gateway.run_when_idle(job, name)

    # The prefix cache on disk

    def _open_disk(self, settings: Settings) -> DiskTier:
        """On the device thread, before the engine is ready."""
        assert settings.ssd_cache is not None
        self._disk = DiskTier(
            Folder(settings.ssd_cache),
            settings.ssd_cache_bytes,
            identity=identity(self.info.path),
            model=self.info.id,
        )
        return self._disk

    async def flush_cache(self) -> Flushed:
        """Makes durable what of the prefix cache is not on disk yet; nothing without a disk tier.

        Raises Unavailable when the disk does not take it."""
        if self._behind is None:
            return Flushed(0, 0)
        return await self._behind.flush(self.run_exclusive)

    # Text

    def count_tokens(self, completion: Completion) -> int:
        """How long its prompt is; nothing runs. Raises InvalidRequest."""
        return len(self._preparer.ids(completion))

    def tokenize(
        self,
        *,
        text: str | None = None,
        messages: Sequence[Message] | None = None,
        add_special_tokens: bool,
    ) -> list[int]:
        """Ids of exactly one of `text` and `messages`. Raises InvalidRequest."""
        if messages is None:
            return self._tokenizer.encode(text or "", add_special_tokens=add_special_tokens)
        return list(self._preparer.ids(self._completion({"messages": messages}, {})))

    def detokenize(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids)

    def token_text(self, token: int) -> str:
        """One token as text; half a character becomes a replacement sign."""
        return self._tokenizer.token_bytes(token).decode("utf-8", "replace")

    # Looking

    @property
    def state(self) -> Any:
        """loading, ready, failed or draining."""
        state = self._gateway.state.value
        return "draining" if state == "closed" else state

    def stats(self) -> EngineStats:
        return self._gateway.stats()

    def health(self) -> str | None:
        """None while all is well, else the reason why it is not."""
        return self._gateway.health()


_SAMPLING_FLAGS = (
    ("temperature", "temp"),
    ("top_p", "top_p"),
    ("top_k", "top_k"),
    ("min_p", "min_p"),
)
_SAMPLING_NAMES = frozenset(field.name for field in fields(Sampling))


def _context(settings: Settings, info: ModelInfo) -> int:
    if settings.context is None:
        return info.context
    if settings.context > info.context:
        raise UsageError(
            f"--context {settings.context} is more than this model's {info.context} tokens.",
            param="context",
        )
    return settings.context


def _turn_log(path: Path) -> TurnLog:
    try:
        return TurnLog(path)
    except OSError as error:
        raise UsageError(f"--trace-turns: {error}", param="trace_turns") from error


def _template_variables(settings: Settings) -> dict[str, Any]:
    try:
        found = json.loads(settings.chat_template_args)
    except ValueError as error:
        raise UsageError(
            f"--chat-template-args is not JSON: {error}", param="chat_template_args"
        ) from error
    if not isinstance(found, dict):
        raise UsageError(
            "--chat-template-args must be a JSON object of template variables.",
            param="chat_template_args",
        )
    return found
