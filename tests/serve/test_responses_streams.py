"""Responses as streams: the order of events, and that they add up to the plain reply."""

from __future__ import annotations

import asyncio

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.contracts.delta import Delta, ToolDelta
from slipstream.contracts.errors import InvalidRequest, OverBudget, RowFault
from slipstream.contracts.row import FinishReason

from .official import strict
from .response_events import RESPONSES, checked, folded, streamed, timeless, told
from .scripted import HELLO, MODEL, ScriptedEngine, client_of, logprob, served
from .test_responses import CALLS, WEATHER

pytestmark = pytest.mark.anyio

PATCH = {"type": "custom", "name": "patch"}
SCORED = {"include": ["message.output_text.logprobs"], "top_logprobs": 1}
BODY = {"input": "Hi", "tools": [WEATHER, PATCH], **SCORED}
PATCHED = Delta(
    calls=(
        ToolDelta(index=0, id="c1", name="patch", arguments='{"input":'),
        ToolDelta(index=0, arguments='"a\\nb"}'),
    ),
    tokens=2,
)

OPEN_FIELDS = {
    *("id", "object", "created_at", "completed_at", "status", "incomplete_details", "model"),
    *("previous_response_id", "instructions", "output", "error", "tools", "tool_choice"),
    *("truncation", "parallel_tool_calls", "text", "top_p", "presence_penalty"),
    *("frequency_penalty", "top_logprobs", "temperature", "reasoning", "usage"),
    *("max_output_tokens", "max_tool_calls", "store", "background", "service_tier", "metadata"),
    *("safety_identifier", "prompt_cache_key"),
}
"""What the Open Responses specification (2026-04-24) requires of every response object."""


async def both(client, **fields):
    """The events of the stream, and the plain reply."""
    plain = await client.post(RESPONSES, json={**BODY, **fields})
    stream = await client.post(RESPONSES, json={**BODY, **fields, "stream": True})
    assert plain.status_code == stream.status_code == 200
    return checked(streamed(stream.text)), plain.json()


@pytest.mark.parametrize(
    "script",
    [
        HELLO,
        CALLS,
        (PATCHED, Delta(text="Done.", tokens=1, finish=FinishReason.TOOL_CALLS)),
        (Delta(tokens=1, finish=FinishReason.STOP),),
        (*CALLS[:3], Delta(finish=FinishReason.LENGTH)),
        (Delta(text="a", tokens=1, logprobs=(logprob("a", -1, ("b", -2)),)), *HELLO),
    ],
)
async def test_a_stream_adds_up_to_the_plain_reply(client, engine, script):
    engine.script = script
    events, plain = await both(client)
    assert timeless(events[-1]["response"]) == timeless(plain)
    assert folded(events) == [told(item) for item in plain["output"]]


words = st.sampled_from(["", "a", "é🙂", " \n", "{"])
calls = st.builds(
    lambda numbers: tuple(
        ToolDelta(index=n, id=f"call_{n}", name="weather", arguments=f'{{"n":{n}}}')
        for n in range(numbers)
    ),
    st.integers(0, 2),
)
pieces = st.builds(
    lambda text, reasoning, scores: Delta(
        text=text, reasoning=reasoning, tokens=1, logprobs=(logprob("x"),) * scores
    ),
    words,
    words,
    st.integers(0, 2),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(pieces, max_size=8), calls, st.lists(pieces, max_size=3), st.sampled_from(FinishReason)
)
def test_any_script_folds(before, called, after, finish):
    async def told_both_ways():
        ending = Delta(tokens=1, finish=finish)
        engine = ScriptedEngine((*before, Delta(calls=called, tokens=1), *after, ending))
        async with client_of(engine) as client:
            return await both(client)

    events, plain = asyncio.run(told_both_ways())
    assert timeless(events[-1]["response"]) == timeless(plain)
    assert folded(events) == [told(item) for item in plain["output"]]


async def test_every_response_object_has_what_the_specification_requires(client, engine):
    client.headers["OpenResponses-Version"] = "latest"
    engine.script = (*HELLO[:2], RowFault("step", "boom"))
    broken = await client.post(RESPONSES, json={**BODY, "stream": True})
    engine.script = HELLO
    events, plain = await both(client)
    told = [one["response"] for one in (*events, *streamed(broken.text)) if "response" in one]
    assert len(told) == 6
    assert [OPEN_FIELDS - one.keys() for one in (plain, *told)] == [set()] * 7


async def test_the_last_event_is_named_for_the_end(client, engine):
    events, _ = await both(client)
    assert events[-1]["type"] == "response.completed"
    engine.script = (Delta(text="a", tokens=1, finish=FinishReason.LENGTH),)
    events, _ = await both(client)
    assert events[-1]["type"] == "response.incomplete"


UNREADABLE = Delta(calls=None)


@pytest.mark.parametrize("before", [(), (Delta(text="a", tokens=1),), CALLS[:3]])
@pytest.mark.parametrize("last", [RowFault("step", "boom"), UNREADABLE])
async def test_a_fault_fails_the_response(client, engine, before, last, caplog):
    engine.script = (*before, last)
    reply = await client.post(RESPONSES, json={**BODY, "stream": True})
    end = checked(streamed(reply.text))[-1]
    assert end["type"] == "response.failed"
    assert end["response"]["status"] == "failed"
    assert end["response"]["error"]["code"] == "server_error"
    assert ("boom" in end["response"]["error"]["message"]) == (last is not UNREADABLE)


async def test_a_stream_says_whether_another_try_can_help(client, engine):
    engine.script = (OverBudget("3 GB of 2 GB.", param="max_tokens"),)
    reply = await client.post(RESPONSES, json={**BODY, "stream": True})
    end = checked(streamed(reply.text))[-1]
    assert end["response"]["error"] == {"code": "invalid_prompt", "message": "3 GB of 2 GB."}


async def test_a_failed_response_is_not_stored(client, engine):
    engine.script = (RowFault("step", "boom"),)
    reply = await client.post(RESPONSES, json={"input": "Hi", "stream": True})
    name = streamed(reply.text)[-1]["response"]["id"]
    assert (await client.get(f"{RESPONSES}/{name}")).status_code == 404


async def test_a_refusal_comes_before_the_stream(client, engine):
    engine.refusal = InvalidRequest("x", param="input")
    reply = await client.post(RESPONSES, json={"input": "Hi", "stream": True})
    assert reply.status_code == 400
    assert reply.headers["content-type"] == "application/json"


async def test_a_silent_stream_is_kept_alive():
    go = asyncio.Event()
    engine = ScriptedEngine((go, *HELLO))
    async with (
        served(engine, keep_alive=0.01) as url,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as official,
    ):
        stream = await official.responses.create(model=MODEL, input="Hi", stream=True)
        kinds = []
        async for event in stream:
            kinds.append(event.type)
            go.set()
    assert kinds[-1] == "response.completed"


@pytest.fixture
async def official(engine):
    async with client_of(engine) as transport:
        yield openai.AsyncOpenAI(
            base_url="http://test/v1", api_key="none", max_retries=0, http_client=transport
        )


ASKED = {"model": MODEL, "input": "Hi", **SCORED}


async def test_the_official_client_reads_a_response(official):
    body = strict(await official.responses.create(**ASKED))
    assert body.output_text == "Hello 🙂!"
    assert body.slipstream["lane"] == "group"
    again = strict(await official.responses.retrieve(body.id))
    assert again.output == body.output
    [item] = [strict(one) async for one in official.responses.input_items.list(body.id)]
    assert item.content[0].text == "Hi"
    await official.responses.delete(body.id)
    with pytest.raises(openai.NotFoundError):
        await official.responses.retrieve(body.id)


@pytest.mark.parametrize("script", [HELLO, CALLS])
async def test_the_official_client_reads_a_stream(official, engine, script):
    engine.script = script
    tools = [{**WEATHER, "strict": False}]
    body = strict(await official.responses.create(**ASKED, tools=tools))
    stream = await official.responses.create(**ASKED, tools=tools, stream=True)
    events = [strict(event) async for event in stream]
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert text == body.output_text
    assert events[-1].response.usage == body.usage


async def test_the_official_client_gathers_a_stream_itself(official, engine):
    engine.script = CALLS
    tools = [{**WEATHER, "strict": False}]
    async with official.responses.stream(**ASKED, tools=tools) as stream:
        async for _ in stream:
            pass
        final = await stream.get_final_response()
    assert [item.type for item in final.output][-1] == "function_call"
    assert final.output_text == "Let me look."


async def test_the_official_client_parses_structured_output(official, engine):
    from pydantic import BaseModel

    class City(BaseModel):
        name: str

    engine.script = (Delta(text='{"name": "Rome"}', tokens=5, finish=FinishReason.STOP),)
    parsed = await official.responses.parse(model=MODEL, input="Hi", text_format=City)
    assert parsed.output_parsed == City(name="Rome")
    assert engine.last.grammar.kind == "json_schema"


async def test_the_official_client_goes_on_with_a_tools_result(official, engine):
    engine.script = CALLS
    first = await official.responses.create(**ASKED, tools=[WEATHER])
    call = next(item for item in first.output if item.type == "function_call")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "Sun"}
    engine.script = HELLO
    fields = {"model": MODEL, "input": [result], "previous_response_id": first.id}
    assert (await official.responses.create(**fields)).output_text == "Hello 🙂!"
    assert engine.last.messages[-1]["role"] == "tool"


async def test_the_official_client_raises_for_a_bad_field(official):
    with pytest.raises(openai.BadRequestError) as caught:
        await official.responses.create(**ASKED, temperature=-1)
    assert caught.value.param == "temperature"
