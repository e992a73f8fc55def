"""What the two OpenAI routes' replies share: envelope, usage, the `slipstream` object, frames.

The shape of a choice is a Style's business. It does not know where deltas come from.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Protocol

from slipstream.contracts.delta import Delta
from slipstream.serve import sse
from slipstream.serve.api import Account
from slipstream.serve.wire import encode
from slipstream.text.sink import Folded, fold

Choice = dict[str, Any]


class ChoiceWriter(Protocol):
    """Writes one choice of a stream."""

    def push(self, delta: Delta) -> list[Choice]: ...


class Style(Protocol):
    @property
    def prefix(self) -> str:
        """Of ids."""
        ...

    @property
    def body_object(self) -> str: ...

    @property
    def chunk_object(self) -> str: ...

    def writer(self, index: int) -> ChoiceWriter: ...

    def whole(self, index: int, folded: Folded) -> Choice: ...


class OpenAIReply:
    """One reply, streamed or whole; see api.Reply. `choices` is per prompt, `prompts` how many."""

    keep_alive = sse.COMMENT

    def __init__(
        self,
        style: Style,
        *,
        model: str,
        ignored: Sequence[str],
        prompts: int,
        choices: int,
        include_usage: bool,
    ) -> None:
        self._style = style
        self._ignored = ignored
        self._choices = choices
        self._include_usage = include_usage
        self._total = prompts * choices
        self._writers = [style.writer(index) for index in range(self._total)]
        self._head = {
            "id": style.prefix + uuid.uuid4().hex,
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": fingerprint(model),
        }

    def opening(self, account: Account) -> bytes:
        return b""

    def push(self, source: int, delta: Delta) -> bytes:
        writer = self._writers[source * self._choices + delta.choice]
        return b"".join(self._frame([choice]) for choice in writer.push(delta))

    def ending(self, account: Account) -> bytes:
        if not self._include_usage:
            return sse.DONE
        return self._frame([], **self._account(account)) + sse.DONE

    def body(self, deltas: Sequence[tuple[int, Delta]], account: Account) -> Mapping[str, Any]:
        parts: list[list[Delta]] = [[] for _ in range(self._total)]
        for source, delta in deltas:
            parts[source * self._choices + delta.choice].append(delta)
        choices = [self._style.whole(index, fold(part)) for index, part in enumerate(parts)]
        head = {**self._head, "object": self._style.body_object}
        return {**head, "choices": choices, **self._account(account)}

    def _frame(self, choices: list[Choice], **more: Any) -> bytes:
        chunk = {**self._head, "object": self._style.chunk_object, "choices": choices}
        if self._include_usage:
            chunk["usage"] = None
        return sse.event(encode({**chunk, **more}))

    def _account(self, account: Account) -> Mapping[str, Any]:
        return {"usage": usage(account), "slipstream": extension(account, self._ignored)}


def fingerprint(model: str) -> str:
    """Changes with the model and with our version, as both can change an answer."""
    digest = hashlib.sha256(f"{version('slipstream')} {model}".encode()).hexdigest()
    return f"fp_{digest[:12]}"


def usage(account: Account) -> Mapping[str, Any]:
    return {
        "prompt_tokens": account.prompt_tokens,
        "completion_tokens": account.completion_tokens,
        "total_tokens": account.prompt_tokens + account.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": account.report.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": account.reasoning_tokens},
    }


def extension(account: Account, ignored: Sequence[str]) -> Mapping[str, Any]:
    """The `slipstream` object: what the server says about this request."""
    report = account.report
    return {
        "lane": report.placement.lane,
        "method": report.placement.method,
        "reasons": list(report.placement.reasons),
        "queue_ms": round(report.queue_ms, 3),
        "prefill_ms": round(report.prefill_ms, 3),
        "decode_ms": round(report.decode_ms, 3),
        "cached_tokens": report.cached_tokens,
        "rows_peak": report.rows_peak,
        "seed": report.seed,
        "ignored": [*ignored, *account.ignored],
        "spec": None,
    }
