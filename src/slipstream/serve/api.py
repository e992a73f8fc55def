"""What an API's protocol file makes: a parsed request, and the reply that renders its deltas.

Words between the protocol files and `generation`; they know neither routes nor the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from slipstream.contracts.completion import Completion
from slipstream.contracts.delta import Delta
from slipstream.contracts.errors import SlipstreamError
from slipstream.contracts.report import Report
from slipstream.serve.fields import Context
from slipstream.serve.wire import Object


@dataclass(slots=True)
class Tally:
    """Tokens of one request so far, ends included."""

    completion: int = 0
    reasoning: int = 0

    def count(self, delta: Delta) -> None:
        self.completion += delta.tokens
        self.reasoning += delta.reasoning_tokens


@dataclass(frozen=True, slots=True)
class Account:
    """What one request cost, over all its prompts and choices. Token counts."""

    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    report: Report
    ignored: tuple[str, ...] = ()  # fields that change nothing with this model

    @classmethod
    def of(
        cls,
        prompts: Sequence[int],
        reports: Sequence[Report],
        tally: Tally,
        ignored: tuple[str, ...] = (),
    ) -> Account:
        """`prompts` are token counts, and `reports` one for each."""
        return cls(
            prompt_tokens=sum(prompts),
            completion_tokens=tally.completion,
            reasoning_tokens=tally.reasoning,
            ignored=ignored,
            report=replace(
                Report.overlapping(reports),
                prompt_tokens=sum(prompts),
                cached_tokens=sum(report.cached_tokens for report in reports),
            ),
        )


class Reply(Protocol):
    """Renders one request's deltas. `source` is the index of the prompt that a delta answers."""

    @property
    def keep_alive(self) -> bytes:
        """The frame that breaks a silence."""
        ...

    def opening(self, account: Account) -> bytes:
        """The frames ahead of the first delta, possibly none. `account` is what is known then."""
        ...

    def push(self, source: int, delta: Delta) -> bytes:
        """Frames, possibly none."""
        ...

    def ending(self, account: Account) -> bytes:
        """The frames after the last delta."""
        ...

    def body(self, deltas: Sequence[tuple[int, Delta]], account: Account) -> Mapping[str, Any]:
        """The whole reply: a fold over the same deltas."""
        ...


Failed = Callable[[SlipstreamError], bytes]
"""The frames that end a stream in which an error came."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A request, checked. Each completion answers one prompt."""

    completions: tuple[Completion, ...]
    reply: Reply
    stream: bool
    failed: Failed | None = None  # where more than the error itself is told


Parse = Callable[[Object, Context], Parsed]
"""Raises a Refusal naming the field."""
