"""A server that answers chat requests by a script of raw bytes, for clients to be tested on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from slipstream.bench.target import Target

EVENT_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


def event(data: Any) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return f"data: {text}\n\n".encode()


def said(text: str) -> bytes:
    return event({"choices": [{"delta": {"content": text}}]})


def usage(prompt: int, tokens: int) -> bytes:
    return event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": tokens}})


DONE = event("[DONE]")
ANSWER = (event({"choices": [{"delta": {"role": "assistant"}}]}), said("a"), said("b"))


class Scripted:
    """Answers each request with the next of `replies`, the last one again and again.

    A reply is the pieces that are written, one after the other, before the connection closes."""

    def __init__(self, *replies: Sequence[bytes], crowd: int = 0) -> None:
        """With a `crowd`, nobody is answered before so many have asked at a time."""
        self._replies = list(replies)
        self._crowd = crowd
        self._enough = asyncio.Event()
        self.heads: list[str] = []
        self.bodies: list[Mapping[str, Any]] = []
        self.busy = 0
        self.most = 0  # requests at a time

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:] if line)
        body = await reader.readexactly(int(fields["content-length"]))
        self.heads.append(head)
        self.bodies.append(json.loads(body) if body else {})
        self.busy += 1
        self.most = max(self.most, self.busy)
        if self.busy >= self._crowd:
            self._enough.set()
        await self._enough.wait()
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        for piece in reply:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        self.busy -= 1
        writer.close()


def stream(*events: bytes) -> tuple[bytes, ...]:
    return (EVENT_STREAM + b"\r\n", *events)


def chunked(*pieces: bytes) -> tuple[bytes, ...]:
    """As uvicorn writes a stream; the pieces need not be whole events."""
    framed = (b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return (EVENT_STREAM + b"Transfer-Encoding: chunked\r\n\r\n", *framed, b"0\r\n\r\n")


def whole(status: str, body: Any) -> tuple[bytes, ...]:
    text = json.dumps(body).encode()
    return (b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status.encode(), len(text)), text)


@asynccontextmanager
async def listening(server: Scripted) -> AsyncIterator[str]:
    async with await asyncio.start_server(server, "127.0.0.1", 0) as made:
        yield f"http://127.0.0.1:{made.sockets[0].getsockname()[1]}/v1"


@asynccontextmanager
async def targeted(
    server: Scripted, name: str = "scripted", **fields: Any
) -> AsyncIterator[Target]:
    async with listening(server) as url:
        yield Target(name, f"{url}/chat/completions", **fields)
