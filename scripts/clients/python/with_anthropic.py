"""The official Anthropic client."""

from typing import Literal

import anthropic
import checks
from pydantic import BaseModel

client = anthropic.Anthropic(base_url=checks.STARTER, api_key=checks.KEY, max_retries=0)
told = anthropic.Anthropic(base_url=checks.TOLD, api_key=checks.KEY, max_retries=0)
HELLO = [{"role": "user", "content": checks.HELLO}]
MODEL = "claude-slipstream"


class Trip(BaseModel):
    city: Literal["Paris", "Rome"]
    days: Literal[1, 2, 3]


def chat() -> str:
    counted = client.messages.count_tokens(model=MODEL, messages=HELLO)
    reply = client.messages.create(model=MODEL, messages=HELLO, max_tokens=16)
    assert reply.usage.input_tokens + (reply.usage.cache_read_input_tokens or 0) == (
        counted.input_tokens
    )
    return checks.said(reply.content[0].text)


def stream() -> str:
    with client.messages.stream(model=MODEL, messages=HELLO, max_tokens=16) as events:
        pieces = [*events.text_stream]
    assert events.get_final_text() == "".join(pieces)
    return checks.joined(pieces)


def tools() -> str:
    offered = [{"name": "get_weather", "input_schema": checks.PLACE}]
    asked = [{"role": "user", "content": checks.ASK}]
    first = client.messages.create(
        model=MODEL,
        messages=asked,
        tools=offered,
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        max_tokens=64,
    )
    assert first.stop_reason == "tool_use", first
    (call,) = [block for block in first.content if block.type == "tool_use"]
    result = {
        "type": "tool_result",
        "tool_use_id": call.id,
        "content": checks.weather(**call.input),
    }
    second = client.messages.create(
        model=MODEL,
        messages=[
            *asked,
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": [result]},
        ],
        tools=offered,
        tool_choice={"type": "none"},
        max_tokens=16,
    )
    return checks.said(second.content[0].text)


def structured() -> str:
    reply = client.messages.parse(model=MODEL, messages=HELLO, max_tokens=64, output_format=Trip)
    return checks.is_trip(reply.parsed_output.model_dump())


def cancel() -> str:
    counting = [{"role": "user", "content": checks.COUNT}]
    with told.messages.stream(model=MODEL, messages=counting, max_tokens=32000) as events:
        for _ in zip(range(5), events.text_stream, strict=False):
            pass
    return "left after 5 texts"


checks.run(chat, stream, tools, structured, cancel)
