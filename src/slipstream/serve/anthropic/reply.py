"""Renders the deltas of POST /v1/messages: content blocks, events, usage, the whole message.

It does not know where deltas come from.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Any

import msgspec

from slipstream.contracts.delta import Delta
from slipstream.contracts.row import FinishReason
from slipstream.serve import sse
from slipstream.serve.api import Account
from slipstream.serve.openai.reply import extension
from slipstream.serve.wire import encode

Event = dict[str, Any]

PING = sse.event(encode({"type": "ping"}), "ping")
STOP_REASONS: Mapping[FinishReason, str] = MappingProxyType(
    {
        FinishReason.STOP: "end_turn",
        FinishReason.LENGTH: "max_tokens",
        FinishReason.TOOL_CALLS: "tool_use",
    }
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a content block. Pieces of one kind and call that follow each other are one."""

    kind: str  # the block's type
    text: str
    call: int = 0  # which of the answer's tool calls
    id: str = ""
    name: str = ""

    @property
    def key(self) -> tuple[str, int]:
        return self.kind, self.call


def pieces(delta: Delta) -> Iterator[Piece]:
    if delta.reasoning:
        yield Piece("thinking", delta.reasoning)
    if delta.text:
        yield Piece("text", delta.text)
    for call in delta.calls:
        yield Piece("tool_use", call.arguments, call.index, call.id, call.name)


class AnthropicReply:
    """One reply, streamed or whole; see api.Reply. Without `show_thinking`, thinking blocks are
    there and empty."""

    keep_alive = PING

    def __init__(self, *, model: str, ignored: Sequence[str], show_thinking: bool) -> None:
        self._ignored = ignored
        self._show_thinking = show_thinking
        self._writer = BlockWriter(show_thinking)
        self._head = {
            "id": f"msg_{uuid.uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "model": model,
        }
        self._last = Delta()

    def opening(self, account: Account) -> bytes:
        message = {**self._head, "content": [], **ending(Delta()), "usage": usage(account)}
        return frames([{"type": "message_start", "message": message}])

    def push(self, source: int, delta: Delta) -> bytes:
        self._last = delta
        return frames(event for piece in pieces(delta) for event in self._writer.push(piece))

    def ending(self, account: Account) -> bytes:
        told = {"type": "message_delta", "delta": ending(self._last), **self._account(account)}
        return frames([*self._writer.close(), told, {"type": "message_stop"}])

    def body(self, deltas: Sequence[tuple[int, Delta]], account: Account) -> Mapping[str, Any]:
        parts = (piece for _, delta in deltas for piece in pieces(delta))
        content = [
            whole(list(group), self._show_thinking) for _, group in groupby(parts, lambda p: p.key)
        ]
        end = ending(deltas[-1][1])
        return {**self._head, "content": content, **end, **self._account(account)}

    def _account(self, account: Account) -> Mapping[str, Any]:
        return {"usage": usage(account), "slipstream": extension(account, self._ignored)}


class BlockWriter:
    """The content blocks of a stream, one open at a time."""

    def __init__(self, show_thinking: bool) -> None:
        self._show_thinking = show_thinking
        self._index = -1
        self._open: Piece | None = None  # the first of the open block
        self._thought = ""

    def push(self, piece: Piece) -> Iterator[Event]:
        if self._open is None or piece.key != self._open.key:
            yield from self.close()
            self._index += 1
            self._open = piece
            yield self._event("content_block_start", content_block=started(piece))
        if piece.kind == "thinking":
            self._thought += piece.text
        if piece.text and (self._show_thinking or piece.kind != "thinking"):
            yield self._event("content_block_delta", delta=added(piece))

    def close(self) -> Iterator[Event]:
        if self._open is None:
            return
        if self._open.kind == "thinking":
            signed = {"type": "signature_delta", "signature": signature(self._thought)}
            yield self._event("content_block_delta", delta=signed)
        yield self._event("content_block_stop")
        self._open, self._thought = None, ""

    def _event(self, name: str, **fields: Any) -> Event:
        return {"type": name, "index": self._index, **fields}


def started(piece: Piece) -> dict[str, Any]:
    """A block before anything is in it."""
    match piece.kind:
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}
        case "tool_use":
            return {"type": "tool_use", "id": piece.id, "name": piece.name, "input": {}}
        case _:
            return {"type": "text", "text": ""}


def added(piece: Piece) -> dict[str, Any]:
    match piece.kind:
        case "thinking":
            return {"type": "thinking_delta", "thinking": piece.text}
        case "tool_use":
            return {"type": "input_json_delta", "partial_json": piece.text}
        case _:
            return {"type": "text_delta", "text": piece.text}


def whole(group: Sequence[Piece], show_thinking: bool) -> dict[str, Any]:
    """The block that its pieces add up to."""
    text = "".join(piece.text for piece in group)
    block = started(group[0])
    match group[0].kind:
        case "thinking":
            shown = text if show_thinking else ""
            return block | {"thinking": shown, "signature": signature(text)}
        case "tool_use":
            return block | {"input": arguments(text)}
        case _:
            return block | {"text": text}


def arguments(text: str) -> msgspec.Raw:
    """As they are; none where the answer was cut off in the middle of them."""
    try:
        msgspec.json.decode(text, type=dict)
    except msgspec.DecodeError:
        return msgspec.Raw(b"{}")
    return msgspec.Raw(text.encode())


def signature(thinking: str) -> str:
    """Clients want one and send it back; here it proves nothing."""
    return base64.b64encode(hashlib.sha256(thinking.encode()).digest()).decode()


def ending(last: Delta) -> dict[str, Any]:
    """Why the answer ended; nulls while it has not."""
    if last.stop:
        return {"stop_reason": "stop_sequence", "stop_sequence": last.stop}
    reason = None if last.finish is None else STOP_REASONS[last.finish]
    return {"stop_reason": reason, "stop_sequence": None}


def usage(account: Account) -> dict[str, Any]:
    """The prefix cache takes in every prompt, so nothing is written for one request alone."""
    cached = account.report.cached_tokens
    return {
        "input_tokens": account.prompt_tokens - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": account.completion_tokens,
        "output_tokens_details": {"thinking_tokens": account.reasoning_tokens},
    }


def frames(events: Iterable[Event]) -> bytes:
    return b"".join(sse.event(encode(event), event["type"]) for event in events)
