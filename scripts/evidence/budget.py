"""Requests that need four times the memory for rows: all end well, and the gauge stays under it.

One that can never fit is refused at once, with the numbers. Ends in one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

import httpx
from servers import PATIENCE, ids, serving

from slipstream.bench.report import finish

LOOK = 0.05  # seconds between two looks at the gauge
QUICK_MS = 100.0


async def refused(http: httpx.AsyncClient, most: int) -> tuple[float, str]:
    """Milliseconds that the refusal of a prompt longer than `most` took, and what it says."""
    began = time.perf_counter()
    body = {"prompt": ids(1, most + 1), "max_tokens": 1}
    reply = await http.post("/v1/completions", json=body)
    taken = (time.perf_counter() - began) * 1000
    assert reply.status_code == 400, reply.text
    return taken, reply.json()["error"]["message"]


async def measured(url: str, requests: int, length: int, tokens: int) -> dict[str, float | str]:
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as http:
        memory = (await http.get("/stats")).json()["memory"]
        model = (await http.get("/v1/models")).json()["data"][0]
        most = model["max_model_len"]

        async def ask(number: int) -> int:
            body = {"prompt": ids(number, length), "max_tokens": tokens, "ignore_eos": True}
            reply = await http.post("/v1/completions", json=body)
            assert reply.status_code == 200, reply.text
            return int(reply.json()["usage"]["completion_tokens"])

        asking = [asyncio.create_task(ask(number)) for number in range(requests)]
        peak = rows = 0
        while not all(task.done() for task in asking):
            now = (await http.get("/stats")).json()
            peak = max(peak, now["memory"]["kv"])
            rows = max(rows, now["lanes"]["group"]["active"])
            await asyncio.wait(asking, timeout=LOOK, return_when=asyncio.ALL_COMPLETED)
        assert all(task.result() == tokens for task in asking)
        taken, why = await refused(http, most)
        after = (await http.get("/stats")).json()
    budget = memory["kv_budget"]
    assert 0 < peak <= budget, f"{peak} bytes of {budget}"
    assert after["queue"]["rejected"] == 0 and after["memory"]["kv"] == 0
    assert taken < QUICK_MS, f"the refusal took {taken:.0f} ms"
    print(why)
    return {
        "finished": len(asking),
        "rows_at_most": rows,
        "peak_mb": peak / 1e6,
        "budget_mb": budget / 1e6,
        "refused_ms": taken,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--length", type=int, default=40, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=24, help="of an answer")
    parser.add_argument("--kv-budget", default="0.09", metavar="GB", help="holds eight")
    given = parser.parse_args()
    flags = ("--batch", "32", "--kv-budget", given.kv_budget, "--prefix-cache", "0")
    with serving(*flags) as server:
        row = asyncio.run(measured(server.url, given.requests, given.length, given.tokens))
    finish("budget", [row], sys.stdout)


if __name__ == "__main__":
    main()
