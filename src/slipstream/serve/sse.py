"""Server-sent events: framing, and one stream that never falls silent. Knows no API."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType

from starlette.types import Send

COMMENT = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"


def event(data: bytes, name: str | None = None) -> bytes:
    """One event; `data` is JSON and so has no line break."""
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + b"data: " + data + b"\n\n"


class Stream:
    """A response in progress: headers on entry, `keep_alive` after `interval` silent seconds.

    Leaving it without an exception ends the response; with one, whoever catches it writes the
    last event. A client that stops reading blocks `write`.
    """

    def __init__(
        self, send: Send, headers: Mapping[str, str], keep_alive: bytes, interval: float
    ) -> None:
        self._send = send
        self._headers = {
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-cache, no-transform",
            "x-accel-buffering": "no",
            **headers,
        }
        self._keep_alive = keep_alive
        self._interval = interval
        self._beat: asyncio.Task[None] | None = None
        self._last = 0.0

    async def __aenter__(self) -> Stream:
        headers = [(name.encode(), value.encode()) for name, value in self._headers.items()]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        self._last = asyncio.get_running_loop().time()
        self._beat = asyncio.create_task(self._keep_alive_by_the_clock())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._beat is not None
        self._beat.cancel()
        if error is None:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def write(self, frames: bytes) -> None:
        await self._send({"type": "http.response.body", "body": frames, "more_body": True})
        self._last = asyncio.get_running_loop().time()

    async def _keep_alive_by_the_clock(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            left = self._last + self._interval - loop.time()
            if left > 0:
                await asyncio.sleep(left)
            else:
                await self.write(self._keep_alive)
