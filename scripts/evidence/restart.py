"""Time to first token cold, from RAM, and from the disk after SIGTERM and after a kill.

What was flushed before the kill is there after it; what was not is a miss. Every answer must be
the cold one. Ends in one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from servers import PATIENCE, Server, asked, first_token_ms, ids, serving

from slipstream.bench.report import Row, finish

Times = dict[str, dict[int, list[float]]]


class Prompts:
    """Of each length one that is flushed, and one that a kill comes too early for; no round
    repeats another's."""

    def __init__(self, number: int, lengths: Sequence[int]) -> None:
        self.kept = {length: ids(1000 * number + length, length) for length in lengths}
        self.lost = {length: ids(1000 * number + length + 500, length) for length in lengths}
        self.text: dict[int, str] = {}


def ask(server: Server, prompts: Mapping[int, list[int]], state: str, times: Times) -> None:
    for length, prompt in prompts.items():
        taken = asyncio.run(first_token_ms(server, prompt))
        times.setdefault(state, {}).setdefault(length, []).append(taken)


def check(server: Server, prompts: Prompts) -> None:
    """Raises AssertionError unless what is said is what was said first, from a cache."""
    for length, prompt in prompts.kept.items():
        reply = asked(server, prompt)
        assert reply.text == prompts.text.setdefault(length, reply.text), "another answer"
        assert reply.cached == length - 1, f"{reply.cached} of {length} tokens were cached"


@contextmanager
def warm(folder: str):
    with serving("--ssd-cache", folder) as server:
        asked(server, ids(7, 40))
        yield server


def flush(server: Server) -> None:
    httpx.post(f"{server.url}/admin/cache/flush", timeout=PATIENCE).raise_for_status()


def measured(prompts: Prompts, times: Times, folder: str) -> None:
    with warm(folder) as server:
        ask(server, prompts.kept, "cold", times)
        check(server, prompts)
        ask(server, prompts.kept, "RAM", times)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
    with warm(folder) as server:
        ask(server, prompts.kept, "disk after SIGTERM", times)
        check(server, prompts)
        flush(server)
        written = len(list(Path(folder).glob("*.safetensors")))
        ask(server, prompts.lost, "cold", times)
        server.process.kill()
        server.process.wait()
    with warm(folder) as server:
        ask(server, prompts.kept, "disk after kill -9", times)
        check(server, prompts)
        assert len(list(Path(folder).glob("*.safetensors"))) >= written
        ask(server, prompts.lost, "not flushed before kill -9", times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--lengths", type=int, nargs="+", default=[500, 4000])
    given = parser.parse_args()
    times: Times = {}
    for number in range(given.rounds):
        with TemporaryDirectory(prefix="slipstream-cache-") as folder:
            measured(Prompts(number, given.lengths), times, folder)
    rows: list[Row] = [
        {"state": state, **{f"{n}_ms": statistics.median(t) for n, t in found.items()}}
        for state, found in times.items()
    ]
    finish("restart", rows, sys.stdout)


if __name__ == "__main__":
    main()
