"""A client that costs little itself: one connection a request, lines read as they come.

It speaks HTTP/1.1 and server-sent events; it knows no API. A failure is a Fault whose `code` says
its kind: connect, status NNN, broken, malformed.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from slipstream.contracts.errors import Fault, UsageError

DONE = "[DONE]"
SHOWN = 300  # characters of a refusal that are passed on


@dataclass(frozen=True, slots=True)
class Response:
    reader: asyncio.StreamReader
    headers: Mapping[str, str]

    async def body(self) -> AsyncGenerator[bytes, None]:
        """Pieces as they come. Raises IncompleteReadError when the connection ends too early."""
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while size := await self._chunk_size():
                yield await self.reader.readexactly(size)
                await self.reader.readexactly(2)
        elif length := self.headers.get("content-length"):
            yield await self.reader.readexactly(int(length))
        else:
            while piece := await self.reader.read(1 << 16):
                yield piece

    async def _chunk_size(self) -> int:
        line = await self.reader.readuntil(b"\n")
        try:
            return int(line.split(b";")[0], 16)
        except ValueError:
            raise Fault(f"No chunk size: {line!r}", code="malformed") from None


async def events(
    url: str, body: Mapping[str, Any], key: str | None = None
) -> AsyncGenerator[str, None]:
    """The data of each server-sent event of a POST, up to and with [DONE]."""
    async with asked("POST", url, key, json.dumps(body).encode()) as response:
        rest = b""
        async with aclosing(response.body()) as pieces:
            async for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.startswith(b"data:"):
                        data = line[5:].strip().decode(errors="replace")
                        yield data
                        if data == DONE:
                            return
    raise Fault(f"{url}: the stream ended without {DONE}.", code="broken")


async def fetched(url: str, key: str | None = None) -> Any:
    """The JSON that a GET answers."""
    async with asked("GET", url, key, b"") as response, aclosing(response.body()) as pieces:
        whole = b"".join([piece async for piece in pieces])
    try:
        return json.loads(whole)
    except ValueError:
        raise Fault(f"{url}: the answer is not JSON.", code="malformed") from None


@asynccontextmanager
async def asked(method: str, url: str, key: str | None, payload: bytes) -> AsyncIterator[Response]:
    """A response whose status is 200, and whose body is still to be read."""
    parts = urlsplit(url)
    try:
        reader, writer = await asyncio.open_connection(
            parts.hostname, parts.port, ssl=_secured(parts.scheme)
        )
    except OSError as error:
        raise Fault(f"{url}: {error.strerror or error}", code="connect") from None
    try:
        writer.write(_head(method, url, key, len(payload)).encode() + payload)
        yield await _begun(reader, url)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError) as error:
        raise Fault(f"{url}: the connection broke off: {error}", code="broken") from None
    finally:
        writer.close()


def _secured(scheme: str) -> ssl.SSLContext | None:
    return ssl.create_default_context() if scheme == "https" else None


def _head(method: str, url: str, key: str | None, length: int) -> str:
    parts = urlsplit(url)
    proof = f"Authorization: Bearer {key}\r\n" if key else ""
    return (
        f"{method} {parts.path or '/'} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n"
        f"{proof}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )


async def _begun(reader: asyncio.StreamReader, url: str) -> Response:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = (line.partition(":") for line in lines[1:] if line)
    response = Response(reader, {name.lower(): value.strip() for name, _, value in fields})
    words = lines[0].split()
    if len(words) < 2 or not words[1].isdigit():
        raise Fault(f"{url} does not speak HTTP: {lines[0]!r}", code="malformed")
    if words[1] != "200":
        async with aclosing(response.body()) as pieces:
            said = b"".join([piece async for piece in pieces]).decode(errors="replace")
        raise Fault(f"{url}: {lines[0]}: {said[:SHOWN]}", code=f"status {words[1]}")
    return response


def base_of(url: str) -> str:
    """The address that ends in /v1, from that, from a host alone, or from a route below it.

    Raises UsageError."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"{url}: an address begins with http:// or https:// and names a host.")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    before, _, _ = parts.path.partition("/v1")
    return f"{parts.scheme}://{host}:{port}{before.rstrip('/')}/v1"
