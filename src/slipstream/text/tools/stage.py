"""Text in; text and tool calls out. Finds where calls begin, and lets their syntax read them.

What a syntax cannot read comes out as text, if nothing of that call is out yet; else the pieces
that are out stand. It does not know how any family writes calls.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence

from slipstream.text.parts import Part
from slipstream.text.tools.cursor import Cursor, Cut, Malformed, Steps
from slipstream.text.tools.outlet import Enough, Outlet
from slipstream.text.tools.syntax import Syntax, Toolbox


def call_id() -> str:
    return f"call_{uuid.uuid4().hex}"


class ToolStage:
    """Implements parts.Reader. `single`: the answer is done with its first call."""

    thinking = False

    def __init__(
        self,
        syntax: Syntax,
        toolbox: Toolbox,
        *,
        single: bool = False,
        new_id: Callable[[], str] = call_id,
    ) -> None:
        self.done = False
        self.inside = False
        self._syntax = syntax
        self._toolbox = toolbox
        self._markers = sorted({*syntax.openers, *syntax.noise}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, self._markers)) or "(?!)")
        self._longest = max(map(len, self._markers), default=0)
        self._cursor = Cursor()
        self._outlet = Outlet(self._cursor, new_id, single=single)
        self._textless = True  # nothing but calls so far
        self._called = False  # nothing but a call just before
        self._steps = self._read()

    def push(self, text: str) -> Sequence[Part]:
        if self.done:
            return ()
        self._cursor.feed(text)
        next(self._steps, None)
        return self._outlet.drain()

    def flush(self) -> Sequence[Part]:
        if self.done:
            return ()
        self._cursor.ended = True
        next(self._steps, None)
        self._cursor.ended = False
        self._steps = self._read()
        return self._outlet.drain()

    def _read(self) -> Steps[None]:
        """The whole text; ends with it."""
        try:
            while (yield from self._prose()):
                opener = self._cursor.at - self._cursor.mark
                before = self._outlet.calls
                self.inside = True
                try:
                    yield from self._syntax.read(self._cursor, self._outlet, self._toolbox)
                except Malformed as error:
                    if isinstance(error, Cut):
                        self._cursor.at = len(self._cursor.text)
                    elif self._outlet.calls == before:
                        self._cursor.at = self._cursor.mark + opener
                    self._give_up()
                else:
                    self._outlet.skip()
                    self._called = True
                self.inside = False
        except Enough:
            self.done = True

    def _give_up(self) -> None:
        """What was read of a call is text, unless pieces of it are out: then those stand."""
        if self._outlet.opened:
            self._outlet.skip()
        else:
            self._textless = self._called = False
            self._outlet.text()

    def _prose(self) -> Steps[bool]:
        """Lets text out and takes the next opener. False when the text ends first."""
        cursor = self._cursor
        while True:
            if self._called:
                yield from cursor.space()  # white space around calls is no text
                self._outlet.skip()
            if self._textless and self._syntax.bare:
                yield from cursor.space()
                if (yield from cursor.comes(*self._syntax.bare)):
                    return True
                cursor.at = cursor.mark
            found = self._pattern.search(cursor.text, cursor.at)
            self._let_out(found.start() if found else self._certain())
            if found:
                cursor.at = found.end()  # white space before it goes with it
                if found[0] in self._syntax.openers:
                    return True
                self._outlet.skip()
            elif cursor.ended:
                cursor.at = len(cursor.text)
                self._outlet.text()
                return False
            else:
                yield

    def _let_out(self, end: int) -> None:
        """What stands before `end` is text, but for the white space that may precede a call."""
        cursor = self._cursor
        read = cursor.text[cursor.at : end]
        shown = len(read.rstrip())
        if shown:
            cursor.at += shown
            self._textless = self._called = False
            self._outlet.text()

    def _certain(self) -> int:
        """Where the earliest unfinished marker begins, else the end of the text."""
        text, begin = self._cursor.text, self._cursor.at
        for at in range(max(begin, len(text) - self._longest + 1), len(text)):
            if any(marker.startswith(text[at:]) for marker in self._markers):
                return at
        return len(text)
