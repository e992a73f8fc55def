"""Pydantic AI: its agent decides by itself when to call, so tools go to the told model."""

import asyncio
from typing import Literal

import checks
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


def model(url: str) -> OpenAIChatModel:
    provider = OpenAIProvider(base_url=f"{url}/v1", api_key=checks.KEY)
    return OpenAIChatModel(checks.MODEL, provider=provider)


class Trip(BaseModel):
    city: Literal["Paris", "Rome"]
    days: Literal[1, 2, 3]


def get_weather(city: Literal["Paris", "Rome"]) -> str:
    """The weather in a city."""
    return checks.weather(city)


def chat() -> str:
    agent = Agent(model(checks.STARTER), model_settings={"max_tokens": 16})
    return checks.said(agent.run_sync(checks.HELLO).output)


def stream() -> str:
    async def pieces() -> list[str]:
        agent = Agent(model(checks.STARTER), model_settings={"max_tokens": 16})
        async with agent.run_stream(checks.HELLO) as run:
            return [one async for one in run.stream_text(delta=True, debounce_by=None)]

    return checks.joined(asyncio.run(pieces()))


def tools() -> str:
    agent = Agent(model(checks.TOLD), tools=[get_weather])
    return checks.repeated(agent.run_sync(checks.ORDER).output)


def structured() -> str:
    called = Agent(model(checks.STARTER), output_type=Trip, model_settings={"max_tokens": 64})
    checks.is_trip(called.run_sync(checks.HELLO).output.model_dump())
    bound = Agent(
        model(checks.STARTER), output_type=NativeOutput(Trip), model_settings={"max_tokens": 64}
    )
    return checks.is_trip(bound.run_sync(checks.HELLO).output.model_dump())


def cancel() -> str:
    async def leave() -> None:
        async with Agent(model(checks.TOLD)).run_stream(checks.COUNT) as run:
            count = 0
            async for _ in run.stream_text(delta=True, debounce_by=None):
                if (count := count + 1) == 5:
                    await run.cancel()
                    return

    asyncio.run(leave())
    return "left after 5 texts"


checks.run(chat, stream, tools, structured, cancel)
