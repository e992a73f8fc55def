"""A piece of output, as every API sees it, and where the pieces come from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from slipstream.contracts.row import CancelReason, FinishReason, TokenEvent


@dataclass(frozen=True, slots=True)
class TextLogprob:
    """A token as text: `text` may hold replacement characters, `raw` is exact.

    `logprob` is None for a prompt's first token. A `silent` token adds nothing to the text."""

    text: str
    raw: bytes
    logprob: float | None
    top: tuple[TextLogprob, ...] = ()
    silent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDelta:
    """A piece of one tool call. `id` and `name` come with its first piece and only then;
    the `arguments` of all its pieces concatenate to one JSON object."""

    index: int  # of the call within its answer, from 0
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What a step added: reasoning, then text, then calls. Whole characters only; empty text is
    fine.

    `tokens` counts the drawn tokens that this piece accounts for, ends included, and
    `reasoning_tokens` those of them that were drawn within reasoning.
    The last delta of a choice, and only it, carries `finish`, and `stop` where a stop string
    made it end: which one.
    """

    choice: int = 0
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolDelta, ...] = ()
    tokens: int = 0
    reasoning_tokens: int = 0
    logprobs: tuple[TextLogprob, ...] = ()
    finish: FinishReason | None = None
    stop: str = ""


class TokenSource(Protocol):
    """A session, as the text side sees it."""

    def batches(self) -> AsyncIterator[Sequence[TokenEvent]]:
        """Events in order, as many at a time as are there. Ends after the last one.

        Raises Fault when the row failed, Cancelled when it was ended from outside."""
        ...

    def cancel(self, reason: CancelReason) -> None:
        """The single back-edge. Idempotent; takes effect within one turn."""
        ...
