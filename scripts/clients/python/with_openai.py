"""The official OpenAI client on the chat route."""

import json
from typing import Literal

import checks
import openai
from pydantic import BaseModel

client = openai.OpenAI(base_url=f"{checks.STARTER}/v1", api_key=checks.KEY, max_retries=0)
told = openai.OpenAI(base_url=f"{checks.TOLD}/v1", api_key=checks.KEY, max_retries=0)
HELLO = [{"role": "user", "content": checks.HELLO}]


class Trip(BaseModel):
    city: Literal["Paris", "Rome"]
    days: Literal[1, 2, 3]


def chat() -> str:
    reply = client.chat.completions.create(model=checks.MODEL, messages=HELLO, max_tokens=16)
    assert reply.usage.completion_tokens <= 16
    return checks.said(reply.choices[0].message.content)


def stream() -> str:
    options = {"include_usage": True}
    chunks = [
        *client.chat.completions.create(
            model=checks.MODEL, messages=HELLO, max_tokens=16, stream=True, stream_options=options
        )
    ]
    assert chunks[-1].usage.total_tokens and chunks[-2].choices[0].finish_reason
    return checks.joined([c.choices[0].delta.content or "" for c in chunks if c.choices])


def tools() -> str:
    function = {"name": "get_weather", "parameters": checks.PLACE}
    offered = [{"type": "function", "function": function}]
    asked = [{"role": "user", "content": checks.ASK}]
    first = client.chat.completions.create(
        model=checks.MODEL,
        messages=asked,
        tools=offered,
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=64,
    )
    message = first.choices[0].message
    assert first.choices[0].finish_reason == "tool_calls", first
    (call,) = message.tool_calls
    result = checks.weather(**json.loads(call.function.arguments))
    told = {"role": "tool", "tool_call_id": call.id, "content": result}
    second = client.chat.completions.create(
        model=checks.MODEL,
        messages=[*asked, message, told],
        tools=offered,
        tool_choice="none",
        max_tokens=16,
    )
    return checks.said(second.choices[0].message.content)


def structured() -> str:
    reply = client.chat.completions.parse(
        model=checks.MODEL, messages=HELLO, response_format=Trip, max_tokens=64
    )
    return checks.is_trip(reply.choices[0].message.parsed.model_dump())


def cancel() -> str:
    counting = [{"role": "user", "content": checks.COUNT}]
    stream = told.chat.completions.create(model=checks.MODEL, messages=counting, stream=True)
    for _, chunk in zip(range(5), stream, strict=False):
        assert chunk.choices
    stream.close()
    return "left after 5 chunks"


checks.run(chat, stream, tools, structured, cancel)
