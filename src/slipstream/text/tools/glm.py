"""GLM 4.5 and LongCat: <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value>."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.text.tools.cursor import Cursor, Steps
from slipstream.text.tools.literal import Members
from slipstream.text.tools.outlet import Outlet
from slipstream.text.tools.syntax import Bound, Maybe, Piece, Read, Syntax, Toolbox
from slipstream.text.tools.typed import argument, properties


def reading(prefix: str) -> Read:
    key_open, key_close = f"<{prefix}arg_key>", f"</{prefix}arg_key>"
    value_open, value_close = f"<{prefix}arg_value>", f"</{prefix}arg_value>"
    close = f"</{prefix}tool_call>"

    def read(cursor: Cursor, outlet: Outlet, toolbox: Toolbox) -> Steps[None]:
        yield from cursor.space()
        name = yield from cursor.name("\n", key_open, close)
        outlet.open(name)
        members = Members(outlet.write)
        while (yield from cursor.optional(key_open)):
            key = yield from cursor.name(key_close)
            yield from cursor.take(key_close)
            yield from cursor.space()
            yield from cursor.take(value_open)
            types = toolbox.types(name, key)
            yield from argument(cursor, members, key, types, value_close)
        yield from cursor.space()
        yield from cursor.take(close)
        members.end()
        outlet.close()

    return read


def binding(prefix: str) -> Bound:
    def bound(name: str, schema: Mapping[str, Any]) -> Sequence[Piece]:
        pieces: list[Piece] = [f"<{prefix}tool_call>{name}\n"]
        for one in properties(schema):
            begin = f"<{prefix}arg_key>{one.key}</{prefix}arg_key>\n<{prefix}arg_value>"
            value = (begin, *one.unquoted(f"</{prefix}arg_value>\n"))
            pieces += value if one.required else [Maybe(value)]
        return [*pieces, f"</{prefix}tool_call>"]

    return bound


def tokens(prefix: str) -> tuple[str, ...]:
    names = ("arg_key", "arg_value")
    opening = tuple(f"<{prefix}{name}>" for name in names)
    return (*opening, *(f"</{prefix}{name}>" for name in (*names, "tool_call")))


GLM = Syntax(
    name="glm",
    declared=(("<tool_call>", "<arg_key>"),),
    openers=("<tool_call>",),
    tokens=tokens(""),
    read=reading(""),
    bound=binding(""),
    between="\n",
)
LONGCAT = Syntax(
    name="longcat",
    declared=(("<longcat_tool_call>",),),
    openers=("<longcat_tool_call>",),
    tokens=tokens("longcat_"),
    read=reading("longcat_"),
    bound=binding("longcat_"),
    between="\n",
)
