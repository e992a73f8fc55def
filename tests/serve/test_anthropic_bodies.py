"""Nothing malformed gets past the door of the Messages API, and the refusal names the field."""

from __future__ import annotations

import json

import pytest

from .anthropic_events import COUNT, MESSAGES, ask
from .test_bad_bodies import RAW

pytestmark = pytest.mark.anyio


def user(*content):
    return {"role": "user", "content": [*content]}


def assistant(*content):
    return {"role": "assistant", "content": [*content]}


TEXT = {"type": "text", "text": "a"}
USE = {"type": "tool_use", "id": "t", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
DOCUMENT = {"type": "document", "source": {"type": "text", "data": "x"}}
THINKING = {"type": "thinking", "thinking": "hm", "signature": ""}
TOOL = {"name": "look", "input_schema": {"type": "object"}}
SCHEMA = {"type": "json_schema", "schema": {}}

# Each field with values that are not taken.
FIELDS = {
    "max_tokens": [None, "5", 0, -1, 1.5, [], True],
    "model": [5, [], True],
    "temperature": ["hot", [], -1, 101, True],
    "top_p": ["x", -0.1, 1.5],
    "top_k": ["x", 1.5, -5, True],
    "min_p": [2],
    "seed": ["x", 1.5, 2**64],
    "stop_sequences": ["END", [""], [5], {}, [f"s{n}" for n in range(17)]],
    "stream": ["true", 1],
    "lane": ["fast"],
    "priority": [9],
    "cache_salt": [5],
    "service_tier": ["gold"],
    "cache_control": ["ephemeral", {}, {"type": "forever"}, {"type": "ephemeral", "ttl": "2h"}],
    "chat_template_kwargs": ["x"],
    "thinking": [True, {}, {"type": "on"}, {"type": "enabled", "budget_tokens": "many"}],
    "output_config": ["x", {"effort": "huge"}, {"format": {"type": "json_schema"}}],
    "output_format": [{"type": "regex"}, {"type": "json_schema", "schema": []}],
    "mcp_servers": [[{"url": "https://x"}]],
    "container": ["c", {"id": "c"}],
    "system": [5, {}, [5], [{"type": "text"}], [IMAGE]],
    "tools": [
        "x",
        [5],
        [{}],
        [{"name": "look"}],
        [{"input_schema": {"type": "object"}}],
        [{**TOOL, "name": "two words"}],
        [{**TOOL, "name": ""}],
        [{**TOOL, "input_schema": {"type": "string"}}],
        [{**TOOL, "input_schema": "object"}],
        [{**TOOL, "description": 5}],
        [TOOL, TOOL],
    ],
    "tool_choice": [
        "auto",
        {},
        {"type": "required"},
        {"type": "any"},
        {"type": "tool", "name": "look"},
        {"type": "auto", "disable_parallel_tool_use": "yes"},
    ],
}
CONVERSATIONS = [
    ("messages", None),
    ("messages", "hi"),
    ("messages", []),
    ("messages[0]", ["hi"]),
    ("messages[0].role", [{"content": "x"}]),
    ("messages[0].role", [{"role": "tool", "content": "x"}]),
    ("messages[0].content", [{"role": "user"}]),
    ("messages[0].content", [{"role": "user", "content": None}]),
    ("messages[0].content", [{"role": "user", "content": 5}]),
    ("messages[0].content", [user()]),
    ("messages[1].content", [user(TEXT), assistant()]),
    ("messages[0].content[0]", [user("x")]),
    ("messages[0].content[0].type", [user({"text": "x"})]),
    ("messages[0].content[0].type", [user({"type": "dance"})]),
    ("messages[0].content[0].text", [user({"type": "text"})]),
    ("messages[0].content[1].text", [user(TEXT, {"type": "text", "text": 5})]),
    ("messages[0].content[0]", [user(IMAGE)]),
    ("messages[0].content[1]", [user(TEXT, DOCUMENT)]),
    ("messages[0].content[0]", [user(USE)]),
    ("messages[0].content[0]", [user(THINKING)]),
    ("messages[0].content[0]", [{**user(RESULT), "role": "system"}]),
    ("messages[1].content[0]", [user(TEXT), assistant(RESULT), user(TEXT)]),
    ("messages[1].content[0]", [user(TEXT), assistant(IMAGE), user(TEXT)]),
    ("messages[1].content[0].id", [user(TEXT), assistant({**USE, "id": ""})]),
    ("messages[1].content[0].name", [user(TEXT), assistant({**USE, "name": 5})]),
    ("messages[1].content[0].input", [user(TEXT), assistant({**USE, "input": "{}"})]),
    ("messages[1].content[0].thinking", [user(TEXT), assistant({"type": "thinking"})]),
    ("messages[1].content", [user(TEXT), assistant(USE)]),
    ("messages[0].content[0].tool_use_id", [user({"type": "tool_result", "content": "x"})]),
    ("messages[0].content[0].is_error", [user({**RESULT, "is_error": "yes"})]),
    ("messages[0].content[0].content", [user({**RESULT, "content": 5})]),
    ("messages[0].content[0].content[0]", [user({**RESULT, "content": [IMAGE]})]),
    ("messages[0].content[0].content[0].type", [user({**RESULT, "content": [USE]})]),
    ("messages[0].content[0].cache_control", [user({**TEXT, "cache_control": 5})]),
]
TOGETHER = [
    ("tool_choice", {"tools": [{"type": "bash_20250124"}], "tool_choice": {"type": "any"}}),
    ("tool_choice.name", {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "other"}}),
    ("output_format", {"output_format": SCHEMA, "output_config": {"format": SCHEMA}}),
]
ROWS = [
    *((name, ask(**{name: value})) for name, values in FIELDS.items() for value in values),
    *((param, {**ask(), "messages": messages}) for param, messages in CONVERSATIONS),
    *((param, ask(**fields)) for param, fields in TOGETHER),
    ("max_tokens", {"messages": [user(TEXT)]}),
    ("messages", {"max_tokens": 5}),
]


async def test_every_bad_body_is_refused_by_the_name_of_its_field(client, engine):
    assert len(ROWS) > 100
    wrong = []
    for name, body in ROWS:
        reply = await client.post(MESSAGES, json=body)
        error = reply.json().get("error", {})
        told = error.get("type") == "invalid_request_error" and name in error.get("param", "")
        if reply.status_code != 400 or not told or error["param"] not in error["message"]:
            wrong.append(f"{json.dumps(body)[:90]}: {reply.status_code} {error}")
    assert wrong == []
    assert engine.runnings == []


@pytest.mark.parametrize(("param", "messages"), CONVERSATIONS)
async def test_a_bad_block_is_named_to_the_point(client, param, messages):
    for route in (MESSAGES, COUNT):
        reply = await client.post(route, json={**ask(), "messages": messages})
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize("kind", ["image", "document"])
async def test_what_a_text_model_cannot_read_is_named(client, kind):
    block = {"image": IMAGE, "document": DOCUMENT}[kind]
    reply = await client.post(MESSAGES, json=ask(messages=[user(block)]))
    assert reply.json()["error"]["message"].endswith(f"this model reads text only, no {kind}.")


@pytest.mark.parametrize("raw", RAW.values(), ids=RAW.keys())
@pytest.mark.parametrize("route", [MESSAGES, COUNT])
async def test_what_is_no_strict_json_object_is_refused(client, route, raw):
    reply = await client.post(route, content=raw, headers={"content-type": "application/json"})
    assert reply.status_code == 400
    assert reply.json()["error"]["type"] == "invalid_request_error"


async def test_a_bad_streamed_request_is_a_status_and_no_event(client):
    for body in (ask(temperature="x"), ask(stop_sequences=[""]), ask(messages=[])):
        reply = await client.post(MESSAGES, json={**body, "stream": True})
        assert reply.status_code == 400
        assert reply.headers["content-type"] == "application/json"
