"""System prompts that begin with a line of the moment, made to begin alike again.

Some clients put the time, or a header with a checksum of the request, before a long text that never
changes, so that no two prompts begin alike. The line moves behind that text; no word is lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.contracts.completion import Message

LONGEST = 300  # characters: a longer line says more than the moment
TIME = r"(?<!\d)\d{1,2}:\d{2}:\d{2}(?!\d)"
VOLATILE = (
    # Claude Code: version and checksum of each request
    re.compile(r"x-anthropic-billing-header:.*"),
    # "Current date and time: 2026-01-31 12:00:00", "The time is now Sat Jan 31 12:00:00 2026"
    re.compile(
        r"(the )?(current|local|system|today|now|date|time|timestamp)\b.{0,50}" + TIME + ".{0,40}",
        re.IGNORECASE,
    ),
    # a bare time stamp: "[2026-01-31T12:00:00Z]"
    re.compile(r"\W*\d{4}-\d{2}-\d{2}[T ]" + TIME + r"[\w.:+-]*\W*"),
)


def settled(messages: Sequence[Message]) -> Sequence[Message]:
    """`messages` with a volatile first line of a leading system message put at its end."""
    if not messages or messages[0].get("role") not in ("system", "developer"):
        return messages
    content = messages[0].get("content")
    if isinstance(content, str):
        moved: Any = _text(content)
    elif isinstance(content, list | tuple):
        moved = _parts(content)
    else:
        return messages
    return [{**messages[0], "content": moved}, *messages[1:]]


def is_volatile(line: str) -> bool:
    return len(line) <= LONGEST and any(known.fullmatch(line) for known in VOLATILE)


def _text(text: str) -> str:
    line, _, rest = text.partition("\n")
    if not rest.strip() or not is_volatile(line):
        return text
    return rest.lstrip("\n") + f"\n{line}"


def _parts(parts: Sequence[Any]) -> Sequence[Any]:
    """As `_text` for a list of parts, which templates join: often the line is the first part."""
    if not parts or not all(map(_is_text, parts)):
        return parts
    line, _, rest = parts[0]["text"].partition("\n")
    kept = [{**parts[0], "text": rest.lstrip("\n")}] if rest.strip() else []
    kept += parts[1:]
    if not kept or not is_volatile(line):
        return parts
    return [*kept, {**parts[0], "text": f"\n{line}"}]


def _is_text(part: Any) -> bool:
    return isinstance(part, Mapping) and isinstance(part.get("text"), str)
