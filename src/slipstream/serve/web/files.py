"""Hands out the files of the web page, with headers that keep everything else out of it.

It knows no route of the API: the page itself calls those, with a key where the server wants one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope

from slipstream.contracts.errors import NotFound

STATIC = Path(__file__).with_name("static")
PAGE = "index.html"
POLICY = (
    "default-src 'self'",
    "img-src 'self' data:",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
)
HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "content-security-policy": "; ".join(POLICY),
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cache-control": "no-cache",  # asks again each time, and mostly gets a 304
    }
)


class WebFiles:
    """The handlers of the page and of its parts; see routing.Handler."""

    def __init__(self) -> None:
        self._files = StaticFiles(directory=STATIC)

    async def page(self, scope: Scope, receive: Receive) -> Response:
        return await self._file(PAGE, scope)

    async def part(self, scope: Scope, receive: Receive) -> Response:
        """Raises NotFound for a path that is none of ours."""
        return await self._file(scope["path_params"]["path"], scope)

    async def _file(self, path: str, scope: Scope) -> Response:
        try:
            response = await self._files.get_response(path, scope)
        except HTTPException:
            raise NotFound(f"The page has no file {path[:200]}.") from None
        response.headers.update(HEADERS)
        return response
