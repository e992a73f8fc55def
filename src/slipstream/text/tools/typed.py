"""Arguments that are written without quotes: the tool's schema says what type each one has.

It does not know the tags around them.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from slipstream.text.tools.cursor import Cursor, Malformed, Steps
from slipstream.text.tools.literal import Members, Write, dumps, inner
from slipstream.text.tools.syntax import FreeText, Maybe, OneOf, Piece

TEXT = frozenset({"string"})
LONGEST_VALUE = 1 << 20  # characters of a value that is not a string
NUMBERS = frozenset({"integer", "number"})
BOOLEANS = MappingProxyType({"true": "true", "false": "false"})
NULLS = frozenset({"null", "none"})


@dataclass(frozen=True, slots=True)
class Property:
    key: str
    schema: Mapping[str, Any]  # whole in itself
    required: bool

    def unquoted(self, end: str) -> list[Piece]:
        """Its value without quotes, through `end`. Of what a schema says of a string, only a list
        of values can be kept so."""
        schema = self.schema
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list) and values and all(isinstance(one, str) for one in values):
            return [OneOf(tuple(values)), end]
        if schema.get("type") == "string":
            return [FreeText(end)]
        return [schema, end]

    @property
    def quoted(self) -> bool:
        """Whether `unquoted` is a string's."""
        return not isinstance(self.unquoted("")[0], Mapping)


def properties(schema: Mapping[str, Any]) -> Iterator[Property]:
    named = schema.get("properties")
    required = schema.get("required") or ()
    shared = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    for key, part in named.items() if isinstance(named, Mapping) else ():
        whole = {**part, **shared} if isinstance(part, Mapping) else {}
        yield Property(key, whole, key in required)


def separated(
    schema: Mapping[str, Any],
    comma: str,
    lead: str,
    value: Callable[[Property], Sequence[Piece]],
) -> list[Piece]:
    """The arguments, `lead` between each key and its value. Where none is required, the others
    come with the first one only, for its comma's sake."""
    found = list(properties(schema))
    must = [one for one in found if one.required]
    may = [one for one in found if not one.required]
    pieces: list[Piece] = []
    for one in must or may[:1]:
        pieces += [comma * bool(pieces) + one.key + lead, *value(one)]
    more = may if must else may[1:]
    others = [Maybe((comma + one.key + lead, *value(one))) for one in more]
    return [*pieces, *others] if must or not may else [Maybe((*pieces, *others))]


def argument(
    cursor: Cursor,
    members: Members,
    key: str,
    types: frozenset[str],
    end: str,
    *,
    lined: bool = False,
) -> Steps[None]:
    """Reads the value of `key` up to `end`, and takes that. `lined`: one line break on each side
    is not the value's. A string goes out as it comes, anything else when it is whole."""
    if types == TEXT:
        write = members.write
        write(members.lead(key) + '"')
        yield from until(cursor, lambda text: write(inner(text)), end, lined=lined)
        write('"')
        return
    parts: list[str] = []
    yield from until(cursor, parts.append, end, lined=lined)
    members.add(key, typed("".join(parts), types))


def until(cursor: Cursor, write: Write, end: str, *, lined: bool = False) -> Steps[None]:
    """Writes the text before `end` piece by piece, and takes both."""
    if lined and (yield from cursor.comes("\n", end)) == "\n":
        cursor.at += 1
    held = len(end) if lined else len(end) - 1
    while (found := cursor.text.find(end, cursor.at)) < 0:
        safe = max(cursor.at, len(cursor.text) - held)
        if safe > cursor.at:
            write(cursor.text[cursor.at : safe])
            cursor.at = safe
        yield from cursor.more()
    rest = cursor.text[cursor.at : found]
    write(rest.removesuffix("\n") if lined else rest)
    cursor.at = found + len(end)


def typed(text: str, types: frozenset[str]) -> str:
    """`text` as JSON of one of `types`; as a string where it is of none of them."""
    plain = text.strip()
    if not types:
        return _parsed(plain) or dumps(text)
    if "null" in types and plain.lower() in NULLS:
        return "null"
    if "boolean" in types and plain.lower() in BOOLEANS:
        return BOOLEANS[plain.lower()]
    found = _parsed(plain) if types - TEXT else None
    kind = _kind(found)
    if found is not None and (kind in types or (kind == "integer" and "number" in types)):
        return found
    if kind == "number" and "integer" in types and found and float(found).is_integer():
        return str(int(float(found)))
    return dumps(text)


def _parsed(text: str) -> str | None:
    """JSON or a Python literal, as JSON."""
    if len(text) > LONGEST_VALUE:
        return None
    for read in (_json, ast.literal_eval):
        try:
            return dumps(read(text))
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, Malformed):
            continue
    return None


def _json(text: str) -> Any:
    return json.loads(text, strict=False)


def _kind(found: str | None) -> str:
    match found[:1] if found else "":
        case "{":
            return "object"
        case "[":
            return "array"
        case '"':
            return "string"
        case "t" | "f":
            return "boolean"
        case "n":
            return "null"
        case "":
            return ""
    return "integer" if found and found.lstrip("-").isdigit() else "number"
