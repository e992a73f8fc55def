"""The official OpenAI client on the Responses route."""

import json
from typing import Literal

import checks
import openai
from pydantic import BaseModel

client = openai.OpenAI(base_url=f"{checks.STARTER}/v1", api_key=checks.KEY, max_retries=0)
told = openai.OpenAI(base_url=f"{checks.TOLD}/v1", api_key=checks.KEY, max_retries=0)


class Trip(BaseModel):
    city: Literal["Paris", "Rome"]
    days: Literal[1, 2, 3]


def chat() -> str:
    first = client.responses.create(
        model=checks.MODEL, input=checks.HELLO, max_output_tokens=16, temperature=0
    )
    second = client.responses.create(
        model=checks.MODEL,
        input="And again.",
        previous_response_id=first.id,
        max_output_tokens=16,
    )
    assert second.usage.input_tokens > first.usage.input_tokens
    client.responses.delete(first.id)
    return checks.said(second.output_text)


def stream() -> str:
    with told.responses.stream(model=checks.MODEL, input=checks.HELLO) as events:
        pieces = [one.delta for one in events if one.type == "response.output_text.delta"]
        whole = events.get_final_response()  # it wants an answer that was not cut off
    assert whole.output_text == "".join(pieces)
    return checks.joined(pieces)


def tools() -> str:
    offered = [{"type": "function", "name": "get_weather", "parameters": checks.PLACE}]
    first = client.responses.create(
        model=checks.MODEL,
        input=checks.ASK,
        tools=offered,
        tool_choice="required",
        parallel_tool_calls=False,
        max_output_tokens=64,
    )
    (call,) = [item for item in first.output if item.type == "function_call"]
    result = checks.weather(**json.loads(call.arguments))
    second = client.responses.create(
        model=checks.MODEL,
        previous_response_id=first.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": result}],
        tools=offered,
        tool_choice="none",
        max_output_tokens=16,
    )
    return checks.said(second.output_text)


def structured() -> str:
    reply = client.responses.parse(
        model=checks.MODEL, input=checks.HELLO, text_format=Trip, max_output_tokens=64
    )
    return checks.is_trip(reply.output_parsed.model_dump())


def cancel() -> str:
    stream = told.responses.create(model=checks.MODEL, input=checks.COUNT, stream=True)
    for _, event in zip(range(9), stream, strict=False):
        assert event.type
    stream.close()
    return "left after 9 events"


checks.run(chat, stream, tools, structured, cancel)
