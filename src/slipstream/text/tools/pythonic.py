"""Calls that are written as Python: [name(key="value"), other()].

Llama 4 and Gemma without any marker, LFM2 in tags, OLMo line by line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.text.tools.cursor import Cursor, Cut, Malformed, Steps
from slipstream.text.tools.literal import Members, value
from slipstream.text.tools.outlet import Outlet
from slipstream.text.tools.syntax import Piece, Read, Syntax, Toolbox
from slipstream.text.tools.typed import separated

KEY = re.compile(r"\w*")


def keywords(cursor: Cursor, outlet: Outlet) -> Steps[None]:
    """The arguments of the open call, behind its parenthesis and through the closing one."""
    members = Members(outlet.write)
    yield from cursor.space()
    while not (yield from cursor.comes(")")):
        key = yield from cursor.run(KEY)
        yield from cursor.space()
        yield from cursor.take("=")
        if not key:
            raise Malformed
        yield from value(cursor, outlet.write, members.lead(key), python=True)
        yield from cursor.space()
        if not (yield from cursor.comes(")")):
            yield from cursor.take(",")
            yield from cursor.space()
    yield from cursor.take(")")
    members.end()
    outlet.close()


def call(cursor: Cursor, outlet: Outlet, toolbox: Toolbox, offered: bool) -> Steps[None]:
    name = yield from cursor.name("(", "\n")
    if offered and name not in toolbox:
        raise Malformed
    yield from cursor.take("(")
    outlet.open(name)
    yield from keywords(cursor, outlet)


def listed(close: str, *, offered: bool = False) -> Read:
    """A list of calls, or calls apart by commas or white space, and then `close`."""

    def read(cursor: Cursor, outlet: Outlet, toolbox: Toolbox) -> Steps[None]:
        yield from cursor.space()
        bracketed = yield from cursor.comes("[")
        cursor.at += len(bracketed)
        while True:
            yield from cursor.space()
            yield from call(cursor, outlet, toolbox, offered)
            if bracketed and not (yield from cursor.optional(",")):
                break
            if not bracketed and (yield from _over(cursor, close)):
                break
        if bracketed:
            yield from cursor.optional("]")
        if close:
            yield from cursor.optional(close)

    return read


def _over(cursor: Cursor, close: str) -> Steps[bool]:
    """Whether no more call comes, in a section that is not a list."""
    yield from cursor.space()
    if (yield from cursor.comes(close)):
        return True
    try:
        yield from cursor.peek()
    except Cut:
        return True
    return False


def bound(name: str, schema: Mapping[str, Any]) -> Sequence[Piece]:
    """Values are JSON, which is read too."""
    return [f"{name}(", *separated(schema, ", ", "=", lambda one: [one.schema]), ")"]


PYTHONIC = Syntax(
    name="pythonic",
    declared=(("[func_name1(",), ("[func1(",)),
    openers=("<|python_start|>",),
    tokens=("<|python_end|>",),
    noise=("<|python_end|>",),
    bare=("[",),
    read=listed("<|python_end|>", offered=True),
    bound=bound,
    around=("[", "]"),
    between=", ",
)
LIQUID = Syntax(
    name="liquid",
    declared=(("<|tool_call_start|>",),),
    openers=("<|tool_call_start|>",),
    tokens=("<|tool_call_end|>",),
    read=listed("<|tool_call_end|>"),
    bound=bound,
    around=("<|tool_call_start|>[", "]<|tool_call_end|>"),
    between=", ",
)
OLMO = Syntax(
    name="olmo",
    declared=(("<function_calls>", "<functions>"),),
    openers=("<function_calls>",),
    tokens=("</function_calls>",),
    read=listed("</function_calls>"),
    bound=bound,
    around=("<function_calls>", "</function_calls>"),
    between="\n",
)
TOOL_CODE = Syntax(
    name="tool_code",
    declared=(("```tool_code",),),
    openers=("```tool_code\n",),
    read=listed("```"),
    bound=bound,
    around=("```tool_code\n", "\n```"),
    between="\n",
)
