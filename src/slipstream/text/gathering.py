"""What the tokens of one step add, put into Deltas whose parts keep their order.

It does not know where the parts come from.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, auto

from slipstream.contracts.delta import Delta, TextLogprob, ToolDelta
from slipstream.contracts.row import FinishReason


class Kind(IntEnum):
    """In the order in which one Delta means them."""

    REASONING = auto()
    TEXT = auto()
    CALL = auto()


class Gathering:
    """One choice's next Deltas: one as a rule, more where text follows a call or the like."""

    def __init__(self, choice: int) -> None:
        self._choice = choice
        self._done: list[Delta] = []
        self._clear()

    def _clear(self) -> None:
        self._kind = Kind.REASONING
        self._reasoning: list[str] = []
        self._text: list[str] = []
        self._calls: list[ToolDelta] = []
        self._entries: list[TextLogprob] = []
        self._tokens = 0
        self._thought = 0

    def token(self, *, reasoning: bool) -> None:
        self._tokens += 1
        self._thought += reasoning

    def reasoning(self, text: str) -> None:
        if text:
            self._turn(Kind.REASONING)
            self._reasoning.append(text)

    def text(self, text: str) -> None:
        if text:
            self._turn(Kind.TEXT)
            self._text.append(text)

    def calls(self, pieces: Iterable[ToolDelta]) -> None:
        for piece in pieces:
            self._turn(Kind.CALL)
            last = self._calls[-1] if self._calls else None
            if last is not None and last.index == piece.index:
                whole = last.arguments + piece.arguments
                piece = ToolDelta(index=last.index, id=last.id, name=last.name, arguments=whole)
                self._calls.pop()
            self._calls.append(piece)

    def entries(self, entries: Iterable[TextLogprob]) -> None:
        self._entries += entries

    def drain(self, finish: FinishReason | None, stop: str) -> list[Delta]:
        """None while all of it is held back; the last has `finish` and `stop`."""
        if self._reasoning or self._text or self._calls or self._entries or finish:
            self._cut(finish, stop)
        found, self._done = self._done, []
        return found

    def _turn(self, kind: Kind) -> None:
        if kind < self._kind:
            self._cut()
        self._kind = kind

    def _cut(self, finish: FinishReason | None = None, stop: str = "") -> None:
        delta = Delta(
            choice=self._choice,
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            calls=tuple(self._calls),
            tokens=self._tokens,
            reasoning_tokens=self._thought,
            logprobs=tuple(self._entries),
            finish=finish,
            stop=stop,
        )
        self._clear()
        self._done.append(delta)
