"""Whatever JSON stands in a field of any route: an answer or a refusal, and the next one works."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipstream.serve.openapi import OPERATIONS

from .scripted import ScriptedEngine, client_of
from .test_openapi import BODIES

TAKING = [name for name, operation in OPERATIONS.items() if operation.takes is not None]
WORDS = ("text", "type", "role", "content", "name", "function", "user", "refusal", "id", "input")

numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
words = st.sampled_from(WORDS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
leaves = st.none() | st.booleans() | numbers | words
anything = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=12,
)


def fields(name: str) -> list[str]:
    kind = OPERATIONS[name].takes
    assert kind is not None
    return [*(field.encode_name for field in msgspec.structs.fields(kind)), "stranger"]


async def answer(name: str, body: dict[str, Any]) -> None:
    method, _, path = name.partition(" ")
    async with client_of(ScriptedEngine()) as client:
        reply = await client.request(method, path, json=body)
        assert reply.status_code < 500, (name, body, reply.text)
        assert reply.status_code in (200, 201, 400, 404, 413), (name, body, reply.text)
        if reply.status_code == 400 and "text/event-stream" not in reply.headers["content-type"]:
            error = reply.json()["error"]
            assert error["message"]
            assert error.get("param"), (name, body, reply.text)
        good = await client.request(method, path, json=BODIES[name][0])
        assert good.status_code < 300


@pytest.mark.parametrize("name", TAKING)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_value_of_any_field_is_answered_or_refused_by_name(name: str, data: Any) -> None:
    changed = data.draw(
        st.dictionaries(st.sampled_from(fields(name)), anything, min_size=1, max_size=2)
    )
    asyncio.run(answer(name, {**BODIES[name][0], **changed}))


Path = tuple[str | int, ...]


def paths(node: Any, here: Path = ()) -> list[Path]:
    """Of everything below `node`."""
    inside = node.items() if isinstance(node, dict) else enumerate(node)
    found = []
    for key, child in inside:
        found.append((*here, key))
        if isinstance(child, dict | list):
            found += paths(child, (*here, key))
    return found


def replaced(node: Any, path: Path, value: Any) -> Any:
    """A copy of `node` with `value` at `path`."""
    if not path:
        return value
    made = dict(node) if isinstance(node, dict) else list(node)
    made[path[0]] = replaced(node[path[0]], path[1:], value)
    return made


RICH: dict[str, dict[str, Any]] = {
    "POST /v1/chat/completions": {
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "a"}]},
            {"role": "user", "content": "b", "name": "c"},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "d",
                "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "1", "content": "e"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {"type": "text"},
        "stream_options": {"include_usage": True},
    },
    "POST /v1/messages": {
        "max_tokens": 5,
        "system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "b"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "c", "signature": "d"},
                    {"type": "tool_use", "id": "1", "name": "f", "input": {"at": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "1",
                        "content": [{"type": "text", "text": "e"}],
                    }
                ],
            },
        ],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "tool", "name": "f"},
        "thinking": {"type": "enabled", "budget_tokens": 9},
        "output_config": {"effort": "low"},
    },
}


def bodies(name: str) -> list[dict[str, Any]]:
    return [*BODIES[name], *([RICH[name]] if name in RICH else [])]


@pytest.mark.parametrize("name", TAKING)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_value_at_any_depth_is_answered_or_refused_by_name(name: str, data: Any) -> None:
    body = data.draw(st.sampled_from(bodies(name)))
    path = data.draw(st.sampled_from(paths(body)))
    asyncio.run(answer(name, replaced(body, path, data.draw(anything))))
