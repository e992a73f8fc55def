"""`slipstream serve` in a process of its own, and the few requests that the tests make of it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

COMMAND = (str(Path(sys.executable).with_name("slipstream")),)
CHAT = "/v1/chat/completions"
PATIENCE = 60.0  # seconds that anything may take on a busy machine


@dataclass
class Server:
    """A server on its way or up. `log` is its stderr so far."""

    process: subprocess.Popen[str]
    log_file: Path
    url: str = ""

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def until(self, start: str) -> str:
        """The next line of stdout that begins with `start`."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(start):
                return line.strip()
        raise AssertionError(f"it ended without saying {start!r}: {self.log}")


@contextmanager
def started(log_file: Path, *arguments: str) -> Iterator[Server]:
    """A server on a free port that listens; it may still load its model."""
    command = [*COMMAND, "serve", "--port", "0", *arguments]
    with (
        log_file.open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        server = Server(process, log_file)
        try:
            server.url = server.until("Listening on ").split()[-1]
            yield server
        finally:
            process.kill()


@contextmanager
def ready(log_file: Path, *arguments: str) -> Iterator[Server]:
    """A server that answers."""
    with started(log_file, *arguments) as server:
        server.until("Ready: ")
        yield server


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """One command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment or None,
    )


def chat(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, **fields}


def client(server: Server) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(base_url=server.url, timeout=PATIENCE, limits=limits)


@asynccontextmanager
async def opened(
    http: httpx.AsyncClient, body: Mapping[str, Any]
) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """The chunks of a stream; leaving early closes the connection."""
    asking = {**body, "stream": True, "stream_options": {"include_usage": True}}
    async with http.stream("POST", CHAT, json=asking) as response:
        assert response.status_code == 200, await response.aread()
        yield chunks(response)


async def chunks(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """Ends well only after [DONE]."""
    async for line in response.aiter_lines():
        if line == "data: [DONE]":
            return
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))
    raise AssertionError("the stream broke off")


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    finish: str
    usage: Mapping[str, Any]
    own: Mapping[str, Any]  # the `slipstream` object


async def streamed(http: httpx.AsyncClient, body: Mapping[str, Any]) -> Answer:
    """A stream read to its end."""
    async with opened(http, body) as stream:
        found = [chunk async for chunk in stream]
    assert all("error" not in chunk for chunk in found), found[-1]
    choices = [chunk["choices"][0] for chunk in found[:-1]]
    text = "".join(choice["delta"].get("content", "") for choice in choices)
    return Answer(text, choices[-1]["finish_reason"], found[-1]["usage"], found[-1]["slipstream"])


async def whole(http: httpx.AsyncClient, body: Mapping[str, Any]) -> Answer:
    response = await http.post(CHAT, json=body)
    assert response.status_code == 200, response.text
    reply = response.json()
    choice = reply["choices"][0]
    text = choice["message"]["content"]
    return Answer(text, choice["finish_reason"], reply["usage"], reply["slipstream"])


async def stats(http: httpx.AsyncClient) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (await http.get("/stats")).json()
    return found


async def until_idle(http: httpx.AsyncClient, seconds: float) -> None:
    """Returns once no row runs and nothing waits; raises TimeoutError after `seconds`."""
    async with asyncio.timeout(seconds):
        while True:
            now = await stats(http)
            if now["lanes"]["group"]["active"] == now["queue"]["waiting"] == 0:
                return
