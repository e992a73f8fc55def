"""Where a syntax puts the calls that it reads: their pieces, numbered and named, as Parts.

It does not know any syntax.
"""

from __future__ import annotations

from collections.abc import Callable

from slipstream.contracts.delta import ToolDelta
from slipstream.text.parts import Part
from slipstream.text.tools.cursor import Cursor


class Enough(Exception):
    """The one call that an answer may have is complete."""


class Outlet:
    """Reads `cursor`'s marks: what is settled is out. `new_id` makes the id of each call."""

    def __init__(self, cursor: Cursor, new_id: Callable[[], str], *, single: bool) -> None:
        self.opened = False  # the current call has pieces that are out, or on their way
        self.calls = 0  # with pieces
        self._cursor = cursor
        self._new_id = new_id
        self._single = single
        self._parts: list[Part] = []
        self._name = ""
        self._id = ""
        self._arguments: list[str] = []

    def open(self, name: str) -> None:
        """Begins a call. It shows with the first piece of its arguments."""
        assert not self.opened
        self._name = name

    def write(self, arguments: str) -> None:
        """The next piece of the arguments, which together are one JSON object."""
        if not self.opened:
            self.opened = True
            self._id = self._new_id()
            self.calls += 1
        self._arguments.append(arguments)

    def close(self) -> None:
        """Ends the call. Raises Enough where it may have no other one beside it."""
        assert self.opened
        self._put_call()
        self.opened = False
        if self._single:
            raise Enough

    def text(self) -> None:
        """What was read is text."""
        if read := self._cursor.settle():
            self._parts.append(Part(size=len(read), text=read))

    def thought(self) -> None:
        """What was read is reasoning."""
        if read := self._cursor.settle():
            self._parts.append(Part(size=len(read), reasoning=read))

    def skip(self) -> None:
        """What was read shows nothing more than what is out."""
        if self.opened:
            self._put_call()
            self.opened = False
        elif read := self._cursor.settle():
            self._parts.append(Part(size=len(read)))

    def drain(self) -> list[Part]:
        if self.opened:
            self._put_call()
        found, self._parts = self._parts, []
        return found

    def _put_call(self) -> None:
        size = len(self._cursor.settle())
        if self._arguments:
            delta = ToolDelta(
                index=self.calls - 1,
                id=self._id,
                name=self._name,
                arguments="".join(self._arguments),
            )
            self._parts.append(Part(size=size, calls=(delta,)))
            self._id = self._name = ""
            self._arguments = []
        elif size:
            self._parts.append(Part(size=size))
