"""Stretches of an answer, and the shape of what tells them apart: text, reasoning and tool calls.

It does not know where the raw text comes from, nor what becomes of the stretches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from slipstream.contracts.delta import ToolDelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """`size` raw characters, and what they show: one of the three, or nothing (markers).

    Text is shown as it is, so its size is its length."""

    size: int
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolDelta, ...] = ()

    def __post_init__(self) -> None:
        assert not self.text or len(self.text) == self.size


class Reader(Protocol):
    """A stage that takes raw text and gives Parts, in order; sizes add up to what was taken."""

    @property
    def thinking(self) -> bool:
        """Whether what comes next is reasoning."""
        ...

    @property
    def inside(self) -> bool:
        """Whether what comes next belongs to a call, as far as it is known."""
        ...

    @property
    def done(self) -> bool:
        """The answer has all it may have: no more text is needed, or looked at."""
        ...

    def push(self, text: str) -> Sequence[Part]: ...

    def flush(self) -> Sequence[Part]:
        """Ends the text: what was held back. The reader may go on with another one."""
        ...


class Plain:
    """Everything is text."""

    thinking = False
    inside = False
    done = False

    def push(self, text: str) -> Sequence[Part]:
        return (Part(size=len(text), text=text),) if text else ()

    def flush(self) -> Sequence[Part]:
        return ()
