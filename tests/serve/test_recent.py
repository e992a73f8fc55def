"""GET /admin/traces: the last requests, bounded, and those that still run."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.contracts.backend import Memory, PrefixStats, Segment
from slipstream.contracts.report import EngineStats
from slipstream.contracts.row import CancelReason
from slipstream.contracts.trace import Hop, Moment, RequestTrace
from slipstream.serve.watch.recent import LONGEST, RecentTraces

from .scripted import CHAT, chat

pytestmark = pytest.mark.anyio

TRACES = "/admin/traces"


def trace(name: str, hops: int = 1, moments: int = 0) -> RequestTrace:
    return RequestTrace(
        name="chat model",
        start=0.0,
        end=1.0,
        attributes={"slipstream.request_id": name},
        hops=(Hop("decode", 0.0, 1.0),) * hops,
        moments=(Moment("park", 0.5, {}),) * moments,
    )


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))))
def test_traces_are_bounded_by_count_and_by_parts(sizes: list[tuple[int, int]]):
    recent = RecentTraces(most=4, most_parts=20)
    for number, (hops, moments) in enumerate(sizes):
        recent.record(trace(f"{number}", hops, moments))
    kept = [*recent]
    assert len(kept) <= 4
    assert len(kept) == 1 or sum(len(one.hops) + len(one.moments) for one in kept) <= 20
    newest = [f"{number}" for number in reversed(range(len(sizes)))]
    assert [one.attributes["slipstream.request_id"] for one in kept] == newest[: len(kept)]
    assert bool(kept) == bool(sizes)


def test_what_a_client_calls_its_model_is_kept_in_short():
    recent = RecentTraces()
    long = replace(trace("a"), name="x" * 9000, traceparent="y" * 9000)
    recent.record(replace(long, attributes={**long.attributes, "model": "z" * 9000}))
    (kept,) = recent
    texts = [kept.name, kept.traceparent, kept.attributes["model"]]
    assert [len(text) for text in texts] == [LONGEST] * 3


def test_of_two_with_one_id_the_newer_is_found():
    recent = RecentTraces()
    recent.record(trace("same", hops=1))
    recent.record(trace("same", hops=2))
    found = recent.find("same")
    assert found is not None and len(found.hops) == 2


async def test_an_ended_request_is_listed_and_shown(client):
    for number in range(3):
        await client.post(CHAT, json=chat(), headers={"x-request-id": f"mine/{number}"})
    listed = (await client.get(TRACES)).json()["traces"]
    assert [one["id"] for one in listed] == ["mine/2", "mine/1", "mine/0"]
    shown = (await client.get(f"{TRACES}/mine/1")).json()
    assert (shown["state"], shown["route"], shown["lane"]) == ("ended", CHAT, "group")
    assert [hop["name"] for hop in shown["hops"]] == ["parse", "text", "render"]
    ends = [hop["start_ms"] + hop["duration_ms"] for hop in shown["hops"]]
    assert max(ends) <= shown["duration_ms"] + 0.002
    assert shown["attributes"]["gen_ai.usage.output_tokens"] == 5


async def test_a_running_request_is_shown_as_far_as_it_is(client, engine):
    engine.script = (asyncio.Event(),)
    asking = asyncio.create_task(client.post(CHAT, json=chat(), headers={"x-request-id": "mine"}))
    await engine.submitted.wait()
    running = engine.runnings[0]
    await running.read.wait()
    running.hops, running.moments = (Hop("prepare", 1.0, 2.0),), (Moment("join", 1.5, {}),)
    shown = (await client.get(f"{TRACES}/mine")).json()
    running.cancel(CancelReason.SHUTDOWN)
    await asking
    assert shown["state"] == "running"
    assert shown["hops"] == [{"name": "prepare", "start_ms": 0.0, "duration_ms": 1000.0}]
    assert shown["moments"] == [{"name": "join", "at_ms": 500.0, "attributes": {}}]
    assert (await client.get(f"{TRACES}/mine")).json()["error"] == "shutdown"


async def test_an_unknown_request_has_no_trace(client):
    reply = await client.get(f"{TRACES}/nobody")
    assert reply.status_code == 404
    assert "nobody" in reply.json()["error"]["message"]


async def test_prefixes_are_told_by_their_own_route_and_not_in_stats(client, engine):
    segment = Segment(start=0, tokens=40, bytes=400, subtree=900, hits=3)
    engine.numbers = EngineStats(
        memory=Memory(prefix=PrefixStats(entries=2), segments=(segment,)),
    )
    told = (await client.get("/admin/prefixes")).json()
    assert told == {
        "entries": 2,
        "segments": [
            {"start": 0, "tokens": 40, "bytes": 400, "subtree": 900, "hits": 3, "parent": -1}
        ],
    }
    assert "segments" not in (await client.get("/stats")).json()["memory"]
