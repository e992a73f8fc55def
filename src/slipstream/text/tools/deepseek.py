"""DeepSeek V3, R1 and V3.1: calls between signs of their own, V3's JSON in a fence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.text.tools.cursor import Cursor, Steps
from slipstream.text.tools.json_calls import arguments
from slipstream.text.tools.outlet import Outlet
from slipstream.text.tools.syntax import Piece, Syntax, Toolbox

SECTION, SECTION_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, SEPARATOR, CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
FENCE = "```"


def read(cursor: Cursor, outlet: Outlet, toolbox: Toolbox) -> Steps[None]:
    head = yield from cursor.name(SEPARATOR)
    yield from cursor.take(SEPARATOR)
    yield from cursor.space()
    fenced = (yield from cursor.peek()) != "{"
    if fenced:  # then `head` is the kind of tool
        head = yield from cursor.name("\n")
        yield from cursor.space()
        yield from cursor.take(FENCE + "json", FENCE)
    outlet.open(head)
    yield from arguments(cursor, outlet.write)
    outlet.close()
    if fenced:
        yield from cursor.optional(FENCE)
    yield from cursor.optional(CALL_END)


def fenced(name: str, schema: Mapping[str, Any]) -> Sequence[Piece]:
    begin = f"{CALL}function{SEPARATOR}{name}\n{FENCE}json\n"
    return [begin, schema, f"\n{FENCE}{CALL_END}"]


def plain(name: str, schema: Mapping[str, Any]) -> Sequence[Piece]:
    return [f"{CALL}{name}{SEPARATOR}", schema, CALL_END]


DEEPSEEK_V3 = Syntax(
    name="deepseek_v3",
    declared=((CALL, FENCE + "json"),),
    openers=(CALL,),
    noise=(SECTION, SECTION_END),
    tokens=(SEPARATOR, CALL_END),
    read=read,
    bound=fenced,
    around=(SECTION, SECTION_END),
    between="\n",
)
DEEPSEEK_V31 = Syntax(
    name="deepseek_v31",
    declared=((CALL,),),
    openers=(CALL,),
    noise=(SECTION, SECTION_END),
    tokens=(SEPARATOR, CALL_END),
    read=read,
    bound=plain,
    around=(SECTION, SECTION_END),
)
