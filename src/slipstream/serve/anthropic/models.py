"""The models as Anthropic's API lists them. The header of its clients tells who asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import Headers, QueryParams
from starlette.types import Scope

from slipstream.contracts.errors import InvalidRequest

VERSION = "anthropic-version"
PAGE, LONGEST_PAGE = 20, 1000  # models


def asks(scope: Scope) -> bool:
    """Whether it is one of Anthropic's clients."""
    return VERSION in Headers(scope=scope)


def entry(name: str, *, created: int, context: int) -> Mapping[str, Any]:
    """`created` in Unix seconds, `context` in tokens."""
    return {
        "id": name,
        "type": "model",
        "display_name": name,
        "created_at": datetime.fromtimestamp(created, UTC).isoformat(),
        "lifecycle": "active",
        "max_input_tokens": context,
        "max_tokens": context,
    }


def page(entries: Sequence[Mapping[str, Any]], scope: Scope) -> Mapping[str, Any]:
    """The part of `entries` that the query asks for. Raises InvalidRequest naming a parameter."""
    asked = QueryParams(scope["query_string"])
    length = page_length(asked.get("limit", str(PAGE)))
    ids = [one["id"] for one in entries]
    if (before := asked.get("before_id")) is not None:
        stop = place(ids, before, "before_id")
        start = max(0, stop - length)
        found, more = entries[start:stop], start > 0
    else:
        after = asked.get("after_id")
        start = 0 if after is None else place(ids, after, "after_id") + 1
        found, more = entries[start : start + length], start + length < len(entries)
    return {
        "data": found,
        "has_more": more,
        "first_id": found[0]["id"] if found else None,
        "last_id": found[-1]["id"] if found else None,
    }


def place(ids: Sequence[str], name: str, param: str) -> int:
    if name not in ids:
        raise InvalidRequest(f"{param} is the name of no model here.", param=param)
    return ids.index(name)


def page_length(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= LONGEST_PAGE):
        raise InvalidRequest(f"limit must be 1 to {LONGEST_PAGE}.", param="limit")
    return int(text)
