"""Kimi K2: functions.name:0 and its JSON, between signs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.text.tools.cursor import Cursor, Malformed, Steps
from slipstream.text.tools.json_calls import arguments
from slipstream.text.tools.outlet import Outlet
from slipstream.text.tools.syntax import Piece, Syntax, Toolbox

SECTION, SECTION_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CALL, ARGUMENT, CALL_END = (
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
)
IDENTITY = re.compile(r"(?:functions\.)?(.+?)(?::\d+)?")


def read(cursor: Cursor, outlet: Outlet, toolbox: Toolbox) -> Steps[None]:
    identity = IDENTITY.fullmatch((yield from cursor.name(ARGUMENT)))
    if identity is None:
        raise Malformed
    yield from cursor.take(ARGUMENT)
    outlet.open(identity[1])
    yield from arguments(cursor, outlet.write)
    outlet.close()
    yield from cursor.optional(CALL_END)


def bound(name: str, schema: Mapping[str, Any]) -> Sequence[Piece]:
    return [f"{CALL}functions.{name}:0{ARGUMENT}", schema, CALL_END]


KIMI = Syntax(
    name="kimi",
    declared=((CALL, ARGUMENT),),
    openers=(CALL,),
    noise=(SECTION, SECTION_END),
    tokens=(ARGUMENT, CALL_END),
    read=read,
    bound=bound,
    around=(SECTION, SECTION_END),
)
