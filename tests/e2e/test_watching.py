"""A watched server with the real model: rows, metrics, traces, also after it was killed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from .server import CHAT, client, ready

pytestmark = pytest.mark.anyio

LONG = {"messages": [{"role": "user", "content": "Count to 500."}], "max_tokens": 400}
SHORT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "ignore_eos": True}
HOPS = {"parse", "prepare", "place", "queue", "prefill", "decode", "text", "render"}


async def decoding(http: httpx.AsyncClient) -> dict:
    """The first row that has drawn a token."""
    while True:
        for row in (await http.get("/admin/rows")).json()["rows"]:
            if row["generated"]:
                return row


async def watched(http: httpx.AsyncClient) -> None:
    """Has one request ended by hand and lets another run out."""
    body = {**LONG, "ignore_eos": True}
    asking = asyncio.create_task(http.post(CHAT, json=body, headers={"x-request-id": "long"}))
    row = await decoding(http)
    assert (row["id"], row["state"], row["lane"]) == ("long", "decode", "group")
    assert row["computed"] == row["prompt_tokens"]
    assert (await http.delete("/admin/rows/long")).json()["cancelled"] == 1
    refused = await asking
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "ended_by_operator")
    assert (await http.post(CHAT, json=SHORT)).status_code == 200
    await shown(http)
    counted = (await http.get("/metrics")).text
    for finish in ("operator", "length"):
        assert f'slipstream_requests_total{{finish="{finish}",route="{CHAT}"}} 1.0' in counted
    assert 'slipstream_turn_seconds_count{phase="step"}' in counted


async def shown(http: httpx.AsyncClient) -> None:
    """What the dashboard asks for tells of both requests."""
    newest, oldest = (await http.get("/admin/traces")).json()["traces"]
    assert (oldest["id"], oldest["finish"], newest["finish"]) == ("long", "operator", "length")
    trace = (await http.get(f"/admin/traces/{newest['id']}")).json()
    assert {hop["name"] for hop in trace["hops"]} == HOPS
    waited = (await http.get("/admin/latency")).json()
    assert waited["first_token_ms"]["count"] == 2
    assert waited["gap_ms"]["p50"] <= waited["gap_ms"]["p99"]
    tree = (await http.get("/admin/prefixes")).json()
    assert sum(one["bytes"] for one in tree["segments"]) > 0
    assert len(tree["segments"]) == tree["entries"]


async def test_what_was_watched_is_there_after_a_crash(tmp_path: Path) -> None:
    trace, turns = tmp_path / "trace.json", tmp_path / "turns.jsonl"
    with ready(tmp_path / "log", "--trace", str(trace), "--trace-turns", str(turns)) as server:
        async with client(server) as http:
            await watched(http)
        server.process.kill()
    events = json.loads(trace.read_text())
    for number in ("1", "2"):
        mine = [event for event in events[1:] if event["id"].split(".")[0] == number]
        assert {event["name"] for event in mine if event["ph"] == "b"} > HOPS
        assert {"join", "cache", "first_token", "leave"} <= {event["name"] for event in mine}
