"""The one map from the exception tree to HTTP: statuses, types, headers, both error shapes.

It does not know where an error came from; `middleware.Errors` is its caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.types import Scope

from slipstream.contracts import errors
from slipstream.serve import sse
from slipstream.serve.wire import encode, json_response

ANTHROPIC_PREFIX = "/v1/messages"
RETRY_AFTER = 2  # seconds, for what was cut short by the moment and not by the request


@dataclass(frozen=True, slots=True)
class Kind:
    """A status, and the `type` of each API's error object."""

    status: int
    openai: str
    anthropic: str


FAULT = Kind(500, "server_error", "api_error")
INVALID = "invalid_request_error"

# The first class that matches decides.
KINDS: tuple[tuple[type[errors.SlipstreamError], Kind], ...] = (
    (errors.InvalidRequest, Kind(400, INVALID, INVALID)),
    (errors.Unauthorized, Kind(401, "authentication_error", "authentication_error")),
    (errors.NotFound, Kind(404, "not_found_error", "not_found_error")),
    (errors.WrongMethod, Kind(405, INVALID, INVALID)),
    (errors.TooLarge, Kind(413, INVALID, "request_too_large")),
    (errors.WrongMedia, Kind(415, INVALID, INVALID)),
    (errors.QueueFull, Kind(429, "rate_limit_error", "rate_limit_error")),
    (errors.Unavailable, Kind(503, "service_unavailable_error", "overloaded_error")),
    (errors.OutOfTime, Kind(400, INVALID, INVALID)),
    (errors.ByOperator, Kind(400, INVALID, INVALID)),
    (errors.OverBudget, Kind(400, INVALID, INVALID)),
    (errors.Cancelled, Kind(503, "service_unavailable_error", "overloaded_error")),
    (errors.SlipstreamError, FAULT),
)


def kind(error: errors.SlipstreamError) -> Kind:
    return next(found for cls, found in KINDS if isinstance(error, cls))


def is_anthropic(path: str) -> bool:
    return path == ANTHROPIC_PREFIX or path.startswith(ANTHROPIC_PREFIX + "/")


def error_object(error: errors.SlipstreamError, scope: Scope) -> Mapping[str, Any]:
    """The body of the error in the shape of the API that the route of `scope` belongs to."""
    found = kind(error)
    if is_anthropic(scope["path"]):
        told = {"type": found.anthropic, "message": anthropic_message(error)}
        if error.param is not None:
            told["param"] = error.param
        return {"type": "error", "error": told, "request_id": scope["state"]["request_id"]}
    return {
        "error": {
            "message": error.message,
            "type": found.openai,
            "param": error.param,
            "code": error.code,
        }
    }


def anthropic_message(error: errors.SlipstreamError) -> str:
    """Agents look for these words to know that they must shorten the conversation."""
    if isinstance(error, errors.ContextExceeded):
        return f"prompt is too long: {error.tokens} tokens > {error.context} maximum"
    return error.message


def error_response(error: errors.SlipstreamError, scope: Scope, **headers: str) -> Response:
    """`headers` are spelled with underscores."""
    found = kind(error)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if isinstance(error, errors.Unauthorized):
        # A browser asks its user for a password, and the key is one.
        page = scope["path"] == "/" or scope["path"].startswith("/web/")
        sent["www-authenticate"] = 'Basic realm="Slipstream"' if page else "Bearer"
    if isinstance(error, errors.Cancelled) and found.status == 503:
        sent["retry-after"] = str(RETRY_AFTER)
    elif isinstance(error, errors.Refusal) and error.retry_after is not None:
        sent["retry-after"] = str(error.retry_after)
    return json_response(error_object(error, scope), found.status, sent)


def error_event(error: errors.SlipstreamError, scope: Scope) -> bytes:
    """The error as the last event of a stream that has begun."""
    name = "error" if is_anthropic(scope["path"]) else None
    return sse.event(encode(error_object(error, scope)), name)
