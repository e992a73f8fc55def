"""Nothing malformed gets past the door, and the refusal names the field."""

from __future__ import annotations

import json

import pytest

from .response_events import RESPONSES
from .scripted import CHAT, COMPLETIONS, chat, text

pytestmark = pytest.mark.anyio


def user(content):
    return {"role": "user", "content": content}


def calling(**function):
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}", **function}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


# Each field with values that no route takes.
FIELDS = {
    "temperature": ["hot", "1", [], {}, -1, 101, True, 10**400],
    "top_p": ["x", -0.1, 1.5, [], True],
    "top_k": ["x", 1.5, 2.0, -5, True, 10**400],
    "min_p": ["x", -1, 2],
    "xtc_probability": ["x", -1, 2],
    "xtc_threshold": ["x", -1, 0.6],
    "repetition_penalty": ["x", -1, 0],
    "repetition_context_size": ["x", -1, 1.5],
    "presence_penalty": ["x", [], True, 3],
    "presence_context_size": [-1, "1"],
    "frequency_penalty": ["x", {}, True, -3],
    "frequency_context_size": [-1],
    "logit_bias": ["x", [1], {"a": 1}, {"5": "x"}, {"-1": 1}, {"5": True}, {"5": 101}, {"5": None}],
    "seed": ["x", 1.5, [], True, 2**64, -(2**63) - 1],
    "min_tokens": ["x", -1, 0.5],
    "max_tokens": ["5", 0, -1, 1.5, [], True],
    "stop": ["", [""], ["ok", ""], 5, [5], {"a": 1}, [f"s{i}" for i in range(17)]],
    "stop_token_ids": ["x", 5, ["x"], [-1], [1.5], [True]],
    "ignore_eos": ["yes", [], 1],
    "n": ["x", 0, -2, 17, 1.5, True],
    "logprobs_mode": ["cooked", 1],
    "stream": ["true", "no", [], 1],
    "stream_options": ["x", [], {"include_usage": "yes"}],
    "lane": ["fast", "group", 1, True],
    "priority": ["x", 9, -3, 1.5, True],
    "service_tier": ["gold", 1],
    "cache_salt": [1, []],
    "adapter": [
        1,
        [1],
        [{"scale": 1.0}],
        {},
        "",
        {"a": "x"},
        {"": 1},
        {"a": 101},
        ["a", "a"],
        [{"name": "a", "scale": -1e9}],
        [str(i) for i in range(9)],
    ],
    "draft": [1, ""],
    "model": [5, [], {}, True],
    "response_format": [
        "json_object",
        {},
        {"type": "yaml"},
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": {"name": "a"}},
        {"type": "text", "schema": {}},
        {"type": "json_object", "json_schema": {"schema": {}}},
    ],
    "guided_json": [5, "{not json", "[]"],
    "guided_regex": [5, ""],
    "guided_choice": [[], [1], "x"],
    "guided_grammar": [5, ""],
    "structured_outputs": [
        [],
        {"unknown": 1},
        {},
        {"regex": "a", "choice": ["b"]},
        {"choice": []},
        {"json": 5},
        {"regex": ""},
    ],
    "suffix": ["end"],
    "functions": [[{"name": "f"}]],
}
CHAT_FIELDS = {
    "max_completion_tokens": ["5", 0, -1],
    "logprobs": [1, "yes"],
    "top_logprobs": [21, -1, "5", True, 5],
    "chat_template_kwargs": ["x", []],
    "reasoning_effort": ["huge", 1],
    "modalities": [["text", "audio"], "text"],
    "continue_final_message": ["yes", 1, True],
    "add_generation_prompt": ["yes", 1, False],
    "audio": [{"voice": "x"}],
    "function_call": ["auto"],
    "tools": ["x", [5], [{"type": "function"}], [{"type": "function", "function": {}}]],
    "tool_choice": ["always", "required", {"type": "function", "function": {"name": "f"}}],
}
TEXT_FIELDS = {
    "prompt": [
        None,
        5,
        {},
        [],
        ["a", 5],
        [1.5, 2.5],
        [-1],
        [None],
        [True, False],
        [[]],
        [[1], []],
        [[1], "a"],
    ],
    "logprobs": [True, 21, -1, "2"],
    "best_of": [3, 0, "x"],
    "echo": ["yes"],
}
# Good values of fields that this build refuses all the same.
LATER = {
    "draft": ["ngram", True],
}
MESSAGES = [
    ("messages", None),
    ("messages", "hi"),
    ("messages", []),
    ("messages[0]", ["hi"]),
    ("messages[0]", [[]]),
    ("messages[0].role", [{"content": "x"}]),
    ("messages[1].role", [user("a"), {"role": "robot", "content": "x"}]),
    ("messages[0].role", [{"role": 5, "content": "x"}]),
    ("messages[0].role", [{"role": "function", "name": "f", "content": "x"}]),
    ("messages[0].content", [{"role": "user"}]),
    ("messages[0].content", [user(None)]),
    ("messages[0].content", [user(5)]),
    ("messages[0].content", [user([])]),
    ("messages[0].content", [{"role": "assistant", "content": None, "tool_calls": []}]),
    ("messages[0].content[0]", [user(["x"])]),
    ("messages[0].content[0].type", [user([{"text": "x"}])]),
    ("messages[0].content[0].type", [user([{"type": "dance"}])]),
    ("messages[0].content[0].text", [user([{"type": "text"}])]),
    ("messages[0].content[0].text", [user([{"type": "text", "text": 5}])]),
    ("messages[0].content[0]", [user([{"type": "image_url", "image_url": {"url": "file:///x"}}])]),
    ("messages[0].content[0]", [user([{"type": "image_url"}])]),
    ("messages[0].content[1]", [user([{"type": "text", "text": "a"}, {"type": "input_audio"}])]),
    ("messages[0].content[0].refusal", [user([{"type": "refusal", "text": "x"}])]),
    ("messages[0].refusal", [{**user("x"), "refusal": "no"}]),
    ("messages[0].refusal", [{"role": "assistant", "content": "x", "refusal": "no"}]),
    ("messages[0].name", [{**user("x"), "name": 5}]),
    ("messages[0].tool_calls", [{**user("x"), "tool_calls": calling()["tool_calls"]}]),
    ("messages[0].tool_calls", [{"role": "assistant", "content": "x", "tool_calls": "f"}]),
    ("messages[0].tool_calls[0].function", [{**calling(), "tool_calls": [{"id": "c"}]}]),
    ("messages[0].tool_calls[0].function.name", [calling(name="")]),
    ("messages[0].tool_calls[0].function.arguments", [calling(arguments=[])]),
    ("messages[0].tool_calls[0].function.arguments", [calling(arguments="{broken")]),
    ("messages[0].tool_calls[0].function.arguments", [calling(arguments="[1]")]),
    ("messages[0].tool_call_id", [{"role": "tool", "content": "x"}]),
    ("messages[0].function_call", [{"role": "assistant", "content": "x", "function_call": {}}]),
]
RAW = {
    "empty": b"",
    "blank": b"  \n",
    "cut": b'{"messages": [',
    "list": b"[]",
    "text": b'"hi"',
    "null": b"null",
    "nan": b'{"temperature": NaN}',
    "infinity": b'{"temperature": -Infinity}',
    "too large a float": b'{"temperature": 1e999}',
    "too large an int": b'{"seed": ' + b"9" * 5000 + b"}",
    "lone surrogate": b'{"prompt": "\\ud800", "messages": []}',
    "lone low surrogate": b'{"prompt": "\\udc00x"}',
    "not utf-8": b'{"prompt": "\xff"}',
    "utf-8 of a surrogate": b'{"prompt": "\xed\xa0\x80"}',
    "byte order mark": b"\xef\xbb\xbf{}",
    "trailing": b"{}{}",
    "single quotes": b"{'a': 1}",
    "deep": b'{"a":' + b"[" * 64 + b"]" * 64 + b"}",
    "very deep": b'{"a":' + b"[" * 100_000,
}


def table():
    for route, good, extra in ((CHAT, chat, CHAT_FIELDS), (COMPLETIONS, text, TEXT_FIELDS)):
        for name, values in {**FIELDS, **extra}.items():
            for value in values:
                yield route, good(**{name: value}), name
    for param, messages in MESSAGES:
        yield CHAT, {"messages": messages}, param
    yield CHAT, {}, "messages"
    yield COMPLETIONS, {}, "prompt"
    yield CHAT, chat(max_tokens=5, max_completion_tokens=6), "max_tokens"
    yield CHAT, chat(max_tokens=5, min_tokens=6), "min_tokens"
    yield CHAT, chat(guided_regex="a", guided_choice=["a"]), "guided_choice"
    both = chat(response_format={"type": "json_object"}, structured_outputs={"regex": "a"})
    yield CHAT, both, "structured_outputs"


ROWS = list(table())


def refused(reply, param):
    assert reply.status_code == 400, reply.text
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert error["message"]


async def test_every_bad_body_is_refused_by_the_name_of_its_field(client, engine):
    assert len(ROWS) > 200
    wrong = []
    for route, body, name in ROWS:
        reply = await client.post(route, json=body)
        param = reply.json().get("error", {}).get("param") or ""
        if reply.status_code != 400 or name not in param:
            wrong.append(f"{route} {json.dumps(body)[:80]}: {reply.status_code} names {param!r}")
    assert wrong == []
    assert engine.runnings == []


@pytest.mark.parametrize(("param", "messages"), MESSAGES)
async def test_a_bad_message_is_named_to_the_point(client, param, messages):
    refused(await client.post(CHAT, json={"messages": messages}), param)


@pytest.mark.parametrize("raw", RAW.values(), ids=RAW.keys())
@pytest.mark.parametrize(
    "route", [CHAT, COMPLETIONS, RESPONSES, "/v1/embeddings", "/tokenize", "/detokenize"]
)
async def test_what_is_no_strict_json_object_is_refused(client, route, raw):
    reply = await client.post(route, content=raw, headers={"content-type": "application/json"})
    refused(reply, None)


async def test_a_body_of_sixty_four_levels_is_taken(client):
    deep = None
    for _ in range(63):
        deep = [deep]
    assert (await client.post(CHAT, json=chat(foo=deep))).status_code == 200
    assert (await client.post(CHAT, json=chat(foo=[deep]))).status_code == 400


async def test_what_this_build_cannot_do_is_refused_by_name(client):
    for name, values in LATER.items():
        for value in values:
            refused(await client.post(CHAT, json=chat(**{name: value})), name)


async def test_what_asks_for_nothing_is_not_refused(client):
    nothing = dict.fromkeys(LATER, None)
    neutral = {"draft": False, "response_format": {"type": "text"}, "tools": []}
    for fields in (nothing, neutral, {"tool_choice": "auto"}, {"modalities": ["text"]}):
        assert (await client.post(CHAT, json=chat(**fields))).status_code == 200


async def test_the_last_of_two_equal_keys_counts(client, engine):
    raw = json.dumps(chat(temperature=5)).removesuffix("}") + ', "temperature": 1}'
    reply = await client.post(CHAT, content=raw, headers={"content-type": "application/json"})
    assert reply.status_code == 200
    assert engine.last.sampling == {"temperature": 1.0}


async def test_a_bad_streamed_request_is_a_status_and_no_event(client):
    for body in (chat(temperature="x"), chat(stop=[""]), chat(model="absent"), {"messages": []}):
        reply = await client.post(CHAT, json={**body, "stream": True})
        assert reply.status_code in (400, 404)
        assert reply.headers["content-type"] == "application/json"


async def test_whole_numbers_do_for_fractions(client, engine):
    assert (await client.post(CHAT, json=chat(temperature=1, top_p=1))).status_code == 200
    assert engine.last.sampling == {"temperature": 1.0, "top_p": 1.0}
