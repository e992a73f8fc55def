"""Responses: what a body becomes, and what comes back."""

from __future__ import annotations

import json

import pytest

from slipstream.contracts.completion import GrammarText, ToolChoice, ToolMode
from slipstream.contracts.delta import Delta, ToolDelta
from slipstream.contracts.row import FinishReason

from .response_events import RESPONSES
from .scripted import CHAT, MODEL, client_of, logprob

pytestmark = pytest.mark.anyio

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"type": "function", "name": "weather", "description": "w", "parameters": PARAMETERS}
CALLS = (
    Delta(reasoning="Hm.", tokens=2, reasoning_tokens=2),
    Delta(text="Let me look.", tokens=3),
    Delta(calls=(ToolDelta(index=0, id="call_a", name="weather", arguments='{"ci'),), tokens=1),
    Delta(calls=(ToolDelta(index=0, arguments='ty":"Rome"}'),), tokens=2),
    Delta(
        calls=(ToolDelta(index=1, id="call_b", name="weather", arguments="{}"),),
        tokens=1,
        finish=FinishReason.TOOL_CALLS,
    ),
)


async def accepted(client, engine, **fields):
    reply = await client.post(RESPONSES, json={"input": "Hi", **fields})
    assert reply.status_code == 200, reply.text
    return engine.last, reply.json()


async def test_a_body_has_the_published_literals(client):
    body = (await client.post(RESPONSES, json={"input": "Hi"})).json()
    assert body["object"] == "response" and body["id"].startswith("resp_")
    assert (body["status"], body["error"], body["incomplete_details"]) == ("completed", None, None)
    assert body["model"] == MODEL
    assert isinstance(body["created_at"], int) and body["completed_at"] >= body["created_at"]
    [message] = body["output"]
    assert message.pop("id").startswith("msg_")
    part = {"type": "output_text", "text": "Hello 🙂!", "annotations": [], "logprobs": []}
    assert message == {
        "type": "message",
        "role": "assistant",
        "content": [part],
        "status": "completed",
    }


async def test_usage_adds_up(client):
    assert (await client.post(RESPONSES, json={"input": "Hi"})).json()["usage"] == {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 12,
    }


async def test_a_body_says_how_its_tokens_were_drawn(client, engine):
    _, body = await accepted(client, engine, presence_penalty=1.5)
    assert (body["temperature"], body["top_p"]) == (0.7, 0.9)
    assert "presence_penalty" not in body  # the official client's types have none


async def test_penalties_are_told_to_whoever_reads_open_responses(client, engine):
    client.headers["OpenResponses-Version"] = "latest"
    _, body = await accepted(client, engine, presence_penalty=1.5)
    assert (body["presence_penalty"], body["frequency_penalty"]) == (1.5, 0.0)


@pytest.mark.parametrize("store", [None, True, False])
async def test_a_body_says_whether_it_was_stored(client, engine, store):
    client.headers["OpenResponses-Version"] = "latest"
    _, body = await accepted(client, engine, store=store)
    found = await client.get(f"{RESPONSES}/{body['id']}")
    assert body["store"] is (found.status_code == 200) is (store is not False)


async def test_a_tool_comes_back_with_all_its_fields(client, engine):
    bare = {"type": "function", "name": "now"}
    _, body = await accepted(client, engine, tools=[bare, {"type": "web_search"}])
    whole = {**bare, "description": None, "parameters": None, "strict": None}
    assert body["tools"] == [whole, {"type": "web_search"}]


async def test_reasoning_text_and_calls_are_items_in_order(client, engine):
    engine.script = CALLS
    _, body = await accepted(client, engine, tools=[WEATHER])
    kinds = [item["type"] for item in body["output"]]
    assert kinds == ["reasoning", "message", "function_call", "function_call"]
    reasoning, _, first, second = body["output"]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "Hm."}]
    assert reasoning["summary"] == []
    assert (first["call_id"], first["name"]) == ("call_a", "weather")
    assert json.loads(first["arguments"]) == {"city": "Rome"}
    assert (second["call_id"], second["arguments"]) == ("call_b", "{}")
    assert len({item["id"] for item in body["output"]}) == 4
    assert body["usage"]["output_tokens_details"] == {"reasoning_tokens": 2}


async def test_an_answer_that_was_cut_is_incomplete_in_its_last_item(client, engine):
    engine.script = (*CALLS[:3], Delta(finish=FinishReason.LENGTH))
    _, body = await accepted(client, engine)
    assert body["status"] == "incomplete"
    assert body["incomplete_details"] == {"reason": "max_output_tokens"}
    assert body["completed_at"] is None
    statuses = [item["status"] for item in body["output"]]
    assert statuses == ["completed", "completed", "incomplete"]


async def test_an_empty_answer_is_an_empty_message(client, engine):
    engine.script = (Delta(tokens=1, finish=FinishReason.STOP),)
    _, body = await accepted(client, engine)
    assert [item["content"][0]["text"] for item in body["output"]] == [""]


async def test_the_fields_arrive(client, engine):
    completion, body = await accepted(
        client,
        engine,
        temperature=0.5,
        top_p=0.9,
        top_k=3,
        seed=5,
        max_output_tokens=9,
        service_tier="flex",
        reasoning={"effort": "low"},
        chat_template_kwargs={"a": 1},
        metadata={"k": "v"},
        include=["message.output_text.logprobs"],
        top_logprobs=2,
        background=False,
        truncation="disabled",
        stop=["x"],
    )
    assert completion.sampling == {"temperature": 0.5, "top_p": 0.9, "top_k": 3, "seed": 5}
    assert (completion.max_tokens, completion.priority, completion.logprobs) == (9, -1, 2)
    assert completion.template_kwargs == {"reasoning_effort": "low", "a": 1}
    assert completion.stop == ("x",)
    assert completion.prompt_param == "input"
    assert (body["temperature"], body["metadata"]) == (0.5, {"k": "v"})
    assert body["reasoning"]["effort"] == "low"
    assert body["slipstream"]["ignored"] == []


@pytest.mark.parametrize(
    ("form", "grammar"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, GrammarText("json_object", "", "text.format")),
        (
            {"type": "json_schema", "name": "x", "schema": {"b": 1, "a": 2}},
            GrammarText("json_schema", '{"b":1,"a":2}', "text.format"),
        ),
    ],
)
async def test_a_text_format_is_a_grammar(client, engine, form, grammar):
    completion, body = await accepted(client, engine, text={"format": form})
    assert completion.grammar == grammar
    assert body["text"]["format"] == form


@pytest.mark.parametrize(
    ("choice", "mode", "name"),
    [
        (None, ToolMode.AUTO, ""),
        ("none", ToolMode.NONE, ""),
        ("auto", ToolMode.AUTO, ""),
        ("required", ToolMode.REQUIRED, ""),
        ({"type": "function", "name": "weather"}, ToolMode.NAMED, "weather"),
    ],
)
async def test_a_tool_choice_arrives(client, engine, choice, mode, name):
    completion, _ = await accepted(
        client, engine, tools=[WEATHER], tool_choice=choice, parallel_tool_calls=False
    )
    assert completion.tool_choice == ToolChoice(mode=mode, name=name, parallel=False)


async def test_allowed_tools_leave_only_those(client, engine):
    other = {"type": "function", "name": "other"}
    choice = {"type": "allowed_tools", "mode": "required", "tools": [other]}
    completion, _ = await accepted(client, engine, tools=[WEATHER, other], tool_choice=choice)
    assert [tool["function"]["name"] for tool in completion.tools] == ["other"]
    assert completion.tool_choice.mode is ToolMode.REQUIRED


async def test_tools_that_run_elsewhere_are_declared(client, engine):
    tools = [{"type": "web_search"}, WEATHER, {"type": "mcp", "server_label": "x"}]
    completion, body = await accepted(client, engine, tools=tools)
    assert len(completion.tools) == 1
    assert body["slipstream"]["ignored"] == ["tools[web_search]", "tools[mcp]"]


async def test_a_namespaced_function_is_called_by_its_own_name(client, engine):
    space = {"type": "namespace", "name": "mcp", "description": "d", "tools": [WEATHER]}
    call = ToolDelta(index=0, id="call_a", name="mcp__weather", arguments="{}")
    engine.script = (Delta(calls=(call,), tokens=1, finish=FinishReason.TOOL_CALLS),)
    completion, body = await accepted(client, engine, tools=[space])
    assert completion.tools[0]["function"]["name"] == "mcp__weather"
    [item] = body["output"]
    assert (item["namespace"], item["name"]) == ("mcp", "weather")
    again = [*body["output"], {"type": "function_call_output", "call_id": "call_a", "output": "x"}]
    completion, _ = await accepted(client, engine, input=again, tools=[space])
    call = completion.messages[0]["tool_calls"][0]
    assert call["function"] == {"name": "mcp__weather", "arguments": {}}


async def test_a_custom_tool_takes_plain_text(client, engine):
    tool = {"type": "custom", "name": "patch", "description": "p", "format": {"type": "text"}}
    arguments = ToolDelta(index=0, id="call_a", name="patch", arguments='{"input": "a\\nb"}')
    engine.script = (Delta(calls=(arguments,), tokens=1, finish=FinishReason.TOOL_CALLS),)
    completion, body = await accepted(client, engine, tools=[tool])
    assert completion.tools[0]["function"]["parameters"]["required"] == ["input"]
    assert body["slipstream"]["ignored"] == ["tools[].format"]
    [item] = body["output"]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "patch", "a\nb")
    completion, _ = await accepted(client, engine, input=body["output"])
    assert completion.messages[0]["tool_calls"][0]["function"]["arguments"] == {"input": "a\nb"}


async def test_what_changes_nothing_is_declared(client, engine):
    _, body = await accepted(
        client,
        engine,
        user="me",
        prompt_cache_key="k",
        safety_identifier="s",
        client_metadata={},
        include=["file_search_call.results"],
        reasoning={"summary": "auto"},
        text={"verbosity": "low"},
        stream_options={"include_obfuscation": False},
    )
    assert body["slipstream"]["ignored"] == [
        "user",
        "prompt_cache_key",
        "safety_identifier",
        "client_metadata",
        "stream_options.include_obfuscation",
        "stream_options",
        "include[file_search_call.results]",
        "text.verbosity",
        "reasoning.summary",
    ]


async def test_strict_refuses_what_would_be_declared(engine):
    rows = {
        "user": "me",
        "tools": [{"type": "web_search"}],
        "include": ["x"],
        "text": {"verbosity": "low"},
    }
    async with client_of(engine, strict=True) as client:
        for name, value in rows.items():
            reply = await client.post(RESPONSES, json={"input": "Hi", name: value})
            assert reply.status_code == 400, name
            assert reply.json()["error"]["param"].startswith(name)
        assert (await client.post(RESPONSES, json={"input": "Hi"})).status_code == 200


CODEX = {
    "model": MODEL,
    "instructions": "You are Codex.",
    "input": [
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "Sandbox."}],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
    ],
    "tools": [
        {**WEATHER, "strict": False},
        {"type": "namespace", "name": "mcp", "description": "", "tools": [WEATHER]},
        {"type": "web_search", "external_web_access": False},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "k",
    "client_metadata": {"x": "y"},
}


async def test_codex_is_understood(client, engine):
    completion, body = await accepted(client, engine, **CODEX)
    assert completion.messages[0] == {"role": "system", "content": "You are Codex.\n\nSandbox."}
    names = [tool["function"]["name"] for tool in completion.tools]
    assert names == ["weather", "mcp__weather"]
    assert (await client.get(f"{RESPONSES}/{body['id']}")).status_code == 404


async def test_codex_carries_reasoning_back_without_reading_it(client, engine):
    engine.script = CALLS
    _, body = await accepted(client, engine, **CODEX)
    reasoning, *rest = body["output"]
    carried = {k: v for k, v in reasoning.items() if k != "content"}
    given = {**CODEX, "input": [*CODEX["input"], carried, *rest]}
    completion, body = await accepted(client, engine, **given)
    assert completion.messages[-1]["reasoning_content"] == "Hm."
    assert not any(name.startswith("input") for name in body["slipstream"]["ignored"])


async def test_reasoning_that_only_others_can_read_is_declared(client, engine):
    summary = [{"type": "summary_text", "text": "s"}]
    foreign = {"type": "reasoning", "summary": summary, "encrypted_content": "gAAAA"}
    _, body = await accepted(client, engine, input=[foreign, {"role": "user", "content": "x"}])
    assert body["slipstream"]["ignored"] == ["input[].summary", "input[].encrypted_content"]


async def test_logprobs_show_bytes_in_the_item(client, engine):
    score = logprob("é", -0.25, ("é", -0.25))
    engine.script = (Delta(text="é", tokens=1, logprobs=(score,), finish=FinishReason.STOP),)
    asked = {"include": ["message.output_text.logprobs"], "top_logprobs": 1}
    _, body = await accepted(client, engine, **asked)
    top = {"token": "é", "logprob": -0.25, "bytes": [195, 169]}
    assert body["output"][0]["content"][0]["logprobs"] == [{**top, "top_logprobs": [top]}]


CALL = {"name": "f", "arguments": '{"x":1}'}
CHAT_CALL = {"id": "c1", "type": "function", "function": CALL}
SAME = {
    "a text": ("Hi", [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]),
    "roles": (
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello"},
            {"type": "message", "role": "user", "content": "Bye"},
        ],
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": "Bye"},
        ],
    ),
    "parts": (
        [
            {"role": "user", "content": [{"type": "input_text", "text": t} for t in "ab"]},
            {"role": "assistant", "content": [{"type": "output_text", "text": "c"}]},
        ],
        [
            {"role": "user", "content": [{"type": "text", "text": t} for t in "ab"]},
            {"role": "assistant", "content": "c"},
        ],
    ),
    "a developer in the middle": (
        [{"role": "user", "content": "Hi"}, {"role": "developer", "content": "x"}],
        [{"role": "user", "content": "Hi"}, {"role": "developer", "content": "x"}],
    ),
    "reasoning, text and calls": (
        [
            {"role": "user", "content": "Hi"},
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]},
            {"role": "assistant", "content": "Look:"},
            {"type": "function_call", "call_id": "c1", **CALL},
            {"type": "function_call", "call_id": "c2", **CALL},
            {"type": "function_call_output", "call_id": "c1", "output": "1"},
            {"type": "function_call_output", "call_id": "c2", "output": "2"},
            {"type": "function_call", "call_id": "c3", **CALL},
        ],
        [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": "Look:",
                "reasoning_content": "Hm.",
                "tool_calls": [CHAT_CALL, {**CHAT_CALL, "id": "c2"}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
            {"role": "tool", "tool_call_id": "c2", "content": "2"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{**CHAT_CALL, "id": "c3"}],
            },
        ],
    ),
    "two answers in a row": (
        [{"role": "user", "content": "Hi"}, *[{"role": "assistant", "content": c} for c in "ab"]],
        [{"role": "user", "content": "Hi"}, *[{"role": "assistant", "content": c} for c in "ab"]],
    ),
}


@pytest.mark.parametrize(("items", "messages"), SAME.values(), ids=SAME.keys())
async def test_a_conversation_is_the_same_prompt_as_a_chat(client, engine, items, messages):
    ours, _ = await accepted(client, engine, input=items, reasoning={"effort": "low"})
    body = {"messages": messages, "reasoning_effort": "low"}
    assert (await client.post(CHAT, json=body)).status_code == 200
    assert ours.messages == engine.last.messages
    assert ours.template_kwargs == engine.last.template_kwargs


async def test_instructions_are_the_system_message_of_a_chat(client, engine):
    ours, _ = await accepted(client, engine, input=SAME["roles"][0][1:], instructions="Be brief.")
    await client.post(CHAT, json={"messages": SAME["roles"][1]})
    assert ours.messages == engine.last.messages
