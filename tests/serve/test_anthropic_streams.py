"""Streams of the Messages API: their order, their fold, silence and errors."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.contracts.delta import Delta, ToolDelta
from slipstream.contracts.errors import RowFault
from slipstream.contracts.row import FinishReason

from .anthropic_events import MESSAGES, THOUGHTFUL, ask, checked, folded, parsed
from .scripted import HELLO, ScriptedEngine, client_of, served

pytestmark = pytest.mark.anyio


async def test_a_stream_has_the_published_order(client, engine):
    engine.script = THOUGHTFUL
    events = checked((await client.post(MESSAGES, json=ask(stream=True))).text)
    start = events[0]["message"]
    assert (start["content"], start["stop_reason"], start["stop_sequence"]) == ([], None, None)
    assert start["usage"]["input_tokens"] + start["usage"]["cache_read_input_tokens"] == 7
    told = [
        (event["index"], event.get("content_block") or event.get("delta"))
        for event in events
        if event["type"].startswith("content_block_") and event["type"] != "content_block_stop"
    ]
    signature = told[3][1]["signature"]
    assert told == [
        (0, {"type": "thinking", "thinking": "", "signature": ""}),
        (0, {"type": "thinking_delta", "thinking": "Hm"}),
        (0, {"type": "thinking_delta", "thinking": ", so."}),
        (0, {"type": "signature_delta", "signature": signature}),
        (1, {"type": "text", "text": ""}),
        (1, {"type": "text_delta", "text": "I look"}),
        (1, {"type": "text_delta", "text": "."}),
        (2, {"type": "tool_use", "id": "call_1", "name": "look", "input": {}}),
        (2, {"type": "input_json_delta", "partial_json": '{"at": '}),
        (2, {"type": "input_json_delta", "partial_json": '"it"}'}),
        (3, {"type": "tool_use", "id": "call_2", "name": "look", "input": {}}),
        (3, {"type": "input_json_delta", "partial_json": "{}"}),
    ]
    assert events[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}


PLAIN = st.builds(
    Delta, text=st.text(max_size=3), reasoning=st.text(max_size=3), tokens=st.integers(0, 3)
)


@st.composite
def scripts(draw):
    """Text, reasoning and whole calls in any order, each call cut anywhere."""
    made, number = [], 0
    for part in draw(st.lists(st.one_of(PLAIN, st.text(max_size=4)), max_size=6)):
        if isinstance(part, Delta):
            made.append(part)
            continue
        arguments = httpx.Response(200, json={"x": part}).text
        cut = draw(st.integers(0, len(arguments)))
        first = ToolDelta(index=number, id=f"c{number}", name="f", arguments=arguments[:cut])
        rest = ToolDelta(index=number, arguments=arguments[cut:])
        made += [Delta(calls=(first,), tokens=1), Delta(calls=(rest,), tokens=1)]
        number += 1
    finish = draw(st.sampled_from(FinishReason))
    stop = draw(st.sampled_from(["", "END"])) if finish is FinishReason.STOP else ""
    return [*made, Delta(tokens=1, finish=finish, stop=stop)]


@given(scripts())
@settings(max_examples=80, deadline=None)
async def test_the_fold_of_a_stream_is_the_whole_message(script):
    async with client_of(ScriptedEngine(script)) as client:
        whole = (await client.post(MESSAGES, json=ask())).json()
        events = checked((await client.post(MESSAGES, json=ask(stream=True))).text)
    assert {**folded(events), "id": ""} == {**whole, "id": ""}


async def test_silence_is_broken_by_pings_and_headers_come_first():
    go = asyncio.Event()
    engine = ScriptedEngine((go, *HELLO))
    text = ""
    async with (
        served(engine, keep_alive=0.01) as url,
        httpx.AsyncClient() as client,
        client.stream("POST", url + MESSAGES, json=ask(stream=True)) as reply,
    ):
        async for part in reply.aiter_text():
            text += part
            if text.count("event: ping") == 3:
                go.set()
    assert parsed(text)[0]["type"] == "message_start"
    assert parsed(text)[1] == {"type": "ping"}
    assert folded(checked(text))["content"] == [{"type": "text", "text": "Hello 🙂!"}]


async def test_an_error_after_the_status_is_the_last_event(client, engine):
    engine.script = (Delta(text="a", tokens=1), RowFault("sampler", "boom"))
    reply = await client.post(MESSAGES, json=ask(stream=True))
    *_, last = parsed(reply.text)
    assert last["type"] == "error"
    assert last["error"]["type"] == "api_error"
    assert "boom" in last["error"]["message"]
    assert last["request_id"] == reply.headers["request-id"]
