"""Writes down what went over the wire: one JSON line for each request, once it has ended."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

IGNORED = re.compile(r'"ignored":(?=\[)')
PROMPT = re.compile(rb'"(?:prompt|input)_tokens":(\d+)')
SHOWN = 400  # characters of an error


@dataclass
class Exchange:
    scope: Scope
    asked: bytearray = field(default_factory=bytearray)
    answered: bytearray = field(default_factory=bytearray)
    status: int = 0
    whole: bool = False  # the last byte of the answer was handed to the socket
    left: bool = False  # the client hung up before that

    def saw(self, message: Message) -> None:
        if message["type"] == "http.request":
            self.asked += message.get("body", b"")
        elif message["type"] == "http.disconnect":
            self.left = self.left or not self.whole
        elif message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body":
            self.answered += message.get("body", b"")
            self.whole = not message.get("more_body", False)

    def line(self) -> dict[str, Any]:
        headers = dict(self.scope["headers"])
        body = body_of(bytes(self.asked))
        prompt = PROMPT.findall(self.answered)
        made = {
            "agent": headers.get(b"user-agent", b"").decode()[:80],
            "method": self.scope["method"],
            "path": self.scope["path"],
            "query": self.scope["query_string"].decode(),
            "headers": sorted(name.decode() for name in headers),
            "keys": sorted(body),
            "tools": dict(kinds(body.get("tools") or ())),
            "model": body.get("model"),
            "limit": body.get("max_tokens") or body.get("max_output_tokens"),
            "prompt_tokens": max(map(int, prompt), default=None),
            "status": self.status,
            "ignored": ignored(self.answered.decode("utf-8", "replace")),
            "left": self.left,
        }
        if self.status >= 400:
            made["error"] = self.answered.decode("utf-8", "replace")[:SHOWN]
        return made


class Recorder:
    """Passes everything on as it is."""

    def __init__(self, app: ASGIApp, file: Path, bodies: Path | None = None) -> None:
        """`bodies`: a folder for whole requests and answers, to look into."""
        self._app = app
        self._file = file
        self._bodies = bodies
        self._count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        seen = Exchange(scope)

        async def heard() -> Message:
            message = await receive()
            seen.saw(message)
            return message

        async def said(message: Message) -> None:
            await send(message)
            seen.saw(message)

        try:
            await self._app(scope, heard, said)
        finally:
            self._write(seen)

    def _write(self, seen: Exchange) -> None:
        self._count += 1
        with self._file.open("a") as file:
            file.write(json.dumps(seen.line()) + "\n")
        if self._bodies is not None:
            name = f"{self._count:04}{seen.scope['path'].replace('/', '_')}"
            (self._bodies / f"{name}.asked").write_bytes(seen.asked)
            (self._bodies / f"{name}.answered").write_bytes(seen.answered)


def body_of(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def ignored(answer: str) -> list[str]:
    """What the answer says of the request's fields that changed nothing."""
    places = [found.end() for found in IGNORED.finditer(answer)]
    return json.JSONDecoder().raw_decode(answer, places[-1])[0] if places else []


def kinds(tools: Iterable[dict[str, Any]]) -> Counter[str]:
    """Anthropic's own form has no type."""
    return Counter(tool.get("type") or "custom" for tool in tools)
