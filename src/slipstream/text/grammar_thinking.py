"""A grammar that begins behind reasoning: until then everything but an end is allowed.

It does not know what the grammar says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from llguidance import LLMatcher, LLTokenizer

from slipstream.text.grammar_matcher import WORD, GrammarMatcher, GroupMasks, Words

FULL = np.uint32(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Lead:
    """What comes before the grammar's part. `begin` (ids) opens the reasoning: it comes first if
    `must`, and may come first if it is one id; with neither, reasoning is open already. `end`
    (bytes) closes it, and `after` (ids) comes next."""

    begin: tuple[int, ...]
    must: bool
    end: bytes
    after: tuple[int, ...]
    token_bytes: Callable[[int], bytes]

    def __post_init__(self) -> None:
        assert self.must or len(self.begin) <= 1


class Phase(Enum):
    CHOICE = auto()  # of reasoning or the grammar
    FORCED = auto()  # ids that are certain
    FREE = auto()
    BOUND = auto()


class ThinkingMatcher(GrammarMatcher):
    """As its base, behind `lead`."""

    def __init__(
        self,
        start: LLMatcher,
        vocabulary: LLTokenizer,
        masks: GroupMasks,
        ends: Iterable[int],
        lead: Lead,
    ) -> None:
        super().__init__(start, vocabulary, masks, ends)
        self._lead = lead
        self._size = vocabulary.vocab_size
        self._begin()

    def _begin(self) -> None:
        self._tail = b""
        self._queue: tuple[int, ...] = ()
        self._next = Phase.FREE
        if self._lead.must:
            self._force(self._lead.begin, Phase.FREE)
        else:
            self._phase = Phase.CHOICE if self._lead.begin else Phase.FREE

    def _force(self, ids: tuple[int, ...], then: Phase) -> None:
        self._queue, self._next = ids, then
        self._phase = Phase.FORCED if ids else then

    def allowed(self) -> bytes:
        if self._phase in (Phase.BOUND, Phase.CHOICE):
            line: Words = np.frombuffer(super().allowed(), np.uint32).copy()
        else:
            line = np.zeros(self.masks.words, np.uint32)
        self.open_ends(line)
        return line.tobytes()

    def open_ends(self, line: Words) -> None:
        match self._phase:
            case Phase.BOUND:
                super().open_ends(line)
            case Phase.CHOICE:
                super().open_ends(line)
                _set(line, self._lead.begin[0])
            case Phase.FORCED:
                line.fill(0)
                _set(line, self._queue[0])
            case Phase.FREE:
                self._open_all(line)

    def _open_all(self, line: Words) -> None:
        line.fill(FULL)
        if rest := self._size % WORD:
            line[-1] = np.uint32((1 << rest) - 1)
        for token in self._ends:
            line[token // WORD] &= ~np.uint32(1 << token % WORD)

    def forced(self) -> Sequence[int]:
        match self._phase:
            case Phase.FORCED:
                return self._queue
            case Phase.BOUND:
                return super().forced()
        return ()

    def accept(self, token: int) -> None:
        match self._phase:
            case Phase.FORCED:
                if token != self._queue[0]:
                    raise ValueError("Another token is certain here.")
                self._force(self._queue[1:], self._next)
            case Phase.CHOICE if token == self._lead.begin[0]:
                self._phase = Phase.FREE
            case Phase.FREE:
                self._think(token)
            case _:
                self._phase = Phase.BOUND
                super().accept(token)

    def _think(self, token: int) -> None:
        if token in self._ends:
            raise ValueError("Reasoning has no end of its own.")
        self._tail += self._lead.token_bytes(token)
        if self._lead.end in self._tail:
            self._force(self._lead.after, Phase.BOUND)
        self._tail = self._tail[-len(self._lead.end) :]

    def rewind(self, drawn: Sequence[int]) -> None:
        self._begin()
        super().rewind(drawn)

    @property
    def stopped(self) -> bool:
        return self._phase is Phase.BOUND and super().stopped


def _set(line: Words, token: int) -> None:
    line[token // WORD] |= np.uint32(1 << token % WORD)
