"""GET and POST /v1/adapters, DELETE /v1/adapters/{name}: what is mounted, and how it changes.

It does not know what an adapter is made of, nor when the device has time for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.types import Receive, Scope

from slipstream.contracts.adapters import AdapterInfo
from slipstream.contracts.errors import InvalidRequest
from slipstream.serve.answers import Answer, Declared
from slipstream.serve.fields import Filled, convert, ignored
from slipstream.serve.generation import require_ready
from slipstream.serve.names import ServedNames
from slipstream.serve.ports import Engine
from slipstream.serve.queries import declared
from slipstream.serve.wire import json_response, read_object


class MountRequest(msgspec.Struct, kw_only=True):
    """`path` is a folder on the server's own disk."""

    name: Filled
    path: Filled


class Described(Answer):
    id: str
    object: Literal["adapter"]
    model: str
    path: str
    digest: str
    method: Literal["lora", "dora"]
    rank: int
    targets: int
    bytes: int
    rows: int


class AdapterList(Answer):
    object: Literal["list"]
    data: list[Described]


class MountedAdapter(Described):
    unmounted: list[str]
    slipstream: Declared | msgspec.UnsetType = msgspec.UNSET


class DeletedAdapter(Answer):
    id: str
    object: Literal["adapter"]
    deleted: Literal[True]


class AdapterRoutes:
    """The handlers; see routing.Handler."""

    def __init__(self, engine: Engine, names: ServedNames, *, strict: bool) -> None:
        self._engine = engine
        self._names = names
        self._strict = strict

    async def list(self, scope: Scope, receive: Receive) -> Response:
        require_ready(self._engine)
        reports = self._engine.adapters.listed()
        data = [{**self._described(one.info), "rows": one.rows} for one in reports]
        return json_response({"object": "list", "data": data})

    async def mount(self, scope: Scope, receive: Receive) -> Response:
        require_ready(self._engine)
        body = await read_object(scope, receive)
        request = convert(body, MountRequest)
        unread = ignored(body, request, self._strict)
        mounted = await self._engine.adapters.mount(request.name, Path(request.path))
        answer = {
            **self._described(mounted.info),
            "rows": 0,
            "unmounted": mounted.unmounted,
            **declared(unread),
        }
        return json_response(answer)

    async def unmount(self, scope: Scope, receive: Receive) -> Response:
        require_ready(self._engine)
        when = QueryParams(scope["query_string"]).get("when", "now")
        if when not in ("now", "idle"):
            raise InvalidRequest(f"when is {when[:40]!r}; it is now or idle.", param="when")
        name = scope["path_params"]["name"]
        info = await self._engine.adapters.unmount(name, when_idle=when == "idle")
        return json_response({"id": info.name, "object": "adapter", "deleted": True})

    def _described(self, info: AdapterInfo) -> Mapping[str, Any]:
        return {
            "id": info.name,
            "object": "adapter",
            "model": f"{self._names.primary}:{info.name}",
            "path": str(info.path),
            "digest": info.digest,
            "method": info.method,
            "rank": info.rank,
            "targets": info.targets,
            "bytes": info.bytes,
        }
