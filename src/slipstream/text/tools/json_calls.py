"""Calls that are JSON objects: {"name": ..., "arguments": {...}}, alone or in a list.

Hermes and Qwen in tags, Granite, Phi, Command, Hunyuan, Nemotron and InternLM in theirs, Llama and
whatever else has no marker at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.text.tools.cursor import Cursor, Cut, Malformed, Steps
from slipstream.text.tools.literal import Write, collected, dumps, text, value
from slipstream.text.tools.outlet import Outlet
from slipstream.text.tools.syntax import Bound, Piece, Read, Toolbox

NAMES = ("name", "tool_name")
ARGUMENTS = ("arguments", "parameters")


def call(cursor: Cursor, outlet: Outlet, toolbox: Toolbox, *, offered: bool = False) -> Steps[None]:
    """One object. `offered`: no call unless its name is that of an offered tool."""
    yield from cursor.take("{")
    name, early = "", ""
    written = False
    while (yield from _member(cursor, written)):
        key = yield from text(cursor)
        yield from cursor.space()
        yield from cursor.take(":")
        yield from cursor.space()
        if key in NAMES and not name:
            name = yield from text(cursor)
            if not name or (offered and name not in toolbox):
                raise Malformed
        elif key in ARGUMENTS and name and not written:
            outlet.open(name)
            yield from arguments(cursor, outlet.write)
            written = True
        elif key in ARGUMENTS and not written:
            parts: list[str] = []
            yield from arguments(cursor, parts.append)
            early = "".join(parts)
        else:
            yield from collected(cursor)
    if not name:
        raise Malformed
    if not written:
        outlet.open(name)
        outlet.write(early or "{}")
    outlet.close()


def _member(cursor: Cursor, written: bool) -> Steps[bool]:
    """Whether one more member comes. An object that is not closed behind its arguments is whole."""
    while True:
        yield from cursor.space()
        if cursor.ended and written and cursor.at == len(cursor.text):
            return False
        match (yield from cursor.peek()):
            case '"' | "'":
                return True
            case ",":
                cursor.at += 1
            case "}":
                cursor.at += 1
                return False
            case _ if written:
                return False
            case _:
                raise Malformed


def arguments(cursor: Cursor, write: Write) -> Steps[None]:
    """The arguments of a call: an object, the JSON text of one, or null for none."""
    yield from cursor.space()
    match (yield from cursor.peek()):
        case "{":
            yield from value(cursor, write)
        case '"' | "'":
            write(unquoted((yield from text(cursor))))
        case _:
            if (yield from collected(cursor)) != "null":
                raise Malformed
            write("{}")


def unquoted(quoted: str) -> str:
    """The object that `quoted` is the text of."""
    inside = Cursor()
    inside.feed(quoted or "{}")
    inside.ended = True
    parts: list[str] = []
    try:
        next(value(inside, parts.append), None)  # all is there, so it never waits
    except Cut as error:
        raise Malformed from error
    found = "".join(parts)
    if not found.startswith("{") or inside.text[inside.at :].strip():
        raise Malformed
    return found


def calls(
    cursor: Cursor, outlet: Outlet, toolbox: Toolbox, *, offered: bool = False
) -> Steps[None]:
    """An object, several one after the other, or a list of them."""
    yield from cursor.space()
    if not (yield from cursor.comes("[")):
        yield from call(cursor, outlet, toolbox, offered=offered)
        while (yield from cursor.optional(";", ",")):
            yield from cursor.space()
            yield from call(cursor, outlet, toolbox, offered=offered)
        return
    yield from cursor.take("[")
    yield from cursor.space()
    while True:
        yield from call(cursor, outlet, toolbox, offered=offered)
        if not (yield from cursor.optional(",")):
            break
        yield from cursor.space()
    yield from cursor.optional("]")


def tagged(close: str) -> Read:
    def read(cursor: Cursor, outlet: Outlet, toolbox: Toolbox) -> Steps[None]:
        yield from calls(cursor, outlet, toolbox)
        yield from cursor.optional(close)

    return read


def bare(cursor: Cursor, outlet: Outlet, toolbox: Toolbox) -> Steps[None]:
    yield from calls(cursor, outlet, toolbox, offered=True)


def bound(before: str, key: str, after: str) -> Bound:
    """`before`, the object with the arguments under `key`, `after`."""

    def pieces(name: str, schema: Mapping[str, Any]) -> Sequence[Piece]:
        return [f'{before}{{"name": {dumps(name)}, "{key}": ', schema, f"}}{after}"]

    return pieces
