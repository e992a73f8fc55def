"""Tool calls of a model that never learnt any: demanded ones are made all the same."""

from __future__ import annotations

import json

import httpx
import pytest

from .server import CHAT, chat

pytestmark = pytest.mark.anyio

PLACE = {"type": "string", "enum": ["Paris", "Rome"]}
DAYS = {"type": "integer", "minimum": 1, "maximum": 9}
PARAMETERS = {
    "type": "object",
    "properties": {"city": PLACE, "days": DAYS},
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
NOW = {"type": "function", "function": {"name": "now"}}
NAMED = {"type": "function", "function": {"name": "get_weather"}}


@pytest.mark.parametrize("choice", ["required", NAMED])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_demanded_call_is_valid(http: httpx.AsyncClient, choice, stream: bool) -> None:
    body = chat(
        "How is the weather in Rome?",
        tools=[WEATHER] if choice == "required" else [NOW, WEATHER],
        tool_choice=choice,
        parallel_tool_calls=False,
        max_tokens=100,
        stream=stream,
    )
    reply = await http.post(CHAT, json=body)
    assert reply.status_code == 200, reply.text
    if stream:
        data = [line[6:] for line in reply.text.splitlines() if line.startswith("data: {")]
        choices = [json.loads(one)["choices"][0] for one in data]
        pieces = [p for c in choices for p in c["delta"].get("tool_calls", ())]
        name = pieces[0]["function"]["name"]
        written = "".join(piece["function"]["arguments"] for piece in pieces)
        finish = choices[-1]["finish_reason"]
    else:
        (found,) = reply.json()["choices"]
        (call,) = found["message"]["tool_calls"]
        name, written = call["function"]["name"], call["function"]["arguments"]
        finish = found["finish_reason"]
    arguments = json.loads(written)
    assert (name, finish) == ("get_weather", "tool_calls")
    assert arguments["city"] in ("Paris", "Rome") and 1 <= arguments["days"] <= 9


async def test_tools_that_the_template_drops_are_refused(http: httpx.AsyncClient) -> None:
    reply = await http.post(CHAT, json=chat("Hi", tools=[NOW]))
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "tools"
    allowed = await http.post(CHAT, json=chat("Hi", tools=[NOW], tool_choice="none", max_tokens=4))
    assert allowed.status_code == 200
