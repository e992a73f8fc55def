"""What surrounds every route, as pure ASGI: request ids, CORS, errors, keys, body size.

It knows no route but those that need no key: /health and the page.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import re
import uuid
from collections.abc import Iterable, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slipstream.contracts.errors import (
    Cancelled,
    Fault,
    SlipstreamError,
    TooLarge,
    Unauthorized,
)
from slipstream.contracts.row import CancelReason
from slipstream.serve.api import Failed
from slipstream.serve.errors import error_event, error_response, is_anthropic

log = logging.getLogger(__name__)

OPEN_PATH = "/health"
PAGE_PATH, PAGE_PARTS = "/", "/web/"
SANE_ID = re.compile(r"[!-~]{1,128}")
EXPOSED = "x-request-id, request-id, x-slipstream-lane, x-slipstream-reasons, retry-after"
METHODS = "GET, HEAD, POST, DELETE, OPTIONS"
PREFLIGHT_AGE = "600"  # seconds


class RequestIds:
    """Keeps the client's x-request-id if it is printable and short, else makes one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if SANE_ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = request_id
                if is_anthropic(scope["path"]):
                    headers["request-id"] = request_id
            await send(message)

        await self._app(scope, receive, named)


class Cors:
    """Lets pages of exactly these origins call. Credentials are never allowed; keys are headers."""

    def __init__(self, app: ASGIApp, origins: Iterable[str]) -> None:
        self._app = app
        listed = (one.strip().rstrip("/") for origin in origins for one in origin.split(","))
        self._origins = frozenset(filter(None, listed))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is None or not ({origin, "*"} & self._origins):
            await self._app(scope, receive, send)
            return
        allowed = {"access-control-allow-origin": origin, "vary": "Origin"}
        if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            wanted = headers.get("access-control-request-headers", "")
            preflight = {
                **allowed,
                "access-control-allow-methods": METHODS,
                "access-control-allow-headers": wanted,
                "access-control-max-age": PREFLIGHT_AGE,
            }
            await Response(status_code=204, headers=preflight)(scope, receive, send)
            return

        async def opened(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(
                    {**allowed, "access-control-expose-headers": EXPOSED}
                )
            await send(message)

        await self._app(scope, receive, opened)


class Errors:
    """The app's edge: an error before the status line is a response, after it the last event."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except SlipstreamError as raised:
            # Its frames hold the request's body, and would form a ring with this one.
            error = raised.with_traceback(None)
        except Exception:
            request_id = scope["state"]["request_id"]
            log.exception("request %s failed", request_id)
            error = Fault(f"Something of ours failed. The log has more, under {request_id}.")
        else:
            return
        if isinstance(error, Cancelled) and error.reason == CancelReason.DISCONNECT:
            return  # nobody is there to be told
        if started:
            failed: Failed | None = scope["state"].get("failed")
            frames = failed(error) if failed else error_event(error, scope)
            await send({"type": "http.response.body", "body": frames})
        else:
            await error_response(error, scope)(scope, receive, send)


def is_page(path: str) -> bool:
    """Whether a browser asks for it by itself, when it can carry a key as a password only."""
    return path == PAGE_PATH or path.startswith(PAGE_PARTS)


class Keys:
    """Raises Unauthorized unless the request carries one of `keys`. Compares in constant time."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._digests = [digest(key.encode()) for key in keys if key]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != OPEN_PATH:
            self._check(Headers(scope=scope), password=is_page(scope["path"]))
        await self._app(scope, receive, send)

    def _check(self, headers: Headers, *, password: bool) -> None:
        """`password`: the key may also come as that of basic authentication, under any name."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        bearer = token.strip() if scheme.lower() == "bearer" else ""
        basic = secret(token) if password and scheme.lower() == "basic" else ""
        sent = (bearer, basic, headers.get("x-api-key", ""))
        given = [digest(key.encode("latin-1")) for key in sent if key]  # as headers are decoded
        matches = [hmac.compare_digest(ours, key) for ours in self._digests for key in given]
        if not any(matches):
            raise Unauthorized(
                "This server needs an API key, as Authorization: Bearer or x-api-key."
                if not given
                else "The API key is wrong."
            )


def secret(token: str) -> str:
    """The password of basic credentials, as headers are decoded; empty when they are none."""
    try:
        return base64.b64decode(token.strip(), validate=True).decode("latin-1").partition(":")[2]
    except ValueError:
        return ""


def digest(key: bytes) -> bytes:
    """Of one length, so that a comparison tells nothing of the key's."""
    return hashlib.sha256(key).digest()


class BodyLimit:
    """Raises TooLarge as soon as a body is known to be over `limit` bytes, read or not."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isascii() and declared.isdigit():
            self._check(int(declared[:20]))
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            self._check(seen)
            return message

        await self._app(scope, counted, send)

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise TooLarge(
                f"The body is over {self._limit} bytes; --max-body sets how large one may be."
            )
