"""JSON values as models write them, read as they come and written on as strict JSON.

Read beside JSON: Python's True, False, None, single quotes, tuples and numbers, keys without
quotes, line breaks within strings, and backslashes that escape nothing (they stand for themselves).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from slipstream.text.tools.cursor import Cursor, Malformed, Steps

Write = Callable[[str], None]

MOST_LEVELS = 64
LONGEST_WORD = 512  # characters of a number or a constant
PLAIN = MappingProxyType({quote: re.compile(rf"[^\\{quote}]*") for quote in "\"'"})
WORD = re.compile(r"[\w.+\-]*")
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
HEX = re.compile(r"[0-9a-fA-F]+")
CONSTANTS = MappingProxyType(
    {
        "true": "true",
        "True": "true",
        "false": "false",
        "False": "false",
        "null": "null",
        "None": "null",
    }
)
ESCAPES = MappingProxyType(
    {
        '"': '"',
        "'": "'",
        "\\": "\\",
        "/": "/",
        "b": "\b",
        "f": "\f",
        "n": "\n",
        "r": "\r",
        "t": "\t",
        "\n": "",
    }
)
WIDTHS = MappingProxyType({"u": 4, "U": 8, "x": 2})  # hexadecimal digits
JSON_WIDTHS = MappingProxyType({"u": 4})
REPLACEMENT = "\ufffd"


def dumps(value: Any) -> str:
    """Raises Malformed for what JSON cannot say."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise Malformed from error


def inner(text: str) -> str:
    """`text` as it stands between the quotes of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


class Members:
    """Writes an object member by member: nothing of one is out before its value begins."""

    def __init__(self, write: Write) -> None:
        self.write = write
        self._lead = "{"

    def lead(self, key: str) -> str:
        """What goes ahead of the value of `key`."""
        found, self._lead = f"{self._lead}{dumps(key)}: ", ", "
        return found

    def add(self, key: str, value: str) -> None:
        """A value that is whole, as JSON."""
        self.write(self.lead(key) + value)

    def end(self) -> None:
        self.write("{}" if self._lead == "{" else "}")


def value(
    cursor: Cursor, write: Write, lead: str = "", *, python: bool = False, level: int = 0
) -> Steps[None]:
    """Reads one value and writes it behind `lead`, which is not out unless a value begins.

    `python`: strings have Python's escapes. Raises Malformed, Cut."""
    if level > MOST_LEVELS:
        raise Malformed
    yield from cursor.space()
    match (yield from cursor.peek()):
        case "{":
            yield from _object(cursor, write, lead, python, level + 1)
        case "[" | "(" as opening:
            yield from _array(cursor, write, lead, python, level + 1, opening)
        case '"' | "'":
            write(lead + '"')
            yield from string(cursor, lambda text: write(inner(text)), python=python)
            write('"')
        case _:
            write(lead + word((yield from cursor.run(WORD))))


def collected(cursor: Cursor, *, python: bool = False) -> Steps[str]:
    """One whole value, as JSON."""
    parts: list[str] = []
    yield from value(cursor, parts.append, python=python)
    return "".join(parts)


def text(cursor: Cursor, *, python: bool = False) -> Steps[str]:
    """One whole string, decoded."""
    parts: list[str] = []
    yield from string(cursor, parts.append, python=python)
    return "".join(parts)


def string(cursor: Cursor, write: Write, *, python: bool = False) -> Steps[None]:
    """Reads a quoted string and writes its text, decoded, piece by piece."""
    quote = yield from cursor.take('"', "'")
    while True:
        yield from cursor.peek()
        found = PLAIN[quote].match(cursor.text, cursor.at)
        assert found is not None
        if found[0]:
            write(found[0])
        cursor.at = found.end()
        if cursor.at == len(cursor.text):
            continue
        if cursor.text[cursor.at] == quote:
            cursor.at += 1
            return
        write((yield from _escape(cursor, WIDTHS if python else JSON_WIDTHS)))


def word(found: str) -> str:
    """A number or a constant as JSON. Raises Malformed for anything else."""
    if found in CONSTANTS:
        return CONSTANTS[found]
    if len(found) > LONGEST_WORD or not found:
        raise Malformed
    if NUMBER.fullmatch(found):
        return found
    try:
        return str(int(found, 0))
    except ValueError:
        pass
    try:
        number = float(found)
    except ValueError as error:
        raise Malformed from error
    if not math.isfinite(number):
        raise Malformed
    return dumps(number)


def _object(cursor: Cursor, write: Write, lead: str, python: bool, level: int) -> Steps[None]:
    cursor.at += 1
    members = Members(write)
    first = True
    while (yield from _next(cursor, "}", first)):
        key = yield from _key(cursor, python)
        yield from cursor.space()
        yield from cursor.take(":")
        ahead = (lead if first else "") + members.lead(key)
        yield from value(cursor, write, ahead, python=python, level=level)
        first = False
    write(lead + "{}" if first else "}")


def _array(
    cursor: Cursor, write: Write, lead: str, python: bool, level: int, opening: str
) -> Steps[None]:
    cursor.at += 1
    first = True
    while (yield from _next(cursor, "]" if opening == "[" else ")", first)):
        ahead = lead + "[" if first else ", "
        yield from value(cursor, write, ahead, python=python, level=level)
        first = False
    write(lead + "[]" if first else "]")


def _next(cursor: Cursor, end: str, first: bool) -> Steps[bool]:
    """Whether one more element comes; a comma after the last one is forgiven."""
    yield from cursor.space()
    if not first and (yield from cursor.take(",", end)) == end:
        return False
    yield from cursor.space()
    if (yield from cursor.peek()) == end:
        cursor.at += 1
        return False
    return True


def _key(cursor: Cursor, python: bool) -> Steps[str]:
    if (yield from cursor.peek()) in "\"'":
        return (yield from text(cursor, python=python))
    key = yield from cursor.run(WORD)
    if not key or len(key) > LONGEST_WORD:
        raise Malformed
    return key


def _escape(cursor: Cursor, widths: Mapping[str, int]) -> Steps[str]:
    """What a backslash and what follows it stand for."""
    cursor.at += 1
    sign = yield from cursor.peek()
    cursor.at += 1
    if sign not in widths:
        return ESCAPES.get(sign, "\\" + sign)
    code = _code((yield from cursor.ahead(widths[sign])), widths[sign])
    if code is None:
        return "\\" + sign
    cursor.at += widths[sign]
    if 0xD800 <= code < 0xDC00:
        rest = yield from cursor.ahead(6)
        low = _code(rest[2:], 4) if rest.startswith("\\u") else None
        if low is not None and 0xDC00 <= low < 0xE000:
            cursor.at += 6
            return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00))
    return REPLACEMENT if 0xD800 <= code < 0xE000 or code > 0x10FFFF else chr(code)


def _code(digits: str, width: int) -> int | None:
    """The number that `width` hexadecimal digits write, or None."""
    return int(digits, 16) if len(digits) == width and HEX.fullmatch(digits) else None
