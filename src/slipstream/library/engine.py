"""The engine as a Python library: composes text, gateway and backend. The server is one user.

It knows no HTTP. Everything here belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import fields, replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from slipstream.backends.mlx.boot import boot
from slipstream.backends.mlx.prefix.disk.tier import DiskTier
from slipstream.contracts.backend import Adapting
from slipstream.contracts.clock import MonotonicClock
from slipstream.contracts.completion import Completion, Message, PromptSize
from slipstream.contracts.delta import Delta
from slipstream.contracts.errors import InvalidRequest, ModelError
from slipstream.contracts.limits import MemoryLimits
from slipstream.contracts.model import ModelInfo
from slipstream.contracts.report import Embeddings, EngineStats, Flushed
from slipstream.contracts.sampling import Sampling
from slipstream.contracts.trace import Hop
from slipstream.engine.gateway import Gateway
from slipstream.engine.lease import Job, T
from slipstream.library.adapters import AdapterShelf
from slipstream.library.embedding import embeddings
from slipstream.library.persistence import Persistence
from slipstream.library.reading import SAMPLING_FLAGS, context_of, template_variables, turn_log
from slipstream.library.running import Running
from slipstream.settings import Settings, cache_home
from slipstream.text.prepare import Preparer, sampling_defaults
from slipstream.text.sink import Folded, fold
from slipstream.text.template import load_template
from slipstream.text.tokenizer import Tokenizer

log = logging.getLogger(__name__)
Load = Callable[[ModelInfo, MemoryLimits, int, Callable[[], DiskTier] | None], Adapting]
_SAMPLING_NAMES = frozenset(field.name for field in fields(Sampling))


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
        self.context = context_of(settings, info)
        self._tokenizer = Tokenizer.load(info.path)
        template = load_template(
            info,
            self._tokenizer.named,
            given=settings.chat_template,
            variables=template_variables(settings),
        )
        flags = {name: getattr(settings, flag) for name, flag in SAMPLING_FLAGS}
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
        self._persistence = Persistence(settings, info)
        self.adapters = AdapterShelf(settings)
        made = partial(load, info, settings.memory, settings.prefill_chunk, self._persistence.tier)
        self._clock = MonotonicClock()
        self._turn_log = turn_log(settings.trace_turns)
        self._gateway = Gateway(
            self.adapters.watching(made), self._limits, self._clock, self._turn_log
        )
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
        await self.adapters.start(self._gateway)
        self._fit_context()
        self._persistence.start(lambda: self.stats().prefix.dirty, self.run_when_idle)

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
        await self._persistence.stop()
        await self._gateway.close(drain)
        self._preparer.close()
        self._persistence.close()
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
        completion = replace(completion, adapters=await self.adapters.admit(completion))
        prepared = self._preparer.prepare(completion, grammar)
        prompts = [prepared.for_choice(choice) for choice in range(prepared.choices)]
        ready = self._clock.now()
        sessions = self._gateway.submit(prompts)
        before = (Hop("prepare", began, ready), Hop("place", ready, sessions[0].submitted))
        return Running(sessions, prepared, before)

    async def embed(
        self, inputs: Sequence[str | Sequence[int]], *, dimensions: int | None = None
    ) -> Embeddings:
        """The vectors of texts, or of token ids, where the model makes embeddings; cut to
        `dimensions` entries and then of length 1 where that is given.

        Raises a Refusal for an input that is wrong before any is computed; then Fault, Cancelled.
        """
        prompts = []
        for index, one in enumerate(inputs):
            param = "input" if len(inputs) == 1 else f"input[{index}]"
            prompts.append(self._preparer.embedder.prompt(one, param, dimensions))
            await asyncio.sleep(0)  # others have their turn between two texts
        if not prompts:
            raise InvalidRequest("input is empty.", param="input")
        return await embeddings(self._gateway.submit, prompts, self._limits.batch)

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

    async def flush_cache(self) -> Flushed:
        """Makes durable what of the prefix cache is not on disk yet; nothing without a disk tier.

        Raises Unavailable when the disk does not take it."""
        return await self._persistence.flush(self.run_exclusive)

    # Text

    def count_tokens(self, completion: Completion) -> PromptSize:
        """How long its prompt is; nothing runs. Raises InvalidRequest."""
        ignored = self._preparer.idle(completion)
        return PromptSize(len(self._preparer.ids(completion)), ignored)

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
