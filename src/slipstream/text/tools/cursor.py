"""Text that is still coming, read by generators that wait for more of it.

A syntax is written as if all its text were there; where there is too little, it yields.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Yields when more text is needed, and returns a T."""

LONGEST_NAME = 256  # characters
BLANK = re.compile(r"\s*")


class Malformed(Exception):
    """The text is not what the syntax has here."""


class Cut(Malformed):
    """The text ended within what was read."""


class Cursor:
    """`text[mark:at]` is read, but nobody has said yet what became of it."""

    def __init__(self) -> None:
        self.text = ""
        self.mark = 0
        self.at = 0
        self.ended = False

    def feed(self, text: str) -> None:
        self.text = self.text[self.mark :] + text
        self.at -= self.mark
        self.mark = 0

    def settle(self) -> str:
        """What was read since the last time."""
        read = self.text[self.mark : self.at]
        self.mark = self.at
        return read

    def more(self) -> Steps[None]:
        """Waits. Raises Cut at the end of the text."""
        if self.ended:
            raise Cut
        yield

    def peek(self) -> Steps[str]:
        """The next character, not taken. Raises Cut when there is none."""
        while self.at == len(self.text):
            yield from self.more()
        return self.text[self.at]

    def ahead(self, count: int) -> Steps[str]:
        """The next `count` characters, not taken; fewer only at the end of the text."""
        while len(self.text) - self.at < count and not self.ended:
            yield
        return self.text[self.at : self.at + count]

    def run(self, pattern: re.Pattern[str]) -> Steps[str]:
        """Takes what matches from here on, as far as it goes, possibly nothing. `pattern` matches
        any beginning and any rest of what it matches."""
        taken: list[str] = []
        while found := pattern.match(self.text, self.at):
            taken.append(found[0])
            self.at = found.end()
            if self.at < len(self.text) or self.ended:
                break
            yield
        return "".join(taken)

    def space(self) -> Steps[str]:
        return (yield from self.run(BLANK))

    def comes(self, *words: str) -> Steps[str]:
        """The first of `words` that comes next, not taken, or nothing."""
        while True:
            rest = self.text[self.at : self.at + max(map(len, words))]
            undecided = not self.ended and any(
                len(rest) < len(word) and word.startswith(rest) for word in words
            )
            if not undecided:
                return next((word for word in words if rest.startswith(word)), "")
            yield

    def take(self, *words: str) -> Steps[str]:
        """Takes one of `words`. Raises Malformed, or Cut, where none comes."""
        found = yield from self.comes(*words)
        if not found:
            rest = self.text[self.at :]
            raise Cut if any(word.startswith(rest) for word in words) else Malformed
        self.at += len(found)
        return found

    def optional(self, *words: str) -> Steps[str]:
        """Takes one of `words` and white space before it, or nothing at all."""
        blank = yield from self.space()
        found = yield from self.comes(*words)
        self.at += len(found) if found else -len(blank)
        return found

    def name(self, *ends: str) -> Steps[str]:
        """Takes a name up to one of `ends`, which stays; white space around it is dropped.

        Raises Malformed for an empty one, one that is too long or has a line break in it."""
        taken: list[str] = []
        while not (yield from self.comes(*ends)):
            taken.append((yield from self.peek()))
            self.at += 1
            if len(taken) > LONGEST_NAME:
                raise Malformed
        name = "".join(taken).strip()
        if not name or "\n" in name:
            raise Malformed
        return name
