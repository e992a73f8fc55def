"""Nothing malformed becomes a response, and the refusal names the field."""

from __future__ import annotations

import json

import pytest

from .response_events import RESPONSES
from .test_responses import WEATHER

pytestmark = pytest.mark.anyio

CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "x"}


def user(content):
    return {"role": "user", "content": content}


def without(item, name):
    return {k: v for k, v in item.items() if k != name}


ITEMS = [
    ("input", 5),
    ("input", {}),
    ("input", []),
    ("input", ""),
    ("input[0]", ["x"]),
    ("input[0].role", [{"content": "x"}]),
    ("input[0].role", [{"role": "tool", "content": "x"}]),
    ("input[1].content", [user("a"), {"role": "user"}]),
    ("input[0].content", [user(5)]),
    ("input[0].content", [user([])]),
    ("input[0].content[0]", [user(["x"])]),
    ("input[0].content[0].type", [user([{"text": "x"}])]),
    ("input[0].content[0].type", [user([{"type": "dance", "text": "x"}])]),
    ("input[0].content[0].text", [user([{"type": "input_text"}])]),
    ("input[0].content[0].text", [user([{"type": "input_text", "text": 5}])]),
    ("input[0].content[0]", [user([{"type": "input_image", "image_url": "x"}])]),
    ("input[0].content[0]", [user([{"type": "input_file", "file_id": "x"}])]),
    ("input[0].content[1]", [user([{"type": "input_text", "text": "a"}, {"type": "input_audio"}])]),
    ("input[0].type", [{"type": "item_reference", "id": "x"}]),
    ("input[0].type", [{"type": "web_search_call", "id": "x"}]),
    ("input[0].type", [{"type": 5}]),
    ("input[0].type", [{"type": []}]),
    ("input[0].id", [{**user("x"), "id": 5}]),
    ("input[0].call_id", [without(CALL, "call_id")]),
    ("input[0].call_id", [{**CALL, "call_id": ""}]),
    ("input[0].name", [without(CALL, "name")]),
    ("input[0].arguments", [without(CALL, "arguments")]),
    ("input[0].arguments", [{**CALL, "arguments": {}}]),
    ("input[0].arguments", [{**CALL, "arguments": "{broken"}]),
    ("input[0].arguments", [{**CALL, "arguments": "[1]"}]),
    ("input[0].call_id", [without(RESULT, "call_id")]),
    ("input[0].output", [without(RESULT, "output")]),
    ("input[0].output", [{**RESULT, "output": 5}]),
    ("input[0].output[0]", [{**RESULT, "output": [{"type": "input_image"}]}]),
    ("input[0].summary", [{"type": "reasoning", "summary": "x"}]),
    ("input[0].content", [{"type": "reasoning", "summary": [], "content": "x"}]),
]
FIELDS = {
    "instructions": [5, []],
    "previous_response_id": [5, ""],
    "store": ["yes", 1],
    "metadata": ["x", {"a": 5}, {"k" * 65: "x"}, {"k": "x" * 513}, {str(n): "" for n in range(17)}],
    "max_output_tokens": [0, -1, "5", 1.5, True],
    "max_tokens": [0, "5"],
    "n": [2, 0, "x", True],
    "temperature": ["hot", -1, True],
    "top_p": [2, "x"],
    "top_logprobs": [21, -1, 3, "x"],
    "include": ["x", [5]],
    "truncation": ["auto", "maybe", 1],
    "background": [True, "yes"],
    "conversation": ["conv_1", {"id": "conv_1"}],
    "prompt": [{"id": "p"}],
    "service_tier": ["gold", 1],
    "stream": ["yes", 1],
    "model": [5, []],
    "reasoning": ["low", {"effort": "huge"}, {"summary": "long"}],
    "text": [
        "x",
        {"format": "json"},
        {"format": {}},
        {"format": {"type": "yaml"}},
        {"format": {"type": "json_schema", "name": "x"}},
        {"format": {"type": "json_schema", "schema": "x"}},
        {"verbosity": "huge"},
    ],
    "parallel_tool_calls": ["yes", 1],
    "tools": [
        "x",
        [5],
        [{}],
        [{"type": ""}],
        [{"type": 5}],
        [{"type": "function"}],
        [{"type": "function", "name": ""}],
        [{**WEATHER, "parameters": []}],
        [{**WEATHER, "strict": "yes"}],
        [WEATHER, WEATHER],
        [{"type": "custom"}],
        [{"type": "namespace", "name": "n"}],
        [{"type": "function", "name": "a b"}],
        [{"type": "function", "name": "x" * 129}],
        [{"type": "custom", "name": "naïve"}],
        [{"type": "function", "name": "f"}, {"type": "custom", "name": "f"}],
        [{"type": "function", "name": "f", "parameters": {"type": "array"}}],
        [{"type": "namespace", "tools": []}],
        [{"type": "namespace", "name": "n", "tools": [{"type": "function"}]}],
    ],
    "tool_choice": [
        5,
        "always",
        "required",
        {},
        {"type": "function"},
        {"type": "function", "name": "absent"},
        {"type": "web_search"},
        {"type": "allowed_tools"},
        {"type": "allowed_tools", "tools": [{"type": "function", "name": "absent"}]},
    ],
    "guided_json": [5],
}


def table():
    for name, values in FIELDS.items():
        for value in values:
            yield {"input": "Hi", name: value}, name
    for param, items in ITEMS:
        yield {"input": items}, param
    yield {}, "input"
    yield {"input": None}, "input"
    yield {"input": "Hi", "max_tokens": 5, "max_output_tokens": 6}, "max_tokens"
    yield {"input": "Hi", "max_output_tokens": 5, "min_tokens": 6}, "min_tokens"
    both = {"format": {"type": "json_object"}}
    yield {"input": "Hi", "text": both, "response_format": {"type": "json_object"}}, "text.format"


async def test_every_bad_body_is_refused_by_the_name_of_its_field(client, engine):
    rows = list(table())
    assert len(rows) > 100
    wrong = []
    for body, name in rows:
        reply = await client.post(RESPONSES, json=body)
        param = (reply.json().get("error") or {}).get("param") or ""
        if reply.status_code != 400 or name not in param:
            wrong.append(f"{json.dumps(body)[:90]}: {reply.status_code} names {param!r}")
    assert wrong == []
    assert engine.runnings == []


@pytest.mark.parametrize(("param", "items"), ITEMS)
async def test_a_bad_item_is_named_to_the_point(client, param, items):
    reply = await client.post(RESPONSES, json={"input": items})
    assert reply.json()["error"]["param"] == param
