"""Finished responses, kept in memory for `previous_response_id`, and the routes that show them.

It does not know how a response was made.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.types import Receive, Scope

from slipstream.contracts.clock import Clock
from slipstream.contracts.errors import InvalidRequest, NotFound
from slipstream.serve.wire import Object, encode, json_response

ROOM = 64 << 20  # bytes
LIFETIME = 24 * 3600.0  # seconds
PAGE, LONGEST_PAGE = 20, 100  # items


class Record(msgspec.Struct):
    response: Object
    input: list[Object]  # every item that the model was given, older responses' included


@dataclass(frozen=True, slots=True)
class Kept:
    until: float
    data: bytes


class Store:
    """At most `room` bytes of records, each for at most `lifetime` seconds; the oldest go first.

    Records are kept as bytes, so that nobody changes one that is shared.
    """

    def __init__(self, clock: Clock, *, room: int = ROOM, lifetime: float = LIFETIME) -> None:
        self._clock = clock
        self._room = room
        self._lifetime = lifetime
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._size = 0

    def put(self, response: Mapping[str, Any], given: Sequence[Object]) -> None:
        data = encode({"response": response, "input": given})
        self._kept[response["id"]] = Kept(self._clock.now() + self._lifetime, data)
        self._size += len(data)
        self._tidy()

    def get(self, name: str, param: str | None = None) -> Record:
        """Raises NotFound naming `param`."""
        self._tidy()
        if name not in self._kept:
            raise NotFound(
                f"There is no response {name[:80]!r}; it was not stored, or is too old.",
                param=param,
                code="not_found" if param is None else "previous_response_not_found",
            )
        return msgspec.json.decode(self._kept[name].data, type=Record)

    def delete(self, name: str) -> None:
        """Raises NotFound."""
        self.get(name)
        self._drop(name)

    def _tidy(self) -> None:
        now = self._clock.now()
        while self._kept:
            name, oldest = next(iter(self._kept.items()))
            if self._size <= self._room and now < oldest.until:
                return
            self._drop(name)

    def _drop(self, name: str) -> None:
        self._size -= len(self._kept.pop(name).data)


class Shelf:
    """The handlers of the routes below /v1/responses; see routing.Handler. Borrows `store`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def show(self, scope: Scope, receive: Receive) -> Response:
        if QueryParams(scope["query_string"]).get("stream", "false") != "false":
            raise InvalidRequest("stream is refused: a stored response is whole.", param="stream")
        return json_response(self._store.get(scope["path_params"]["name"]).response)

    async def delete(self, scope: Scope, receive: Receive) -> Response:
        name = scope["path_params"]["name"]
        self._store.delete(name)
        return json_response({"id": name, "object": "response", "deleted": True})

    async def input_items(self, scope: Scope, receive: Receive) -> Response:
        asked = QueryParams(scope["query_string"])
        items = self._store.get(scope["path_params"]["name"]).input
        if one_of(asked, "order", ("desc", "asc")) == "desc":
            items.reverse()
        if (after := asked.get("after")) is not None:
            ids = [item["id"] for item in items]
            if after not in ids:
                raise InvalidRequest("after is no item of this response.", param="after")
            items = items[ids.index(after) + 1 :]
        page = items[: page_length(asked.get("limit", str(PAGE)))]
        return json_response(
            {
                "object": "list",
                "data": page,
                "first_id": page[0]["id"] if page else None,
                "last_id": page[-1]["id"] if page else None,
                "has_more": len(page) < len(items),
            }
        )


def one_of(asked: QueryParams, name: str, words: Sequence[str]) -> str:
    """The first word is the default."""
    word = asked.get(name, words[0])
    if word not in words:
        raise InvalidRequest(f"{name} must be one of {', '.join(words)}.", param=name)
    return word


def page_length(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= LONGEST_PAGE):
        raise InvalidRequest(f"limit must be 1 to {LONGEST_PAGE}.", param="limit")
    return int(text)
