"""What these programs share: a server in a process of its own, questions to it, and how they end.

The server's start is that of the end-to-end tests, which stand beside this folder.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from e2e.server import Server, ready
from slipstream.bench.client import events

PATIENCE = 900.0  # seconds that an answer may take
FEW = 8  # tokens of an answer


@dataclass(frozen=True, slots=True)
class Reply:
    text: str
    cached: int
    seconds: float


@contextmanager
def serving(*flags: str) -> Iterator[Server]:
    """A server of the starter model that answers; killed at the end."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="slipstream-evidence-"))
        yield stack.enter_context(ready(Path(folder, "log"), *flags))


def ids(seed: int, length: int) -> list[int]:
    """Tokens of a prompt; no two seeds begin alike."""
    chance = random.Random(seed)
    return [1000 + seed % 40_000, *(chance.randrange(100, 40_000) for _ in range(length - 1))]


def asked(server: Server, prompt: Sequence[int], tokens: int = FEW, **fields: Any) -> Reply:
    """A greedy completion. Raises httpx.HTTPStatusError for anything but 200."""
    body = {"prompt": list(prompt), "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    began = time.perf_counter()
    reply = httpx.post(f"{server.url}/v1/completions", json=body | fields, timeout=PATIENCE)
    seconds = time.perf_counter() - began
    reply.raise_for_status()
    found = reply.json()
    return Reply(found["choices"][0]["text"], found["slipstream"]["cached_tokens"], seconds)


def tokenized(server: Server, text: str) -> tuple[int, ...]:
    body = {"prompt": text, "add_special_tokens": False}
    return tuple(httpx.post(f"{server.url}/tokenize", json=body, timeout=PATIENCE).json()["tokens"])


async def first_token_ms(server: Server, prompt: Sequence[int]) -> float:
    """Of a stream, which is left then."""
    body = {"prompt": list(prompt), "max_tokens": FEW, "temperature": 0, "stream": True}
    began = time.perf_counter()
    stream = events(f"{server.url}/v1/completions", body | {"ignore_eos": True})
    await anext(stream)
    taken = (time.perf_counter() - began) * 1000
    await stream.aclose()
    return taken


def stats(server: Server) -> Mapping[str, Any]:
    found: Mapping[str, Any] = httpx.get(f"{server.url}/stats", timeout=PATIENCE).json()
    return found


def rss_mb(server: Server) -> float:
    """Memory of the process that is in use, in MB."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1000
