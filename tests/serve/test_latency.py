"""GET /admin/latency: exact percentiles of what clients waited for in the last minute."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.serve.watch.latency import Waits, percentile

from .scripted import CHAT, ScriptedEngine, chat, client_of

pytestmark = pytest.mark.anyio

LATENCY = "/admin/latency"
seconds = st.floats(0, 100, allow_nan=False)


@given(st.lists(seconds, min_size=1), st.integers(1, 100))
def test_a_percentile_is_the_least_that_covers_its_share(waits: list[float], rank: int):
    covering = [
        one for one in waits if sum(other <= one for other in waits) * 100 >= rank * len(waits)
    ]
    assert percentile(sorted(waits), rank) == min(covering)


def test_of_nothing_there_is_no_percentile():
    assert percentile([], 50) is None


def test_old_waits_are_left_out():
    waits = Waits()
    for at in range(10):
        waits.add(float(at), 10.0 - at)
    assert waits.since(6.5) == [1.0, 2.0, 3.0]


@given(st.lists(seconds), st.integers(1, 5))
def test_only_so_many_waits_are_kept(given_waits: list[float], most: int):
    waits = Waits(most)
    for wait in given_waits:
        waits.add(1.0, wait)
    assert waits.since(-math.inf) == sorted(given_waits[-most:])


async def test_a_server_that_has_answered_nothing_knows_no_percentile(client):
    told = (await client.get(LATENCY)).json()
    nothing = {"count": 0, "p50": None, "p95": None, "p99": None}
    assert told == {"span_s": 60.0, "first_token_ms": nothing, "gap_ms": nothing}


@pytest.mark.parametrize("stream", [False, True])
async def test_first_tokens_and_gaps_of_a_request_are_counted(client, stream):
    await client.post(CHAT, json=chat(stream=stream))
    told = (await client.get(LATENCY)).json()
    assert (told["first_token_ms"]["count"], told["gap_ms"]["count"]) == (1, 4)
    assert told["gap_ms"]["p50"] <= told["gap_ms"]["p95"] <= told["gap_ms"]["p99"]


@pytest.mark.parametrize("path", [LATENCY, "/admin/prefixes", "/admin/traces", "/admin/traces/x"])
async def test_a_key_is_wanted_for_what_the_page_shows(path):
    async with client_of(ScriptedEngine(), api_keys=("sesame",)) as guarded:
        assert (await guarded.get(path)).status_code == 401
