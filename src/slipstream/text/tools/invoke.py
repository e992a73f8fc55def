"""<invoke name="f"><parameter name="key">value</parameter></invoke>: MiniMax M2, and DeepSeek V3.2
with a sign in its tags and with string="false" beside names where the value is JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.text.tools.cursor import Cursor, Malformed, Steps
from slipstream.text.tools.literal import Members
from slipstream.text.tools.outlet import Outlet
from slipstream.text.tools.syntax import Bound, Maybe, Piece, Read, Syntax, Toolbox
from slipstream.text.tools.typed import TEXT, argument, properties

NAMED = re.compile(
    r"""\s*name\s*=\s*(["']?)([^"'\s]+)\1(?:\s+string\s*=\s*["'](true|false)["'])?"""
)
JSON = frozenset({"array", "boolean", "integer", "null", "number", "object"})


def reading(prefix: str) -> Read:
    """One call, behind <`prefix`invoke."""
    parameter, close = f"<{prefix}parameter", f"</{prefix}invoke>"

    def read(cursor: Cursor, outlet: Outlet, toolbox: Toolbox) -> Steps[None]:
        name, _ = yield from _tag(cursor)
        outlet.open(name)
        members = Members(outlet.write)
        while (yield from cursor.optional(parameter)):
            key, kind = yield from _tag(cursor)
            types = toolbox.types(name, key) if kind is None else TEXT if kind else JSON
            end = f"</{prefix}parameter>"
            yield from argument(cursor, members, key, types, end)
        yield from cursor.space()
        yield from cursor.take(close)
        members.end()
        outlet.close()

    return read


def _tag(cursor: Cursor) -> Steps[tuple[str, bool | None]]:
    """The name in a tag, and whether it says that its value is a string."""
    written = yield from cursor.name(">")
    yield from cursor.take(">")
    found = NAMED.fullmatch(" " + written)
    if found is None:
        raise Malformed
    return found[2], None if found[3] is None else found[3] == "true"


def binding(prefix: str, *, says_string: bool) -> Bound:
    def bound(name: str, schema: Mapping[str, Any]) -> Sequence[Piece]:
        pieces: list[Piece] = [f'<{prefix}invoke name="{name}">\n']
        for one in properties(schema):
            more = f' string="{str(one.quoted).lower()}"' if says_string else ""
            begin = f'<{prefix}parameter name="{one.key}"{more}>'
            value = (begin, *one.unquoted(f"</{prefix}parameter>\n"))
            pieces += value if one.required else [Maybe(value)]
        return [*pieces, f"</{prefix}invoke>\n"]

    return bound


def syntax(name: str, prefix: str, section: str, *, says_string: bool = False) -> Syntax:
    return Syntax(
        name=name,
        declared=((f"<{section}>",),),
        openers=(f"<{prefix}invoke",),
        noise=(f"<{section}>", f"</{section}>"),
        read=reading(prefix),
        bound=binding(prefix, says_string=says_string),
        around=(f"<{section}>\n", f"</{section}>"),
    )


MINIMAX = syntax("minimax", "", "minimax:tool_call")
DEEPSEEK_MARKUP = syntax("deepseek_markup", "｜DSML｜", "｜DSML｜function_calls", says_string=True)
