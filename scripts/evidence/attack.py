"""Clients that leave, stall, ask too much or come at the wrong time, and then a long mixed load.

After each trouble nothing may be left: no row, no waiter, no byte of a row. Prints the memory of
the process after each. Ends in one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import httpx
from servers import PATIENCE, Server, ids, rss_mb, serving, stats

from slipstream.bench.report import Row, finish

ROUTE = "/v1/completions"
CLIENTS = 200
JSON = MappingProxyType({"content-type": "application/json"})
REST = 0.05  # seconds between two looks
FLAGS = ("--batch", "8", "--queue", "300", "--prefix-cache", "0.05", "--target-gap", "100")


class Attack:
    """One server, and clients that mean no good."""

    def __init__(self, server: Server, seed: int = 0) -> None:
        self.server = server
        self.chance = random.Random(seed)
        self.http = httpx.AsyncClient(
            base_url=server.url, timeout=PATIENCE, limits=httpx.Limits(max_connections=None)
        )

    def body(self) -> dict[str, Any]:
        """Of any shape."""
        prompt = ids(self.chance.randrange(30), self.chance.choice((3, 40, 40, 150)))
        shapes: tuple[Mapping[str, Any], ...] = (
            {"n": 2, "temperature": 1.0, "seed": self.chance.randrange(99)},
            {"logprobs": 3},
            {"stop": ["e", " a"]},
            {"guided_regex": "[a-z]{3,9}"},
            {"priority": self.chance.randint(-2, 2)},
            {"cache_salt": str(self.chance.randrange(5))},
            {"repetition_penalty": 1.2, "logit_bias": {"5": -100}},
            {"lane": "solo"},
            {},
        )
        most = self.chance.choice((1, 8, 30))
        return {"prompt": prompt, "max_tokens": most, **self.chance.choice(shapes)}

    async def ask(self, **fields: Any) -> int:
        """The status of an answer that is read to its end."""
        asking = {**self.body(), "stream": self.chance.random() < 0.5, **fields}
        reply = await self.http.post(ROUTE, json=asking)
        return reply.status_code

    async def leave(self) -> None:
        """Hangs up after a random time, wherever the request is by then."""
        seconds = self.chance.random() * 5
        with contextlib.suppress(TimeoutError, httpx.HTTPError):
            async with asyncio.timeout(seconds):
                await self.ask(max_tokens=500, ignore_eos=True)

    async def leavers(self) -> None:
        await asyncio.gather(*(self.leave() for _ in range(CLIENTS)))

    async def stopped(self) -> None:
        """The process sleeps for moments that it does not know of."""
        asking = [asyncio.create_task(self.ask()) for _ in range(12)]
        for _ in range(6):
            self.server.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(self.chance.random())
            self.server.process.send_signal(signal.SIGCONT)
            await asyncio.sleep(self.chance.random())
        assert set(await asyncio.gather(*asking)) == {200}

    async def stalled(self) -> None:
        """Streams of which one piece is read, then nothing, then the connection is cut."""
        parts = urlsplit(self.server.url)
        body = {"prompt": ids(1, 40), "max_tokens": 400, "ignore_eos": True, "logprobs": 20}
        payload = json.dumps(body | {"stream": True}).encode()
        head = f"POST {ROUTE} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(payload)}\r\n"
        head += "Content-Type: application/json\r\n\r\n"
        writers = []
        for _ in range(8):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1)
            writer.write(head.encode() + payload)
            await reader.read(1)
            writers.append(writer)
        assert await self.ask(priority=2) == 200
        for writer in writers:
            writer.transport.abort()

    async def huge(self) -> None:
        """Prompts that no context holds; meanwhile the server goes on answering others."""
        texts = ("word " * 10_000_000, "x" * 50_000_000)
        bodies = [json.dumps({"prompt": text}).encode() for text in texts]
        asking = [
            asyncio.create_task(self.http.post(route, content=body, headers=JSON))
            for body in bodies
            for route in (ROUTE, "/tokenize")
        ]
        longest = 0.0
        while not all(task.done() for task in asking):
            began = time.perf_counter()
            await self.http.get("/health")
            longest = max(longest, time.perf_counter() - began)
            await asyncio.sleep(REST)
        codes = [task.result().status_code for task in asking]
        print(f"huge prompts: {codes}, /health took {longest:.2f} s at most", flush=True)

    async def mixed(self, seconds: float, crowd: int = 12) -> None:
        """All shapes, from `crowd` clients of whom every fifth request leaves."""
        end = time.monotonic() + seconds
        codes: set[int] = set()

        async def client() -> None:
            while time.monotonic() < end:
                if self.chance.random() < 0.2:
                    await self.leave()
                else:
                    codes.add(await self.ask())

        await asyncio.gather(*(client() for _ in range(crowd)))
        assert codes == {200}, codes

    async def rested(self) -> Row:
        """What is left once nothing runs. Raises TimeoutError when something goes on."""
        now = stats(self.server)
        async with asyncio.timeout(PATIENCE):
            while now["lanes"]["group"]["active"] or now["memory"]["kv"]:
                await asyncio.sleep(REST)
                now = stats(self.server)
        lanes, memory = now["lanes"], now["memory"]
        assert lanes["solo"]["active"] == now["queue"]["waiting"] == 0, now
        assert now["lease"]["held_by"] is None and now["lease"]["waiting"] == 0, now
        assert sum(now["finish"].values()) == sum(lane["submitted"] for lane in lanes.values())
        assert "Traceback" not in self.server.log, self.server.log
        return {
            "submitted": lanes["group"]["submitted"] + lanes["solo"]["submitted"],
            "kv": memory["kv"],
            "prefix_mb": memory["prefix_ram"] / 1e6,
            "active_mb": memory["active"] / 1e6,
            "rss_mb": rss_mb(self.server),
        }


async def ended(attack: Attack) -> None:
    """SIGTERM among requests: each is answered, refused or cut off, and the exit is clean."""
    asking = [asyncio.create_task(attack.ask()) for _ in range(30)]
    await asyncio.sleep(attack.chance.random())
    attack.server.process.send_signal(signal.SIGTERM)
    late = [asyncio.create_task(attack.ask()) for _ in range(10)]
    await asyncio.gather(*asking, *late, return_exceptions=True)
    code = await asyncio.to_thread(attack.server.process.wait, PATIENCE)
    assert code == 0 and "Traceback" not in attack.server.log, attack.server.log


async def run(server: Server, seconds: float) -> list[Row]:
    attack = Attack(server)
    troubles: tuple[tuple[str, Callable[[], Awaitable[None]]], ...] = (
        ("warm", lambda: attack.mixed(min(30, seconds))),
        ("200 leave", attack.leavers),
        ("STOP and CONT", attack.stopped),
        ("stalled readers", attack.stalled),
        ("huge prompts", attack.huge),
        *((f"soak {part}", lambda: attack.mixed(seconds / 5)) for part in range(1, 6)),
    )
    rows: list[Row] = []
    for name, trouble in troubles:
        await trouble()
        rows.append({"after": name, **await attack.rested()})
        print(rows[-1], flush=True)
    await ended(attack)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="of the mixed load")
    given = parser.parse_args()
    with serving(*FLAGS) as server:
        rows = asyncio.run(run(server, given.seconds))
    finish("attack", rows, sys.stdout)


if __name__ == "__main__":
    main()
