"""Llama 3: {"name": ..., "parameters": {...}} as the whole answer, or behind <|python_tag|>, where
built-in tools are also called as `name.call(key=value)`.

And the plain form of the same for families without a known syntax.
"""

from __future__ import annotations

from slipstream.text.tools.cursor import Cursor, Malformed, Steps
from slipstream.text.tools.json_calls import bare, bound, calls
from slipstream.text.tools.outlet import Outlet
from slipstream.text.tools.pythonic import keywords
from slipstream.text.tools.syntax import Syntax, Toolbox

BUILT_IN = ".call("


def read(cursor: Cursor, outlet: Outlet, toolbox: Toolbox) -> Steps[None]:
    """At the object itself, or behind the tag; then it need not be an offered tool."""
    tagged = cursor.text[cursor.mark : cursor.at].endswith("<|python_tag|>")
    yield from cursor.space()
    if (yield from cursor.peek()) in "{[":
        yield from calls(cursor, outlet, toolbox, offered=not tagged)
    elif tagged:
        name = yield from cursor.name(BUILT_IN, "\n")
        yield from cursor.take(BUILT_IN)
        outlet.open(name)
        yield from keywords(cursor, outlet)
    else:
        raise Malformed


LLAMA = Syntax(
    name="llama",
    declared=(("<|python_tag|>",), ('{"name": ', '"parameters": ')),
    openers=("<|python_tag|>",),
    bare=("{",),
    read=read,
    bound=bound("", "parameters", ""),
    key="parameters",
    between="; ",
)
PLAIN = Syntax(
    name="plain",
    declared=(),
    bare=("{", "["),
    read=bare,
    bound=bound("", "arguments", ""),
    key="arguments",
    between="\n",
)
