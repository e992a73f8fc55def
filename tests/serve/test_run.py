"""The life of a server: binding, loading, draining, the second signal."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from slipstream.contracts.delta import Delta
from slipstream.contracts.errors import ModelError
from slipstream.contracts.report import EngineStats, LaneStats
from slipstream.contracts.row import CancelReason, FinishReason
from slipstream.serve.run import bind, serve
from slipstream.settings import Settings

from .scripted import CHAT, MODEL, ScriptedEngine, chat, served, stop

pytestmark = pytest.mark.anyio

END = Delta(text="!", tokens=1, finish=FinishReason.STOP)


@pytest.fixture
def lines() -> asyncio.Queue[str]:
    return asyncio.Queue()


def started(engine, lines):
    return asyncio.create_task(serve(engine, Settings(port=0), announce=lines.put_nowait))


async def address(lines):
    return (await lines.get()).rpartition(" ")[2]


async def test_health_answers_while_the_model_loads(lines):
    engine = ScriptedEngine()
    engine.state = "loading"
    engine.loaded.clear()
    running = started(engine, lines)
    url = await address(lines)
    async with httpx.AsyncClient() as client:
        assert (await client.get(url + "/health")).status_code == 200
        assert (await client.get(url + "/ready")).status_code == 503
        assert (await client.post(url + CHAT, json=chat())).status_code == 503
        engine.loaded.set()
        assert await lines.get() == f"Ready: {MODEL} at {url}"
        assert (await client.get(url + "/ready")).status_code == 200
    stop()
    assert await running == 0


async def test_a_model_that_does_not_load_ends_the_server_with_one_line(lines, caplog):
    engine = ScriptedEngine()
    engine.load_error = ModelError("models/tiny has no config.json.")
    assert await started(engine, lines) == 1
    assert [record.message for record in caplog.records] == ["models/tiny has no config.json."]
    assert engine.drains


async def test_a_taken_port_ends_the_server_with_one_line(lines, caplog):
    engine = ScriptedEngine()
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        code = await serve(engine, Settings(port=port), announce=lines.put_nowait)
    assert code == 1
    assert len(caplog.records) == 1
    assert str(port) in caplog.text and "another --port" in caplog.text
    assert lines.empty()
    assert engine.drains == [0]


async def test_a_host_that_is_not_here_ends_the_server_with_one_line(lines, caplog):
    settings = Settings(host="203.0.113.1", port=0)
    assert await serve(ScriptedEngine(), settings, announce=lines.put_nowait) == 1
    assert len(caplog.records) == 1 and "--host" in caplog.text


async def test_a_signal_while_loading_ends_the_server_without_waiting_for_the_load(lines):
    engine = ScriptedEngine()
    engine.state = "loading"
    engine.loaded.clear()
    running = started(engine, lines)
    await address(lines)
    stop()
    assert await running == 0
    assert engine.drains == []


async def test_a_signal_lets_running_work_end(lines, caplog):
    go = asyncio.Event()
    engine = ScriptedEngine((go, END))
    engine.numbers = EngineStats(group=LaneStats(active=1))
    running = started(engine, lines)
    url = await address(lines)
    async with httpx.AsyncClient() as client:
        reply = asyncio.create_task(client.post(url + CHAT, json=chat()))
        await engine.submitted.wait()
        stop()
        await until_draining(engine)
        go.set()
        assert (await reply).status_code == 200
    assert await running == 0
    assert engine.drains == [Settings().limits.drain_timeout]
    assert caplog.records == []
    assert await lines.get() == f"Ready: {MODEL} at {url}"
    assert "1 running requests get 10 s" in await lines.get()


async def until_draining(engine):
    async with asyncio.timeout(5):
        await engine.closing.wait()


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_second_signal_cuts_running_work(lines, caplog, streamed):
    engine = ScriptedEngine((asyncio.Event(), END))
    running = started(engine, lines)
    url = await address(lines)
    async with httpx.AsyncClient() as client:
        reply = asyncio.create_task(client.post(url + CHAT, json=chat(stream=streamed)))
        await engine.submitted.wait()
        stop()
        await until_draining(engine)
        stop()
        answer = await reply
    assert engine.runnings[0].reason is CancelReason.SHUTDOWN
    assert answer.status_code == (200 if streamed else 503)
    assert "service_unavailable_error" in answer.text
    assert await running == 0
    assert caplog.records == []


async def test_a_client_that_does_not_read_cannot_hold_the_server(lines, caplog):
    engine = ScriptedEngine([*[Delta(text="x" * 100_000, tokens=1)] * 200, END])
    running = started(engine, lines)
    url = await address(lines)
    _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.transport.pause_reading()
    body = json.dumps(chat(stream=True)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    await engine.submitted.wait()
    stop()
    await until_draining(engine)
    stop()
    assert await running == 0
    assert caplog.records == []
    writer.close()


async def test_the_address_is_spoken_with_its_port():
    async with served(ScriptedEngine(), host="localhost") as url, httpx.AsyncClient() as client:
        assert not url.endswith(":0")
        assert (await client.get(url + "/health")).status_code == 200
