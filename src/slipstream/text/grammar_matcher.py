"""A compiled grammar at one point of one row, and the masks of many rows filled at once.

Built on llguidance, whose matchers release the GIL. It does not know how grammars are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from llguidance import LLExecutor, LLMatcher, LLTokenizer
from numpy.typing import NDArray

from slipstream.contracts.row import Matcher

WORD = 32  # bits
Words = NDArray[np.uint32]


def words_of(vocabulary: int) -> int:
    return (vocabulary + WORD - 1) // WORD


class GroupMasks:
    """Implements contracts.row.Masks, on a few threads of its own."""

    def __init__(self, vocabulary: int, threads: int) -> None:
        self.words = words_of(vocabulary)
        self._executor = LLExecutor(threads)

    def fill(self, matchers: Sequence[Matcher], out: memoryview) -> Mapping[int, str]:
        masks = np.asarray(out).view(np.uint32)
        if masks.shape != (len(matchers), self.words) or not masks.flags.c_contiguous:
            raise ValueError(f"The masks must be {len(matchers)} rows of {self.words} words.")
        ours = [matcher for matcher in matchers if isinstance(matcher, GrammarMatcher)]
        if len(ours) != len(matchers):
            raise TypeError("Only matchers of grammars can be filled.")
        jobs = [(matcher.state, row) for row, matcher in enumerate(ours)]
        self._executor.unsafe_compute_mask_ptr(jobs, masks.ctypes.data, masks.strides[0], len(jobs))
        for matcher, line in zip(ours, masks, strict=True):
            matcher.open_ends(line)
        return {row: text for row, matcher in enumerate(ours) if (text := matcher.failure)}


class GrammarMatcher:
    """Implements contracts.row.Matcher. Not safe in threads: its row's thread owns it.

    `ends` are all ids that end the row, the model's own first. They are allowed exactly where the
    grammar may end, but for an id that the client named and that is also text in the grammar.
    """

    def __init__(
        self, start: LLMatcher, vocabulary: LLTokenizer, masks: GroupMasks, ends: Iterable[int]
    ) -> None:
        """Borrows `start`, the grammar at its beginning, and never moves it."""
        self.masks = masks
        self.state = start.deep_copy()
        self._start = start
        own = vocabulary.eos_tokens
        self._end = own[0]
        self._others = sorted({*ends} - {*own})  # ends that llguidance does not know as such
        self._ends = frozenset(own).union(self._others)
        self._ended = False

    def allowed(self) -> bytes:
        line: Words = np.frombuffer(self.state.compute_bitmask(), np.uint32)
        if self.failure:
            raise ValueError(self.failure)
        if self._others:
            line = line.copy()
            self.open_ends(line)
        return line.tobytes()

    def open_ends(self, line: Words) -> None:
        """Adds the ends that only this row has to its mask, where the grammar may end."""
        if self._others and self.state.is_accepting():
            for token in self._others:
                line[token // WORD] |= np.uint32(1 << token % WORD)

    def forced(self) -> Sequence[int]:
        if self.failure or self._ended:
            return ()
        return (self._end,) if self.state.is_stopped() else self.state.compute_ff_tokens()

    def accept(self, token: int) -> None:
        if self._ended:
            raise ValueError("The answer has ended.")
        if token in self._ends and self.state.is_accepting():
            self._ended = True
        elif not self.state.consume_token(token):
            raise ValueError(self.failure)

    def rewind(self, drawn: Sequence[int]) -> None:
        self.state = self._start.deep_copy()
        self._ended = False
        for token in drawn:
            self.accept(token)

    @property
    def stopped(self) -> bool:
        return self._ended or self.state.is_stopped()

    @property
    def failure(self) -> str:
        """Why it can go on no more, or nothing."""
        return self.state.get_error().partition("\n")[0]
