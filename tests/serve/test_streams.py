"""Streams: order, folds, errors, silence, and clients that leave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.contracts.delta import Delta
from slipstream.contracts.errors import Cancelled, OutOfTime, RowFault
from slipstream.contracts.row import CancelReason, FinishReason

from .scripted import (
    CHAT,
    COMPLETIONS,
    HELLO,
    ScriptedEngine,
    chat,
    chunks,
    client_of,
    events,
    logprob,
    served,
    text,
)

pytestmark = pytest.mark.anyio

USAGE = {"include_usage": True}
END = Delta(text="!", tokens=1, finish=FinishReason.STOP)


async def test_a_chat_stream_has_the_published_order(client):
    reply = await client.post(CHAT, json=chat(stream=True))
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert "no-cache" in reply.headers["cache-control"]
    assert reply.headers["x-slipstream-lane"] == "group"
    assert reply.headers["x-slipstream-reasons"] == ""
    got = chunks(reply.text)
    assert {chunk["object"] for chunk in got} == {"chat.completion.chunk"}
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in got}) == 1
    choices = [chunk["choices"][0] for chunk in got]
    assert [(choice["delta"], choice["finish_reason"]) for choice in choices] == [
        ({"role": "assistant", "content": ""}, None),
        ({"content": "Hel"}, None),
        ({"content": "lo 🙂"}, None),
        ({"content": "!"}, "stop"),
    ]
    assert not any("usage" in chunk for chunk in got)


async def test_a_text_stream_has_the_published_order(client):
    got = chunks((await client.post(COMPLETIONS, json=text(stream=True))).text)
    assert {chunk["object"] for chunk in got} == {"text_completion"}
    assert [(c["choices"][0]["text"], c["choices"][0]["finish_reason"]) for c in got] == [
        ("Hel", None),
        ("lo 🙂", None),
        ("!", "stop"),
    ]


@pytest.mark.parametrize(("route", "body"), [(CHAT, chat), (COMPLETIONS, text)])
async def test_usage_is_one_last_chunk_without_choices(client, route, body):
    whole = (await client.post(route, json=body())).json()
    reply = await client.post(route, json=body(stream=True, stream_options=USAGE))
    *others, last = chunks(reply.text)
    assert all(chunk["choices"] and chunk["usage"] is None for chunk in others)
    assert last["choices"] == []
    assert last["usage"] == whole["usage"]
    assert last["slipstream"] == whole["slipstream"]


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"include_usage": None}])
async def test_no_usage_unless_it_is_asked_for(client, options):
    got = chunks((await client.post(CHAT, json=chat(stream=True, stream_options=options))).text)
    assert all(chunk["choices"] and "usage" not in chunk for chunk in got)


def folded(got):
    """What a whole reply would say."""
    text = reasoning = ""
    entries, finish, usage = [], None, None
    for chunk in got:
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            assert finish is None
            text += choice["delta"].get("content", "")
            reasoning += choice["delta"].get("reasoning_content", "")
            entries += (choice["logprobs"] or {"content": []})["content"]
            finish = choice["finish_reason"]
    return text, reasoning, entries, finish, usage


pieces = st.builds(
    Delta,
    text=st.text(max_size=3),
    reasoning=st.text(max_size=3),
    tokens=st.integers(0, 3),
    logprobs=st.lists(
        st.builds(logprob, st.text(min_size=1, max_size=2), st.floats(-9, 0)), max_size=2
    ).map(tuple),
)


@given(st.lists(pieces, max_size=6), st.sampled_from(FinishReason))
@settings(max_examples=60, deadline=None)
async def test_the_fold_of_a_stream_is_the_whole_reply(script, finish):
    engine = ScriptedEngine([*script, Delta(tokens=1, finish=finish)])
    body = chat(logprobs=True)
    async with client_of(engine) as client:
        whole = (await client.post(CHAT, json=body)).json()
        reply = await client.post(CHAT, json={**body, "stream": True, "stream_options": USAGE})
    choice = whole["choices"][0]
    assert folded(chunks(reply.text)) == (
        choice["message"]["content"],
        choice["message"].get("reasoning_content", ""),
        choice["logprobs"]["content"],
        choice["finish_reason"],
        whole["usage"],
    )


async def test_an_error_after_the_status_is_the_last_event(client, engine):
    engine.script = (Delta(text="a", tokens=1), RowFault("sampler", "boom"))
    reply = await client.post(CHAT, json=chat(stream=True))
    assert reply.status_code == 200
    *_, last = events(reply.text)
    error = json.loads(last)["error"]
    assert (error["type"], error["code"], error["param"]) == ("server_error", "row_fault", None)
    assert "boom" in error["message"]
    assert "[DONE]" not in reply.text


async def test_the_same_error_of_a_whole_reply_is_a_status(client, engine):
    engine.script = (Delta(text="a", tokens=1), RowFault("sampler", "boom"))
    reply = await client.post(CHAT, json=chat())
    assert reply.status_code == 500
    assert reply.json()["error"]["code"] == "row_fault"


async def test_a_request_that_mostly_waited_may_be_sent_again(client, engine):
    engine.script = (Cancelled(CancelReason.DEADLINE, "It waited; try again later."),)
    reply = await client.post(CHAT, json=chat())
    assert reply.status_code == 503
    assert "retry-after" in reply.headers


async def test_a_request_that_ran_out_of_time_is_not_worth_a_retry(client, engine):
    engine.script = (OutOfTime(CancelReason.DEADLINE, "Too slow; raise --request-timeout."),)
    reply = await client.post(CHAT, json=chat())
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == "deadline_exceeded"
    assert "retry-after" not in reply.headers


async def test_one_failing_prompt_ends_its_siblings(client, engine):
    forever = asyncio.Event()
    scripts = iter([(forever,), (RowFault("step", "boom"),)])
    submit = engine.submit

    async def scripted(completion):
        engine.script = next(scripts)
        return await submit(completion)

    engine.submit = scripted
    reply = await client.post(COMPLETIONS, json=text(prompt=["a", "b"]))
    assert reply.status_code == 500
    assert engine.runnings[0].reason is CancelReason.DISCONNECT


@contextlib.asynccontextmanager
async def opened(url):
    """A streamed chat whose headers have arrived."""
    body = chat(stream=True)
    async with httpx.AsyncClient() as client, client.stream("POST", url + CHAT, json=body) as reply:
        yield reply


async def test_silence_is_broken_by_comments_from_the_headers_on():
    go = asyncio.Event()
    engine = ScriptedEngine((go, *HELLO))
    async with served(engine, keep_alive=0.01) as url, opened(url) as reply:
        lines = [line async for line in first_lines(reply, 3, go)]
    assert lines[:3] == [": keep-alive"] * 3
    assert lines[-1] == "data: [DONE]"


async def first_lines(reply, count, then):
    """The lines of a stream; sets `then` after `count` of them."""
    async for line in reply.aiter_lines():
        if line:
            yield line
            count -= 1
            if count == 0:
                then.set()


async def test_headers_come_before_the_first_token():
    go = asyncio.Event()
    engine = ScriptedEngine((go, END))
    async with served(engine) as url, opened(url) as reply:
        assert reply.headers["x-slipstream-lane"] == "group"
        go.set()
        assert (await reply.aread()).endswith(b"data: [DONE]\n\n")


async def test_a_stream_that_talks_has_no_comments():
    engine = ScriptedEngine(HELLO)
    async with served(engine) as url, httpx.AsyncClient() as client:
        reply = await client.post(url + CHAT, json=chat(stream=True))
    assert not any(line.startswith(":") for line in reply.text.splitlines())


def close(writer):
    writer.close()


def reset(writer):
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


def half_close(writer):
    writer.write_eof()


@pytest.mark.parametrize("leave", [close, reset, half_close])
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("begun", [True, False])
async def test_a_client_that_leaves_ends_its_work(leave, streamed, begun):
    first = (Delta(text="a", tokens=1),) if begun else ()
    engine = ScriptedEngine((*first, asyncio.Event(), END))
    async with served(engine) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        body = json.dumps(chat(stream=streamed)).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        if streamed:
            await reader.readuntil(b"\r\n\r\n")
        else:
            await engine.submitted.wait()
        leave(writer)
        await asyncio.wait_for(engine.runnings[0].cancelled.wait(), timeout=5)
        assert engine.runnings[0].reason is CancelReason.DISCONNECT
        writer.close()


async def test_a_client_that_leaves_while_its_grammar_compiles_starts_nothing():
    engine = ScriptedEngine()
    engine.compiled.clear()
    async with served(engine) as url:
        async with httpx.AsyncClient() as client:
            asking = asyncio.create_task(client.post(url + CHAT, json=chat()))
            await engine.asked.wait()
            asking.cancel()
            await asyncio.wait([asking])
        await asyncio.wait_for(engine.given_up.wait(), timeout=5)
        engine.compiled.set()
    assert engine.runnings == []
