"""System prompts that begin with a line of the moment, made to begin alike again.

Some clients put the time before a long text that never changes, so that no two prompts begin alike.
The line moves behind that text; no word is lost. A line that a client adds for its own servers,
and that says nothing to a model, is left out: behind the text it would part the turns after it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.contracts.completion import Message

LONGEST = 300  # characters: a longer line says more than the moment
TIME = r"(?<!\d)\d{1,2}:\d{2}:\d{2}(?!\d)"
# Claude Code: version and checksum of each request; Anthropic's own servers take it out too.
CLIENT = re.compile(r"(x-anthropic-billing-header):.*")
VOLATILE = (
    # "Current date and time: 2026-01-31 12:00:00", "The time is now Sat Jan 31 12:00:00 2026"
    re.compile(
        r"(the )?(current|local|system|today|now|date|time|timestamp)\b.{0,50}" + TIME + ".{0,40}",
        re.IGNORECASE,
    ),
    # a bare time stamp: "[2026-01-31T12:00:00Z]"
    re.compile(r"\W*\d{4}-\d{2}-\d{2}[T ]" + TIME + r"[\w.:+-]*\W*"),
)


def settled(messages: Sequence[Message]) -> tuple[Sequence[Message], tuple[str, ...]]:
    """`messages` with a volatile first line of a leading system message put at its end, and without
    lines for a client's own servers; the names of those that were left out."""
    if not messages or messages[0].get("role") not in ("system", "developer"):
        return messages, ()
    content = messages[0].get("content")
    if isinstance(content, str):
        own, names = _without_client_lines([content])
        moved: Any = _text("".join(own))
    elif isinstance(content, list | tuple) and all(map(_is_text, content)):
        texts, names = _without_client_lines([part["text"] for part in content])
        kept = [{**part, "text": text} for part, text in zip(content, texts, strict=True) if text]
        moved = _parts(kept if names else content)
    else:
        return messages, ()
    rest = messages[1:]
    if names and not moved and rest:
        return rest, names
    return [{**messages[0], "content": moved or ""}, *rest], names


def _without_client_lines(texts: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """`texts` without those first lines, possibly empty then, and their names."""
    kept: list[str] = []
    names: list[str] = []
    for text in texts:
        line, _, rest = text.partition("\n")
        if found := CLIENT.fullmatch(line.rstrip("\r")):
            names.append(found[1])
        kept.append(rest.lstrip("\n") if found else text)
    return kept, tuple(dict.fromkeys(names))


def is_volatile(line: str) -> bool:
    return len(line) <= LONGEST and any(known.fullmatch(line) for known in VOLATILE)


def _text(text: str) -> str:
    line, _, rest = text.partition("\n")
    if not rest.strip() or not is_volatile(line):
        return text
    return rest.lstrip("\n") + f"\n{line}"


def _parts(parts: Sequence[Any]) -> Sequence[Any]:
    """As `_text` for a list of parts, which templates join: often the line is the first part."""
    if not parts:
        return parts
    line, _, rest = parts[0]["text"].partition("\n")
    kept = [{**parts[0], "text": rest.lstrip("\n")}] if rest.strip() else []
    kept += parts[1:]
    if not kept or not is_volatile(line):
        return parts
    return [*kept, {**parts[0], "text": f"\n{line}"}]


def _is_text(part: Any) -> bool:
    return isinstance(part, Mapping) and isinstance(part.get("text"), str)
