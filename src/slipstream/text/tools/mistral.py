"""Mistral: [TOOL_CALLS] and a list of JSON objects, or since V11 name[ARGS]{...} for each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.text.tools.cursor import Cursor, Steps
from slipstream.text.tools.json_calls import arguments, bound, calls
from slipstream.text.tools.outlet import Outlet
from slipstream.text.tools.syntax import Piece, Syntax, Toolbox

OPENER, ID, ARGS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"


def read(cursor: Cursor, outlet: Outlet, toolbox: Toolbox) -> Steps[None]:
    yield from cursor.space()
    if (yield from cursor.peek()) in "[{":
        yield from calls(cursor, outlet, toolbox)
        return
    name = yield from cursor.name(ID, ARGS, "{")
    if (yield from cursor.comes(ID)):
        yield from cursor.take(ID)
        yield from cursor.name(ARGS)
    if not (yield from cursor.comes("{")):
        yield from cursor.take(ARGS)
    outlet.open(name)
    yield from arguments(cursor, outlet.write)
    outlet.close()


def named(name: str, schema: Mapping[str, Any]) -> Sequence[Piece]:
    return [f"{OPENER}{name}{ARGS}", schema]


MISTRAL = Syntax(
    name="mistral",
    declared=((OPENER, ARGS),),
    openers=(OPENER,),
    tokens=(ID, ARGS),
    read=read,
    bound=named,
)
MISTRAL_LIST = Syntax(
    name="mistral_list",
    declared=((OPENER,),),
    openers=(OPENER,),
    read=read,
    bound=bound("", "arguments", ""),
    around=(OPENER + " [", "]"),
    between=", ",
)
