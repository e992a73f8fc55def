"""JSON in and out: the door where anything malformed is refused, and whole JSON responses.

It knows no field of any API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope

from slipstream.contracts.errors import Cancelled, InvalidRequest, WrongMedia
from slipstream.contracts.row import CancelReason

MAX_DEPTH = 64
Object = dict[str, Any]

encode = msgspec.json.encode


def json_response(
    content: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(encode(content), status, headers, media_type="application/json")


async def read_object(scope: Scope, receive: Receive) -> Object:
    """The request's JSON object.

    Raises WrongMedia, InvalidRequest, and Cancelled when the client leaves before its end."""
    check_media(Headers(scope=scope))
    return decode_object(await read_body(receive))


def check_media(headers: Headers) -> None:
    """Raises WrongMedia. A page in a browser cannot send JSON elsewhere without asking first,
    so a body without a content type is refused too."""
    given = headers.get("content-type", "")
    media = given.partition(";")[0].strip().lower()
    if media != "application/json" and not (
        media.startswith("application/") and media.endswith("+json")
    ):
        raise WrongMedia(f"The content-type is {given[:100]!r}; send application/json.")
    if (coding := headers.get("content-encoding", "identity").lower()) != "identity":
        raise WrongMedia(f"The content-encoding is {coding[:100]!r}; send the body as it is.")


async def read_body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Cancelled(CancelReason.DISCONNECT, "The client left before its body ended.")
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def decode_object(body: bytes) -> Object:
    """Strict JSON: no NaN or infinity, no lone surrogate, at most MAX_DEPTH levels, an object."""
    if not body.strip():
        raise InvalidRequest("The body is empty; send a JSON object.")
    try:
        value = msgspec.json.decode(body)
    except RecursionError as error:
        raise too_deep() from error
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"The body is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object.")
    check_depth(value)
    return value


def check_depth(value: Object) -> None:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return
    raise too_deep()


def too_deep() -> InvalidRequest:
    return InvalidRequest(f"The body nests deeper than {MAX_DEPTH} levels.")
