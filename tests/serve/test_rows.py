"""GET /admin/rows shows what waits and runs; DELETE ends it."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest

from slipstream.contracts.delta import Delta
from slipstream.contracts.report import EngineStats, RowReport, RowState
from slipstream.contracts.row import CancelReason

from .scripted import CHAT, COMPLETIONS, GROUP, SOLO, ScriptedEngine, chat, client_of, text

pytestmark = pytest.mark.anyio

ROWS = "/admin/rows"
WAITING = RowReport(choice=0, placement=SOLO, state=RowState.QUEUED, prompt_tokens=9)
DECODING = RowReport(
    choice=0,
    placement=GROUP,
    state=RowState.DECODE,
    prompt_tokens=7,
    computed=7,
    cached_tokens=3,
    generated=5,
)


@contextlib.asynccontextmanager
async def asked(client, engine, path=CHAT, body=None, **headers):
    """A request that goes on until it is ended, as a task."""
    engine.script = (Delta(text="a", tokens=1), asyncio.Event())
    engine.submitted.clear()
    task = asyncio.create_task(client.post(path, json=body or chat(), headers=headers))
    await engine.submitted.wait()
    await engine.runnings[-1].read.wait()
    try:
        yield task
    finally:
        for running in engine.runnings:
            running.cancel(CancelReason.SHUTDOWN)
        await task


async def rows(client):
    return (await client.get(ROWS)).json()["rows"]


async def test_nothing_runs_at_first(client):
    assert await rows(client) == []


async def test_a_row_shows_how_far_it_is(client, engine):
    async with asked(client, engine, **{"x-request-id": "mine"}):
        engine.runnings[0].rows = [DECODING]
        (row,) = await rows(client)
    assert row.pop("age_ms") >= 0
    assert row == {
        "id": "mine",
        "choice": 0,
        "lane": "group",
        "state": "decode",
        "prompt_tokens": 7,
        "computed": 7,
        "cached_tokens": 3,
        "generated": 5,
        "reasons": [],
    }


async def test_a_waiter_shows_its_lane_and_why(client, engine):
    async with asked(client, engine):
        engine.runnings[0].rows = [WAITING]
        (row,) = await rows(client)
    assert (row["state"], row["lane"], row["reasons"]) == ("queued", "solo", ["lane_requested"])


async def test_choices_are_numbered_over_all_prompts_of_a_request(client, engine):
    async with asked(client, engine, COMPLETIONS, text(prompt=["a", "b"], n=2)):
        engine.runnings[0].rows = [replace(DECODING, choice=1)]  # the first has ended
        engine.runnings[1].rows = [DECODING, replace(DECODING, choice=1)]
        assert [row["choice"] for row in await rows(client)] == [1, 2, 3]


async def test_rows_are_parked_while_a_job_has_the_device(client, engine):
    engine.numbers = EngineStats(lease_held_by="load")
    async with asked(client, engine):
        engine.runnings[0].rows = [DECODING, WAITING]
        assert [row["state"] for row in await rows(client)] == ["parked", "queued"]


async def test_a_deleted_request_ends_and_is_not_tried_again(client, engine):
    async with asked(client, engine, **{"x-request-id": "mine"}) as task:
        reply = await client.delete(f"{ROWS}/mine")
        assert reply.json() == {"id": "mine", "cancelled": 1}
        await task
        assert engine.runnings[0].reason is CancelReason.OPERATOR
        assert await rows(client) == []


async def test_only_the_named_request_ends(client, engine):
    async with (
        asked(client, engine, **{"x-request-id": "a"}),
        asked(client, engine, **{"x-request-id": "b/c?"}),
    ):
        assert (await client.delete(f"{ROWS}/b%2Fc%3F")).status_code == 200
        assert [one.reason for one in engine.runnings] == [None, CancelReason.OPERATOR]


async def test_what_does_not_run_cannot_be_ended(client):
    reply = await client.delete(f"{ROWS}/absent")
    assert reply.status_code == 404
    assert reply.json()["error"]["code"] == "not_found"


async def test_rows_need_a_key():
    async with client_of(ScriptedEngine(), api_keys=("right",)) as client:
        assert (await client.get(ROWS)).status_code == 401
        assert (await client.delete(f"{ROWS}/a")).status_code == 401
