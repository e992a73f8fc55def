"""The event stream of the Messages API: a judge of its grammar, and what its events add up to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from slipstream.contracts.delta import Delta, ToolDelta
from slipstream.contracts.row import FinishReason

MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
FITTING = {
    "text": {"text_delta"},
    "thinking": {"thinking_delta", "signature_delta"},
    "tool_use": {"input_json_delta"},
}
ADDS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "input"),
}

THOUGHTFUL = (
    Delta(reasoning="Hm", tokens=1, reasoning_tokens=1),
    Delta(reasoning=", so.", tokens=1, reasoning_tokens=1),
    Delta(text="I look", tokens=1),
    Delta(text=".", calls=(ToolDelta(index=0, id="call_1", name="look"),), tokens=2),
    Delta(calls=(ToolDelta(index=0, arguments='{"at": '),), tokens=2),
    Delta(calls=(ToolDelta(index=0, arguments='"it"}'),), tokens=1),
    Delta(calls=(ToolDelta(index=1, id="call_2", name="look", arguments="{}"),), tokens=1),
    Delta(tokens=1, finish=FinishReason.TOOL_CALLS),
)

Event = dict[str, Any]


def ask(**fields: Any) -> dict[str, Any]:
    return {"max_tokens": 16, "messages": [{"role": "user", "content": "Hi"}], **fields}


def parsed(body: str) -> list[Event]:
    """Every event of a stream; its name must be its type, and its frame whole."""
    assert body.endswith("\n\n")
    events = []
    for block in body.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


def checked(body: str) -> list[Event]:
    """The events but pings of a stream that ends well: message_start, blocks one after another
    and numbered from 0, message_delta, message_stop."""
    events = [event for event in parsed(body) if event["type"] != "ping"]
    first, *middle, told, last = events
    assert (first["type"], told["type"], last["type"]) == (
        "message_start",
        "message_delta",
        "message_stop",
    )
    blocks_in_order(middle)
    return events


def blocks_in_order(events: Sequence[Event]) -> None:
    number, kind, signed = -1, None, False
    for event in events:
        match event["type"]:
            case "content_block_start":
                assert kind is None, "blocks do not overlap"
                number += 1
                kind, signed = event["content_block"]["type"], False
            case "content_block_delta":
                assert event["delta"]["type"] in FITTING[kind]
                assert not signed, "the signature is the last of a block"
                signed = event["delta"]["type"] == "signature_delta"
            case "content_block_stop":
                assert signed == (kind == "thinking")
                kind = None
            case other:
                raise AssertionError(f"{other} has no place here")
        assert event["index"] == number
    assert kind is None, "every block is closed"


def folded(events: Sequence[Event]) -> dict[str, Any]:
    """The message that a whole reply would be."""
    message = dict(events[0]["message"])
    content: list[dict[str, Any]] = []
    for event in events:
        match event["type"]:
            case "content_block_start":
                content.append(dict(event["content_block"]))
                if content[-1]["type"] == "tool_use":
                    content[-1]["input"] = ""
            case "content_block_delta":
                source, target = ADDS[event["delta"]["type"]]
                content[-1][target] += event["delta"][source]
            case "message_delta":
                message |= event["delta"]
                message |= {"usage": event["usage"], "slipstream": event["slipstream"]}
    for block in content:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["input"] or "{}")
    return {**message, "content": content}
