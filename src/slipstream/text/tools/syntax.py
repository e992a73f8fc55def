"""What a family's syntax of tool calls consists of, and the tools that were offered.

It does not know which model has which; see `families`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipstream.text.tools.cursor import Cursor, Steps
from slipstream.text.tools.outlet import Outlet

MOST_LEVELS = 16  # of a parameter's schema


class Toolbox:
    """The offered tools by name, in OpenAI's shape."""

    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        self._functions = {tool["function"]["name"]: tool["function"] for tool in tools}

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def schema(self, name: str) -> Mapping[str, Any]:
        """Of the arguments of tool `name`; empty where it says nothing."""
        found = self._functions.get(name, {}).get("parameters")
        return found if isinstance(found, Mapping) else {}

    def types(self, name: str, parameter: str) -> frozenset[str]:
        """JSON types that `parameter` may have; empty where that is not known."""
        schema = self.schema(name)
        properties = schema.get("properties")
        found = properties.get(parameter) if isinstance(properties, Mapping) else None
        return frozenset(_types(found, schema, 0))


def _types(schema: Any, root: Mapping[str, Any], level: int) -> Iterator[str]:
    if not isinstance(schema, Mapping) or level > MOST_LEVELS:
        return
    declared = schema.get("type")
    if isinstance(declared, str):
        yield declared
    elif isinstance(declared, list):
        yield from (one for one in declared if isinstance(one, str))
    else:
        values = schema["enum"] if isinstance(schema.get("enum"), list) else []
        if "const" in schema:
            values = [*values, schema["const"]]
        yield from (_type_of(value) for value in values)
    for name in ("anyOf", "oneOf", "allOf"):
        parts = schema.get(name)
        for part in parts if isinstance(parts, list) else ():
            yield from _types(part, root, level + 1)
    pointer = schema.get("$ref")
    if isinstance(pointer, str) and pointer.startswith("#/"):
        target: Any = root
        for step in pointer[2:].split("/"):
            target = target.get(step) if isinstance(target, Mapping) else None
        yield from _types(target, root, level + 1)


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
    return "object"


Read = Callable[[Cursor, Outlet, Toolbox], Steps[None]]
"""Reads one call, or one section of calls, behind the opener.

Raises Malformed, Cut, and what Outlet.close raises."""


@dataclass(frozen=True, slots=True)
class FreeText:
    """Any text, up to and with the first `end`."""

    end: str


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of `texts`."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Maybe:
    """All of `pieces`, or nothing."""

    pieces: tuple[Piece, ...]


Piece = str | Mapping[str, Any] | FreeText | OneOf | Maybe
"""A part of a bound call: itself, a value that keeps a JSON Schema, or one of the above."""

Bound = Callable[[str, Mapping[str, Any]], Sequence[Piece]]
"""The form of a call of the tool of that name, whose arguments keep that schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How one family's calls look. A template or tokenizer that has all of one entry of `declared`
    has this form. Special tokens of `tokens` belong to it, and those of `ends` end a row.

    Several calls, each of the form `bound`, stand in `around`, apart by `between`, unless a call
    is `alone` by its nature. `key`: a call is a JSON object and nothing else, with its arguments
    under that name. `final` goes ahead of an answer that is no call, where it is bound.
    """

    name: str
    declared: tuple[tuple[str, ...], ...]
    bound: Bound
    tokens: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    around: tuple[str, str] = ("", "")
    between: str = ""
    alone: bool = False
    key: str = ""
    final: str = ""

    @property
    def markers(self) -> tuple[str, ...]:
        return self.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Syntax(Form):
    """A form whose calls stand in ordinary text. `read` begins behind one of `openers`, which
    count anywhere, or at one of `bare`, which count only where the answer has no text yet.
    `noise` are markers that say nothing."""

    read: Read
    openers: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()
    noise: tuple[str, ...] = ()

    @property
    def markers(self) -> tuple[str, ...]:
        return (*self.openers, *self.noise, *self.tokens)
