"""The Messages API: what a body becomes, and what comes back."""

from __future__ import annotations

import pytest

from slipstream.contracts.completion import GrammarText, ToolChoice, ToolMode
from slipstream.contracts.delta import Delta, ToolDelta
from slipstream.contracts.errors import (
    ContextExceeded,
    Fault,
    InvalidRequest,
    QueueFull,
    Unavailable,
)
from slipstream.contracts.row import FinishReason

from .anthropic_events import COUNT, MESSAGES, THOUGHTFUL, ask, checked, folded
from .scripted import MODEL, client_of

pytestmark = pytest.mark.anyio

TOOL = {
    "name": "look",
    "description": "Looks.",
    "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}},
}


async def accepted(client, engine, **fields):
    reply = await client.post(MESSAGES, json=ask(**fields))
    assert reply.status_code == 200, reply.text
    return engine.last, reply.json()


async def test_a_message_has_the_published_literals(client):
    body = (await client.post(MESSAGES, json=ask())).json()
    assert body.pop("id").startswith("msg_")
    assert body.pop("slipstream")["lane"] == "group"
    assert body == {
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [{"type": "text", "text": "Hello 🙂!"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 4,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 3,
            "output_tokens": 5,
            "output_tokens_details": {"thinking_tokens": 0},
        },
    }


async def test_headers_carry_both_request_ids_and_the_placement(client):
    headers = (await client.post(MESSAGES, json=ask(), headers={"x-request-id": "mine"})).headers
    assert headers["request-id"] == headers["x-request-id"] == "mine"
    assert (headers["x-slipstream-lane"], headers["x-slipstream-reasons"]) == ("group", "")


async def test_thinking_text_and_calls_become_blocks(client, engine):
    engine.script = THOUGHTFUL
    body = (await client.post(MESSAGES, json=ask())).json()
    thinking, *others = body["content"]
    assert (thinking["type"], thinking["thinking"]) == ("thinking", "Hm, so.")
    assert thinking["signature"]
    assert others == [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "call_1", "name": "look", "input": {"at": "it"}},
        {"type": "tool_use", "id": "call_2", "name": "look", "input": {}},
    ]
    assert body["stop_reason"] == "tool_use"
    assert body["usage"]["output_tokens_details"] == {"thinking_tokens": 2}


@pytest.mark.parametrize(
    ("finish", "stop", "told"),
    [
        (FinishReason.STOP, "", ("end_turn", None)),
        (FinishReason.LENGTH, "", ("max_tokens", None)),
        (FinishReason.STOP, "END", ("stop_sequence", "END")),
        (FinishReason.TOOL_CALLS, "", ("tool_use", None)),
    ],
)
async def test_each_end_has_its_reason(client, engine, finish, stop, told):
    engine.script = (Delta(text="a", tokens=1, finish=finish, stop=stop),)
    _, body = await accepted(client, engine)
    assert (body["stop_reason"], body["stop_sequence"]) == told


async def test_an_answer_without_anything_has_no_blocks(client, engine):
    engine.script = (Delta(tokens=1, finish=FinishReason.STOP),)
    _, body = await accepted(client, engine)
    assert body["content"] == []
    assert len(checked((await client.post(MESSAGES, json=ask(stream=True))).text)) == 3


async def test_a_call_that_is_cut_off_has_no_input(client, engine):
    cut = ToolDelta(index=0, id="call_1", name="look", arguments='{"at": "i')
    engine.script = (Delta(calls=(cut,), tokens=9, finish=FinishReason.LENGTH),)
    _, body = await accepted(client, engine)
    assert body["content"] == [{"type": "tool_use", "id": "call_1", "name": "look", "input": {}}]
    assert body["stop_reason"] == "max_tokens"


async def test_thinking_may_be_left_out_but_for_its_block(client, engine):
    engine.script = THOUGHTFUL
    thinking = {"type": "adaptive", "display": "omitted"}
    _, body = await accepted(client, engine, thinking=thinking)
    assert body["content"][0]["thinking"] == ""
    assert body["content"][0]["signature"]
    reply = await client.post(MESSAGES, json=ask(thinking=thinking, stream=True))
    assert folded(checked(reply.text))["content"] == body["content"]


@pytest.mark.parametrize(
    ("refusal", "status", "kind"),
    [
        (InvalidRequest("No.", param="x"), 400, "invalid_request_error"),
        (QueueFull("Full."), 429, "rate_limit_error"),
        (Unavailable("Draining."), 503, "overloaded_error"),
        (Fault("Boom."), 500, "api_error"),
    ],
)
async def test_errors_have_anthropics_shape(client, engine, refusal, status, kind):
    engine.refusal = refusal
    for body in (ask(), ask(stream=True)):
        reply = await client.post(MESSAGES, json=body)
        assert reply.status_code == status
        error = {"type": kind, "message": refusal.message}
        error |= {"param": refusal.param} if refusal.param else {}
        request_id = reply.headers["request-id"]
        assert reply.json() == {"type": "error", "error": error, "request_id": request_id}


async def test_a_long_prompt_is_refused_in_the_words_that_agents_look_for(client, engine):
    engine.refusal = ContextExceeded(5000, 4096, param="messages")
    error = (await client.post(MESSAGES, json=ask())).json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"] == "prompt is too long: 5000 tokens > 4096 maximum"


async def test_doors_answer_in_anthropics_shape(engine):
    async with client_of(engine, api_keys=("right",), max_body=0.001) as client:
        wrong = await client.post(MESSAGES, json=ask(), headers={"x-api-key": "wrong"})
        key = {"x-api-key": "right", "anthropic-version": "2023-06-01", "anthropic-beta": "a,b"}
        assert (await client.post(MESSAGES, json=ask(), headers=key)).status_code == 200
        large = await client.post(MESSAGES, json=ask(system="x" * 2000), headers=key)
        unknown = await client.post(MESSAGES, json=ask(model="gpt-4o"), headers=key)
        method = await client.get(MESSAGES, headers=key)
    told = [
        (reply.status_code, reply.json()["error"]["type"])
        for reply in (wrong, large, unknown, method)
    ]
    assert told == [
        (401, "authentication_error"),
        (413, "request_too_large"),
        (404, "not_found_error"),
        (405, "invalid_request_error"),
    ]


async def test_every_field_arrives(client, engine):
    completion, body = await accepted(
        client,
        engine,
        max_tokens=32000,
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        stop_sequences=["a", "b"],
        seed=7,
        lane="solo",
        priority=-1,
        cache_salt="tenant",
        service_tier="auto",
        cache_control={"type": "ephemeral", "ttl": "1h"},
        output_config={"effort": "low", "format": {"type": "json_schema", "schema": {"a": 1}}},
        chat_template_kwargs={"x": 1},
        thinking={"type": "disabled"},
    )
    assert completion.max_tokens == 32000
    assert completion.sampling == {"temperature": 0.5, "top_p": 0.9, "top_k": 40, "seed": 7}
    assert completion.stop == ("a", "b")
    assert (completion.lane, completion.priority, completion.cache_salt) == ("solo", -1, "tenant")
    assert completion.grammar == GrammarText("json_schema", '{"a":1}', "output_config.format")
    kwargs = {"enable_thinking": False, "reasoning_effort": "low", "x": 1}
    assert completion.template_kwargs == kwargs
    assert body["slipstream"]["ignored"] == []


@pytest.mark.parametrize(
    ("thinking", "expected", "ignored"),
    [
        (None, {}, []),
        ({"type": "adaptive"}, {"enable_thinking": True}, []),
        (
            {"type": "enabled", "budget_tokens": 1024},
            {"enable_thinking": True, "thinking_budget": 1024},
            ["thinking.budget_tokens"],
        ),
        ({"type": "disabled"}, {"enable_thinking": False}, []),
    ],
)
async def test_thinking_is_a_matter_of_the_template(client, engine, thinking, expected, ignored):
    completion, body = await accepted(client, engine, thinking=thinking)
    assert completion.template_kwargs == expected
    assert body["slipstream"]["ignored"] == ignored


async def test_tools_reach_the_template_in_its_own_shape(client, engine):
    tools = [{**TOOL, "type": "custom", "cache_control": {"type": "ephemeral"}, "strict": True}]
    completion, body = await accepted(client, engine, tools=tools)
    function = {
        "name": "look",
        "description": "Looks.",
        "parameters": TOOL["input_schema"],
        "strict": True,
    }
    assert completion.tools == ({"type": "function", "function": function},)
    assert completion.tool_choice == ToolChoice()
    assert body["slipstream"]["ignored"] == []


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, ToolChoice()),
        ({"type": "none"}, ToolChoice(mode=ToolMode.NONE)),
        (
            {"type": "any", "disable_parallel_tool_use": True},
            ToolChoice(mode=ToolMode.REQUIRED, parallel=False),
        ),
        ({"type": "tool", "name": "look"}, ToolChoice(mode=ToolMode.NAMED, name="look")),
    ],
)
async def test_a_tool_choice_has_four_kinds(client, engine, choice, expected):
    completion, _ = await accepted(client, engine, tools=[TOOL], tool_choice=choice)
    assert completion.tool_choice == expected


async def test_what_changes_nothing_is_declared(client, engine):
    completion, body = await accepted(
        client,
        engine,
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "a", "citations": []}]},
            {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]},
            {"role": "user", "content": "b"},
        ],
        tools=[{"type": "web_search_20250305", "name": "web_search", "max_uses": 5}],
        metadata={"user_id": "me"},
        context_management={"edits": []},
        foo=None,
    )
    assert completion.tools == ()
    assert body["slipstream"]["ignored"] == [
        "messages[].content[].citations",
        "messages[].content[].data",
        "tools[].max_uses",
        "metadata",
        "context_management",
        "tools[web_search_20250305]",
    ]


@pytest.mark.parametrize(
    "fields",
    [{"metadata": {}}, {"tools": [{"type": "bash_20250124", "name": "bash"}]}, {"foo": 1}],
)
async def test_strict_refuses_what_would_be_declared(engine, fields):
    async with client_of(engine, strict=True) as client:
        assert (await client.post(MESSAGES, json=ask())).status_code == 200
        reply = await client.post(MESSAGES, json=ask(**fields))
    assert reply.status_code == 400
    assert next(iter(fields)) in reply.json()["error"]["message"]


async def test_tokens_are_counted_without_running_anything(client, engine):
    body = ask(system="Be brief.", tools=[TOOL], thinking={"type": "adaptive"})
    del body["max_tokens"]
    reply = await client.post(COUNT, json=body)
    assert reply.json() == {"input_tokens": len("Be brief.Hi")}
    assert engine.runnings == []
    await client.post(MESSAGES, json={**body, "max_tokens": 5})
    (counted,) = engine.counted
    run = engine.last
    assert (counted.messages, counted.tools) == (run.messages, run.tools)
    assert counted.template_kwargs == run.template_kwargs


async def test_counting_declares_and_refuses_too(client):
    assert (await client.post(COUNT, json=ask(foo=1))).json()["slipstream"] == {
        "ignored": ["max_tokens", "foo"]
    }
    reply = await client.post(COUNT, json={"messages": []})
    assert (reply.status_code, reply.json()["type"]) == (400, "error")


CLAUDE_CODE_TOOLS = [{**TOOL, "name": f"Tool_{n}"} for n in range(24)]


async def test_claude_code_on_the_wire(engine):
    async with client_of(engine, served_names=("claude-*",)) as client:
        assert (await client.head("/")).status_code in (200, 404)
        body = ask(
            model="claude-sonnet-4-5",
            max_tokens=32000,
            system=[
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=2; cch=77a;"},
                {"type": "text", "text": "You are.", "cache_control": {"type": "ephemeral"}},
            ],
            tools=CLAUDE_CODE_TOOLS,
            thinking={"type": "adaptive"},
            context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            output_config={"effort": "high"},
            metadata={"user_id": "user_x"},
            stream=True,
        )
        headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219"}
        reply = await client.post(MESSAGES + "?beta=true", json=body, headers=headers)
    events = checked(reply.text)
    assert events[0]["message"]["model"] == "claude-sonnet-4-5"
    assert events[-2]["slipstream"]["ignored"] == ["context_management", "metadata"]
    texts = [part["text"] for part in engine.last.messages[0]["content"]]
    assert texts == ["x-anthropic-billing-header: cc_version=2; cch=77a;", "You are."]
    assert len(engine.last.tools) == 24
