"""Anthropic's official client, whose types must know every field that it is sent."""

from __future__ import annotations

import anthropic
import httpx2
import pytest

from slipstream.contracts.delta import Delta, ToolDelta
from slipstream.contracts.errors import QueueFull, RowFault, Unavailable
from slipstream.contracts.row import FinishReason
from slipstream.serve.app import App
from slipstream.settings import Settings

from .official import strangers, strict
from .scripted import HELLO, MODEL, ScriptedEngine

pytestmark = pytest.mark.anyio

REQUEST = {"model": MODEL, "max_tokens": 32, "messages": [{"role": "user", "content": "Hi"}]}
TOOL = {
    "name": "look",
    "description": "Looks.",
    "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}},
}
CALLING = (
    Delta(reasoning="Hm.", tokens=1),
    Delta(text="I look.", tokens=1),
    Delta(calls=(ToolDelta(index=0, id="call_1", name="look"),), tokens=1),
    Delta(calls=(ToolDelta(index=0, arguments='{"at": "'),), tokens=1),
    Delta(calls=(ToolDelta(index=0, arguments='it"}'),), tokens=1),
    Delta(tokens=1, finish=FinishReason.TOOL_CALLS),
)


def client_of(engine, key="none", **flags):
    transport = httpx2.ASGITransport(App(engine, Settings(**flags)), raise_app_exceptions=False)
    return anthropic.AsyncAnthropic(
        base_url="http://test",
        api_key=key,
        max_retries=0,
        http_client=httpx2.AsyncClient(transport=transport, base_url="http://test"),
    )


@pytest.fixture
async def official(engine: ScriptedEngine):
    async with client_of(engine) as opened:
        yield opened


async def test_a_message(official):
    raw = await official.messages.with_raw_response.create(**REQUEST)
    body = strict(await raw.parse())
    assert body.content[0].text == "Hello 🙂!"
    assert body.stop_reason == "end_turn"
    assert body.slipstream["lane"] == "group"
    assert body._request_id == raw.headers["request-id"]


@pytest.mark.parametrize("script", [HELLO, CALLING])
async def test_a_stream_adds_up_to_the_message(official, engine, script):
    engine.script = script
    body = strict(await official.messages.create(**REQUEST))
    async with official.messages.stream(**REQUEST) as stream:
        events = [event async for event in stream]
        final = await stream.get_final_message()
    assert list(strangers(events)) == []
    assert [block.to_dict() for block in final.content] == [
        block.to_dict() for block in body.content
    ]
    assert (final.stop_reason, final.usage) == (body.stop_reason, body.usage)


async def test_a_round_trip_with_a_tool(official, engine):
    engine.script = CALLING
    asked = await official.messages.create(**REQUEST, tools=[TOOL])
    assert asked.stop_reason == "tool_use"
    call = asked.content[-1]
    assert (call.name, call.input) == ("look", {"at": "it"})
    engine.script = HELLO
    answer = {"type": "tool_result", "tool_use_id": call.id, "content": "There."}
    messages = [
        *REQUEST["messages"],
        {"role": "assistant", "content": asked.content},
        {"role": "user", "content": [answer]},
    ]
    body = await official.messages.create(**{**REQUEST, "messages": messages}, tools=[TOOL])
    assert body.slipstream["ignored"] == []
    said, result = engine.last.messages[1:]
    assert (said["content"], said["reasoning_content"]) == ("I look.", "Hm.")
    assert said["tool_calls"][0]["function"] == {"name": "look", "arguments": {"at": "it"}}
    assert result == {"role": "tool", "content": "There.", "tool_call_id": call.id}


async def test_a_beta_request_as_agents_send_it(official, engine):
    body = await official.beta.messages.create(
        **REQUEST,
        betas=["context-management-2025-06-27"],
        thinking={"type": "adaptive"},
        context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
        output_config={"effort": "high"},
    )
    strict(body)
    assert body.slipstream["ignored"] == ["context_management"]


async def test_tokens_are_counted(official):
    counted = strict(
        await official.messages.count_tokens(model=MODEL, messages=REQUEST["messages"])
    )
    assert counted.input_tokens == 2


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (QueueFull("Full."), anthropic.RateLimitError),
        (Unavailable("Draining."), anthropic.InternalServerError),
        (RowFault("step", "boom"), anthropic.InternalServerError),
    ],
)
async def test_refusals_raise_the_clients_own_classes(official, engine, refusal, expected):
    engine.refusal = refusal
    with pytest.raises(expected) as caught:
        await official.messages.create(**REQUEST)
    assert caught.value.body["error"]["message"] == refusal.message
    assert caught.value.request_id == caught.value.body["request_id"]


async def test_bad_requests_name_their_field(official):
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        await official.messages.create(**REQUEST, extra_body={"temperature": -1})
    with pytest.raises(anthropic.NotFoundError, match="gpt-4o"):
        await official.messages.create(**{**REQUEST, "model": "gpt-4o"})


async def test_a_fault_within_a_stream_raises(official, engine):
    engine.script = (Delta(text="a", tokens=1), RowFault("step", "boom"))
    stream = await official.messages.create(**REQUEST, stream=True)
    with pytest.raises(anthropic.APIError, match="boom"):
        async for _ in stream:
            pass


async def test_a_wrong_key_raises_the_clients_own_class():
    async with client_of(ScriptedEngine(), "wrong", api_keys=("right",)) as official:
        with pytest.raises(anthropic.AuthenticationError):
            await official.messages.create(**REQUEST)
