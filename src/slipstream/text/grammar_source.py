"""A GrammarText becomes a grammar in llguidance's own form, or a refusal that says why not.

Checks what that library leaves open: how deep and how large, and its own switches in a schema.
It does not know a vocabulary, and keeps nothing.
"""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import Any

from llguidance import LLMatcher, regex_to_lark
from llguidance.gbnf_to_lark import gbnf_to_lark

from slipstream.contracts.completion import GrammarText
from slipstream.contracts.errors import InvalidRequest

CALLS_KIND = "calls"  # Lark that was written here, around schemas that were checked
LONGEST = MappingProxyType({"json_schema": 1 << 20, "choice": 1 << 20, CALLS_KIND: 1 << 21})
LONGEST_OTHER = 1 << 16  # characters of a pattern or a grammar
MOST_LEVELS = 1000  # levels of a schema along its references; thousands overflow the stack below
MOST_PARTS = 1000  # rules, groups and classes of a grammar, for the same reason

# Between two tokens of JSON: nothing, one space, or one line break with its indentation. Bounded,
# so that no answer can loop there. All are given: a schema's own switches may change none.
JSON_STYLE = MappingProxyType(
    {
        "item_separator": ",",
        "key_separator": ":",
        "whitespace_flexible": True,
        "whitespace_pattern": r" |\n( {0,32}|\t{0,8})",
        "coerce_one_of": False,
        "lenient": False,
    }
)
ASCII_DIGITS = "d"  # what \d means; to llguidance it would be the digits of all scripts
ANY_OBJECT = '{"type": "object"}'

GBNF_PART = re.compile(
    r'(?P<text>"(?:\\.|[^"\\])*")|(?P<set>\[(?:\\.|[^\]\\])*\])|(?P<note>#[^\n]*)|(?P<any>\.)',
    re.DOTALL,
)
WIDE_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
ANY_CHARACTER = "[\\x00-\U0010ffff]"


def translate(grammar: GrammarText) -> str:
    """The grammar for LLMatcher, which still has to be compiled. Raises InvalidRequest."""
    text = grammar.text
    if len(text) > LONGEST.get(grammar.kind, LONGEST_OTHER):
        raise InvalidRequest(f"it has {len(text)} characters, which is too many")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest("it has half a surrogate pair in it") from error
    match grammar.kind:
        case "json_object":
            return from_schema(ANY_OBJECT)
        case "json_schema":
            check_schema(text)
            return from_schema(text)
        case "regex":
            return from_pattern(text)
        case "choice":
            return from_choices(text)
        case "gbnf":
            check_parts(text)
            return LLMatcher.grammar_from_lark(from_gbnf(text))
        case "calls":
            return LLMatcher.grammar_from_lark(text)
        case "lark":
            check_parts(text)
            return LLMatcher.grammar_from_lark(text)
    raise InvalidRequest(f"there is no grammar of the kind {grammar.kind!r}")


def from_schema(schema: str) -> str:
    style: Any = dict(JSON_STYLE)  # the library's type for it exists for type checkers only
    try:
        return LLMatcher.grammar_from_json_schema(schema, overrides=style)
    except ValueError as error:
        raise InvalidRequest(str(error)) from error


def from_pattern(pattern: str) -> str:
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
        raise InvalidRequest("the pattern ends in a lone backslash")
    return LLMatcher.grammar_from_lark(f"start: /{regex_to_lark(pattern, ASCII_DIGITS)}/")


def from_choices(listed: str) -> str:
    literals = map(json.dumps, json.loads(listed))  # Lark writes texts as JSON does
    return LLMatcher.grammar_from_lark("start: " + " | ".join(literals))


def check_parts(grammar: str) -> None:
    """Raises InvalidRequest when a grammar could nest too deep."""
    parts = sum(grammar.count(sign) for sign in ":([{")
    if parts > MOST_PARTS:
        raise InvalidRequest(
            f"it has {parts} rules, groups and classes; {MOST_PARTS} are the most that are taken"
        )


def from_gbnf(grammar: str) -> str:
    """As Lark. Raises InvalidRequest with the position of what cannot be read."""
    plain = GBNF_PART.sub(_plain_part, grammar)
    try:
        return gbnf_to_lark(plain)
    except Exception as error:  # the library raises nothing narrower
        raise InvalidRequest(f"the GBNF cannot be read: {error!s}") from error


def _plain_part(part: re.Match[str]) -> str:
    """What the library's reader does not take or takes in a narrower sense, said otherwise."""
    if part["any"]:
        return ANY_CHARACTER
    return part[0] if part["note"] else WIDE_ESCAPE.sub(_plain_escape, part[0])


def _plain_escape(escape: re.Match[str]) -> str:
    digits = escape[1] or escape[2]
    if not digits:
        return escape[0]
    code = int(digits, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise InvalidRequest(f"{escape[0]} is no character")
    return f"\\x{code:02x}" if code < 0x80 else chr(code)


def check_schema(text: str) -> None:
    """Raises InvalidRequest when the schema is no object, is too deep, or has x-guidance in it."""
    shape = Shape()
    try:
        schema = json.loads(text)
        levels = shape.measure(schema)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"it cannot be read as JSON: {error!s}") from error
    if not isinstance(schema, dict):
        raise InvalidRequest("a schema is a JSON object")
    if "x-guidance" in schema:
        raise InvalidRequest("x-guidance may not be used; how JSON is written is fixed here")
    # On its longest way the compiler enters each target once, so the sum bounds that way.
    levels += sum(shape.depths[id(target(schema, pointer))] for pointer in shape.references)
    if levels > MOST_LEVELS:
        raise InvalidRequest(
            f"its {len(shape.references)} targets of $ref nest up to {levels} levels; "
            f"{MOST_LEVELS} are the most that are taken"
        )


class Shape:
    """How deep each part of a JSON value is, by its identity, and what its $refs name."""

    def __init__(self) -> None:
        self.depths: dict[int, int] = {}
        self.references: set[str] = set()

    def measure(self, value: Any) -> int:
        """The levels of `value`, itself included."""
        inside: list[Any] = []
        if isinstance(value, dict):
            inside = list(value.values())
            if isinstance(pointer := value.get("$ref"), str):
                self.references.add(pointer)
        elif isinstance(value, list):
            inside = value
        found = self.depths[id(value)] = 1 + max(map(self.measure, inside), default=0)
        return found


def target(schema: Any, pointer: str) -> Any:
    """What a local reference names; the whole schema for one that is not a plain pointer."""
    found = schema
    for step in pointer.removeprefix("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or step not in found:
            return schema
        found = found[step]
    return found
