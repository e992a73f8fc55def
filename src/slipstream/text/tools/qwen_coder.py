"""Qwen3-Coder and Seed: <function=name><parameter=key>value</parameter></function> in a tag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.text.tools.cursor import Cursor, Steps
from slipstream.text.tools.literal import Members
from slipstream.text.tools.outlet import Outlet
from slipstream.text.tools.syntax import Bound, Maybe, Piece, Read, Syntax, Toolbox
from slipstream.text.tools.typed import argument, properties

FUNCTION = "<function="
PARAMETER = "<parameter="


def reading(tag: str) -> Read:
    """Behind <`tag`>, or behind the function's own opening where a model leaves the tag out."""

    def read(cursor: Cursor, outlet: Outlet, toolbox: Toolbox) -> Steps[None]:
        if not cursor.text[: cursor.at].endswith(FUNCTION):
            yield from cursor.space()
            yield from cursor.take(FUNCTION)
        name = yield from cursor.name(">", "\n")
        yield from cursor.take(">")
        outlet.open(name)
        members = Members(outlet.write)
        while (yield from cursor.optional(PARAMETER)):
            key = yield from cursor.name(">", "\n")
            yield from cursor.take(">")
            types = toolbox.types(name, key)
            yield from argument(cursor, members, key, types, "</parameter>", lined=True)
        yield from cursor.space()
        yield from cursor.take("</function>")
        members.end()
        outlet.close()
        yield from cursor.optional(f"</{tag}>")

    return read


def binding(tag: str) -> Bound:
    def bound(name: str, schema: Mapping[str, Any]) -> Sequence[Piece]:
        pieces: list[Piece] = [f"<{tag}>\n{FUNCTION}{name}>\n"]
        for one in properties(schema):
            value = (f"{PARAMETER}{one.key}>\n", *one.unquoted("\n</parameter>\n"))
            pieces += value if one.required else [Maybe(value)]
        return [*pieces, f"</function>\n</{tag}>"]

    return bound


QWEN_CODER = Syntax(
    name="qwen_coder",
    declared=(("<tool_call>", FUNCTION),),
    openers=("<tool_call>", FUNCTION),
    tokens=("</tool_call>",),
    read=reading("tool_call"),
    bound=binding("tool_call"),
    between="\n",
)
SEED = Syntax(
    name="seed",
    declared=(("<seed:tool_call>", FUNCTION),),
    openers=("<seed:tool_call>", FUNCTION),
    tokens=("</seed:tool_call>",),
    read=reading("seed:tool_call"),
    bound=binding("seed:tool_call"),
    between="\n",
)
