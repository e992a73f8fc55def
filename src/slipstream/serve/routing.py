"""One path, its methods, and what every other method gets. Knows no route by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from slipstream.contracts.errors import NotFound, WrongMethod
from slipstream.serve.errors import error_response

Handler = Callable[[Scope, Receive], Awaitable[ASGIApp]]
"""Checks a request and returns its response. A Refusal that it raises comes before any status."""


class Methods:
    """The handlers of one path, by method. HEAD is GET without its body. `names` are as given."""

    def __init__(self, **handlers: Handler) -> None:
        self._handlers = dict(handlers)
        if "GET" in handlers:
            self._handlers["HEAD"] = handlers["GET"]
        self._allow = ", ".join(sorted([*self._handlers, "OPTIONS"]))
        self.names = tuple(handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method, path = scope["method"], scope["path"]
        if method in self._handlers:
            response = await self._handlers[method](scope, receive)
        elif method == "OPTIONS":
            response = Response(status_code=204, headers={"allow": self._allow})
        else:
            error = WrongMethod(f"{path} takes {self._allow}, not {method[:20]}.")
            response = error_response(error, scope, allow=self._allow)
        await response(scope, receive, send)


class Named:
    """Leaves word of the route that was taken, for whoever counts."""

    def __init__(self, path: str, methods: Methods) -> None:
        self._path = path
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["route"] = self._path
        await self._methods(scope, receive, send)


def router(paths: dict[str, Methods]) -> Router:
    """`paths` in starlette's syntax, matched exactly; everything else raises NotFound."""
    routes = [Route(path, endpoint=Named(path, methods)) for path, methods in paths.items()]
    return Router(routes, default=nothing_here, redirect_slashes=False)


async def nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    raise NotFound(f"There is no route {scope['path'][:200]}.")
