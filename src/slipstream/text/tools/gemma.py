"""FunctionGemma and Gemma 4: call:name{key:value}, strings between signs instead of quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.text.tools.cursor import Cursor, Malformed, Steps
from slipstream.text.tools.literal import MOST_LEVELS, Members, Write, inner, string, word
from slipstream.text.tools.outlet import Outlet
from slipstream.text.tools.syntax import Bound, Piece, Read, Syntax, Toolbox
from slipstream.text.tools.typed import Property, separated, until

KEY = re.compile(r"""[^\s:{}\[\],"<]*""")
WORD = re.compile(r"[^\s,{}\[\]<]*")


def reading(quote: str, close: str) -> Read:
    def read(cursor: Cursor, outlet: Outlet, toolbox: Toolbox) -> Steps[None]:
        yield from cursor.space()
        yield from cursor.take("call:")
        outlet.open((yield from cursor.name("{")))
        yield from _value(cursor, outlet.write, "", quote, 0)
        outlet.close()
        yield from cursor.optional(close)

    return read


def _value(cursor: Cursor, write: Write, lead: str, quote: str, level: int) -> Steps[None]:
    if level > MOST_LEVELS:
        raise Malformed
    yield from cursor.space()
    if (yield from cursor.comes(quote)):
        cursor.at += len(quote)
        write(lead + '"')
        yield from until(cursor, lambda text: write(inner(text)), quote)
        write('"')
        return
    match (yield from cursor.peek()):
        case "{":
            cursor.at += 1
            yield from _object(cursor, write, lead, quote, level + 1)
        case "[":
            cursor.at += 1
            yield from _array(cursor, write, lead, quote, level + 1)
        case '"':
            write(lead + '"')
            yield from string(cursor, lambda text: write(inner(text)))
            write('"')
        case _:
            write(lead + word((yield from cursor.run(WORD))))


def _object(cursor: Cursor, write: Write, lead: str, quote: str, level: int) -> Steps[None]:
    members = Members(write)
    yield from cursor.space()
    while not (yield from cursor.comes("}")):
        key = (yield from cursor.run(KEY)) or (yield from _marked_key(cursor, quote))
        yield from cursor.space()
        yield from cursor.take(":")
        yield from _value(cursor, write, lead + members.lead(key), quote, level)
        lead = ""
        yield from cursor.space()
        if not (yield from cursor.comes("}")):
            yield from cursor.take(",")
            yield from cursor.space()
    yield from cursor.take("}")
    if lead:
        write(lead)
    members.end()


def _marked_key(cursor: Cursor, quote: str) -> Steps[str]:
    yield from cursor.take(quote)
    key = yield from cursor.name(quote)
    yield from cursor.take(quote)
    return key


def _array(cursor: Cursor, write: Write, lead: str, quote: str, level: int) -> Steps[None]:
    ahead = lead + "["
    yield from cursor.space()
    while not (yield from cursor.comes("]")):
        yield from _value(cursor, write, ahead, quote, level)
        ahead = ", "
        yield from cursor.space()
        if not (yield from cursor.comes("]")):
            yield from cursor.take(",")
            yield from cursor.space()
    yield from cursor.take("]")
    write(lead + "[]" if ahead != ", " else "]")


def binding(opener: str, quote: str, close: str) -> Bound:
    """What lies below the first level is written as JSON, which is read too."""

    def value(one: Property) -> Sequence[Piece]:
        return [quote, *one.unquoted(quote)] if one.quoted else [one.schema]

    def bound(name: str, schema: Mapping[str, Any]) -> Sequence[Piece]:
        begin = f"{opener}call:{name}{{"
        return [begin, *separated(schema, ",", ":", value), "}" + close]

    return bound


def syntax(name: str, opener: str, quote: str, close: str) -> Syntax:
    return Syntax(
        name=name,
        declared=((opener,),),
        openers=(opener,),
        tokens=(quote, close),
        read=reading(quote, close),
        bound=binding(opener, quote, close),
    )


FUNCTION_GEMMA = syntax(
    "function_gemma", "<start_function_call>", "<escape>", "<end_function_call>"
)
GEMMA4 = syntax("gemma4", "<|tool_call>", '<|"|>', "<tool_call|>")
