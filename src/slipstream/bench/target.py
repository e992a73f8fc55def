"""A server that a bench asks, and what came of one request. Knows no workload."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from slipstream.bench.client import DONE, events
from slipstream.bench.marks import Marks
from slipstream.contracts.errors import Fault

OURS = "slipstream"
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(slots=True)
class Answer:
    """When its pieces came, its text, and what the server counted. `moved` is set by each piece.

    `failed` is the kind of what went wrong, `why` the message."""

    marks: Marks
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    text: str = ""
    prompt: int = 0
    cached: int = 0
    counted: int | None = None  # tokens of the answer, as usage says
    kind: str = ""
    failed: str | None = None
    why: str = ""

    @property
    def tokens(self) -> int:
        """As the server counted them, else one for each piece of text."""
        return len(self.marks.pieces) if self.counted is None else self.counted

    @property
    def ttft_ms(self) -> float:
        return (self.marks.first - self.marks.asked) * 1000

    @property
    def gaps_ms(self) -> list[float]:
        times = [when for when, _ in self.marks.pieces]
        return [(after - before) * 1000 for before, after in pairwise(times)]

    @property
    def times(self) -> dict[str, float]:
        """Milliseconds by the names of figures.METRICS, of an answer with text."""
        marks = self.marks
        found = {"ttft": self.ttft_ms, "e2e": (marks.last - marks.asked) * 1000}
        if self.tokens > 1:
            found["tpot"] = (marks.last - marks.first) * 1000 / (self.tokens - 1)
        if gaps := self.gaps_ms:
            found["gap"] = max(gaps)
        return found


@dataclass(frozen=True, slots=True)
class Target:
    """A running server. `more` goes into each body; `salted`: a request can be kept out of its
    prefix cache."""

    name: str
    url: str
    more: Mapping[str, Any] = field(default_factory=dict)
    salted: bool = False
    key: str | None = None

    async def ask(
        self,
        messages: Sequence[Mapping[str, Any]],
        tokens: int,
        *,
        alone: bool = False,
        answer: Answer | None = None,
        fields: Mapping[str, Any] = NOTHING,
    ) -> Answer:
        """One streamed answer of `tokens` tokens, written into `answer` as it comes.

        `alone`: it shares no prefix with any other. A field that is None is left out. Raises
        Fault when it breaks off."""
        answer = answer or Answer(Marks(0.0))
        body = {
            "messages": messages,
            "max_tokens": tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.more,
            **fields,
        }
        if alone:
            assert self.salted
            body["cache_salt"] = uuid.uuid4().hex
        sent = {name: value for name, value in body.items() if value is not None}
        answer.marks.asked = time.perf_counter()
        async with aclosing(events(self.url, sent, self.key)) as stream:
            async for data in stream:
                if data != DONE:
                    _take(answer, _object(self.name, data))
        return answer

    async def attempt(
        self,
        messages: Sequence[Mapping[str, Any]],
        tokens: int,
        *,
        fields: Mapping[str, Any],
        kind: str,
        seconds: float,
    ) -> Answer:
        """As `ask`, but what goes wrong, or takes longer than `seconds`, is told by the answer."""
        answer = Answer(Marks(0.0), kind=kind)
        try:
            async with asyncio.timeout(seconds):
                await self.ask(messages, tokens, answer=answer, fields=fields)
        except TimeoutError:
            answer.failed, answer.why = "timeout", f"No whole answer within {seconds:g} s."
        except Fault as fault:
            answer.failed, answer.why = fault.code, fault.message
        else:
            if not answer.marks.pieces:
                answer.failed, answer.why = "empty", "The answer ended well, without any text."
        return answer


def _object(name: str, data: str) -> Mapping[str, Any]:
    try:
        chunk = json.loads(data)
    except ValueError:
        chunk = None
    if not isinstance(chunk, dict):
        raise Fault(f"{name}: an event is no JSON object: {data[:80]}", code="malformed")
    if error := chunk.get("error"):
        raise Fault(f"{name}: {error}", code="error event")
    return chunk


def _take(answer: Answer, chunk: Mapping[str, Any]) -> None:
    for choice in chunk.get("choices") or ():
        delta = choice.get("delta") or {}
        said = delta.get("content") or ""
        thought = delta.get("reasoning_content") or delta.get("reasoning") or ""
        if said or thought:
            answer.marks.pieces.append((time.perf_counter(), 1))
            answer.text += said
            answer.moved.set()
    if usage := chunk.get("usage"):
        answer.prompt = usage["prompt_tokens"]
        answer.counted = usage.get("completion_tokens")
        details = usage.get("prompt_tokens_details") or {}
        answer.cached = details.get("cached_tokens") or 0
