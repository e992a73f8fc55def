"""LangChain's ChatOpenAI."""

from typing import Literal

import checks
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


def model(url: str, **options) -> ChatOpenAI:
    return ChatOpenAI(
        model=checks.MODEL, base_url=f"{url}/v1", api_key=checks.KEY, max_retries=0, **options
    )


class Trip(BaseModel):
    city: Literal["Paris", "Rome"]
    days: Literal[1, 2, 3]


@tool
def get_weather(city: Literal["Paris", "Rome"]) -> str:
    """The weather in a city."""
    return checks.weather(city)


def chat() -> str:
    reply = model(checks.STARTER, max_tokens=16).invoke(checks.HELLO)
    assert reply.usage_metadata["output_tokens"] <= 16
    return checks.said(reply.content)


def stream() -> str:
    chunks = [*model(checks.STARTER, max_tokens=16, stream_usage=True).stream(checks.HELLO)]
    return checks.joined([chunk.content for chunk in chunks])


def tools() -> str:
    starter = model(checks.STARTER, max_tokens=64)
    asked = HumanMessage(checks.ASK)
    demanding = starter.bind_tools([get_weather], tool_choice="any", strict=True)
    first = demanding.invoke([asked])
    results = [get_weather.invoke(call) for call in first.tool_calls]
    assert results
    second = starter.bind_tools([get_weather], tool_choice="none").invoke([asked, first, *results])
    return checks.said(second.content)


def structured() -> str:
    bound = model(checks.STARTER, max_tokens=64).with_structured_output(Trip, method="json_schema")
    return checks.is_trip(bound.invoke(checks.HELLO).model_dump())


def cancel() -> str:
    stream = model(checks.TOLD).stream(checks.COUNT)
    for _ in zip(range(5), stream, strict=False):
        pass
    stream.close()
    return "left after 5 chunks"


checks.run(chat, stream, tools, structured, cancel)
