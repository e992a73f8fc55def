"""gpt-oss's harmony: messages with a channel, that are reasoning, text, or a call to=functions.f.

It reads whole answers, so it stands in for both the reasoning and the tool stage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slipstream.text.parts import Part
from slipstream.text.tools.cursor import Cursor, Cut, Malformed, Steps
from slipstream.text.tools.json_calls import arguments
from slipstream.text.tools.outlet import Enough, Outlet
from slipstream.text.tools.stage import call_id
from slipstream.text.tools.syntax import Form, Piece

START, CHANNEL, MESSAGE, CONSTRAIN = "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"
END, RETURN, CALL = "<|end|>", "<|return|>", "<|call|>"
TOKENS = (START, CHANNEL, MESSAGE, CONSTRAIN, END, RETURN, CALL)
BREAKS = (START, CHANNEL, END, RETURN, CALL)
BREAK = re.compile("|".join(map(re.escape, BREAKS)))
LONGEST = max(map(len, BREAKS))
KIND = re.compile(re.escape(CHANNEL) + r"\s*(\w+)")
RECIPIENT = re.compile(r"\bto=([^\s<]+)")
SPACES = re.compile(r"[^<]*")


class Harmony:
    """Implements parts.Reader. `single`: the answer is done with its first call."""

    inside = False

    def __init__(self, *, single: bool = False, new_id: Callable[[], str] = call_id) -> None:
        self.done = False
        self.thinking = False
        self._cursor = Cursor()
        self._outlet = Outlet(self._cursor, new_id, single=single)
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
        try:
            while True:
                header = ""
                if (yield from self._cursor.comes(START, CHANNEL, MESSAGE, " to=")):
                    header = yield from self._header()
                recipient = RECIPIENT.search(header)
                channel = KIND.search(header)
                self.thinking = bool(channel and channel[1] == "analysis" and not recipient)
                if recipient:
                    yield from self._call(recipient[1].removeprefix("functions."))
                yield from self._body(self._outlet.thought if self.thinking else self._outlet.text)
                self.thinking = False
        except Cut:
            self._cursor.at = len(self._cursor.text)
            self._outlet.skip()
            self.thinking = False
        except Enough:
            self.done = True

    def _header(self) -> Steps[str]:
        """What stands before a message's text; none of it shows. Raises Cut."""
        cursor = self._cursor
        header: list[str] = []
        while not (yield from cursor.comes(MESSAGE)):
            header.append((yield from cursor.peek()))
            cursor.at += 1
            header.append((yield from cursor.run(SPACES)))
            self._outlet.skip()
        yield from cursor.take(MESSAGE)
        self._outlet.skip()
        return "".join(header)

    def _call(self, name: str) -> Steps[None]:
        """A call; what cannot be read as one is left to be text."""
        self._outlet.open(name)
        try:
            yield from arguments(self._cursor, self._outlet.write)
            self._outlet.close()
        except Malformed as error:
            if self._outlet.opened:
                self._outlet.skip()
            elif isinstance(error, Cut):
                self._cursor.at = len(self._cursor.text)
                self._outlet.text()
                raise

    def _body(self, show: Callable[[], None]) -> Steps[None]:
        """Shows a message's text, and takes the sign that ends it, or stops before a header."""
        cursor = self._cursor
        while (found := BREAK.search(cursor.text, cursor.at)) is None:
            cursor.at = max(cursor.at, self._certain())
            show()
            if cursor.ended:
                cursor.at = len(cursor.text)
                show()
            yield from cursor.more()
        cursor.at = found.start()
        show()
        if found[0] not in (START, CHANNEL):
            cursor.at = found.end()
            self._outlet.skip()

    def _certain(self) -> int:
        """Where the earliest unfinished sign begins, else the end of the text."""
        text, begin = self._cursor.text, self._cursor.at
        for at in range(max(begin, len(text) - LONGEST + 1), len(text)):
            if any(sign.startswith(text[at:]) for sign in BREAKS):
                return at
        return len(text)


def bound(name: str, schema: Mapping[str, Any]) -> Sequence[Piece]:
    header = f"{CHANNEL}commentary to=functions.{name} {CONSTRAIN}json{MESSAGE}"
    return [header, schema]


HARMONY = Form(
    name="harmony",
    declared=((CHANNEL, "analysis", MESSAGE),),
    tokens=TOKENS,
    ends=(RETURN, CALL),
    bound=bound,
    around=(f"{START}assistant", ""),
    alone=True,
    final=f"{START}assistant{CHANNEL}final{MESSAGE}",
)
