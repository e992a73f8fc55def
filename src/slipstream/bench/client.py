"""A client that costs little itself: one connection a stream, lines read as they come."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from slipstream.bench.marks import Marks
from slipstream.contracts.errors import Fault


async def stream(url: str, body: Mapping[str, Any]) -> Marks:
    """Times one streamed chat answer. Each piece of text counts as a token.

    Raises Fault when the answer is not a stream, or ends early."""
    marks = Marks(time.perf_counter())
    async for data in events(url, {**body, "stream": True}):
        if data == "[DONE]":
            return marks
        choices = json.loads(data).get("choices") or [{}]
        if choices[0].get("delta", {}).get("content"):
            marks.pieces.append((time.perf_counter(), 1))
    raise Fault("The stream ended without [DONE].")


async def events(url: str, body: Mapping[str, Any]) -> AsyncIterator[str]:
    """The data of each server-sent event of a POST."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        payload = json.dumps(body).encode()
        head = (
            f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
        )
        writer.write(head.encode() + payload)
        status = await reader.readline()
        if b" 200 " not in status:
            raise Fault(f"{url}: {status.decode().strip()}")
        async for line in reader:
            if line.startswith(b"data: "):
                yield line[6:].decode().rstrip()
    finally:
        writer.close()
