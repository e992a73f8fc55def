"""What a user asks first, over plain HTTP and through the official client."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import openai
import pytest

from serve.official import strict

from .server import CHAT, Server, chat, streamed, whole

pytestmark = pytest.mark.anyio

FRANCE = "What is the capital of France?"
MESSAGES = [{"role": "user", "content": FRANCE}]
MODEL = "SmolLM2-135M-Instruct"


@pytest.fixture
async def official(server: Server) -> AsyncIterator[openai.AsyncOpenAI]:
    url = server.url + "/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as opened:
        yield opened


async def test_the_capital_of_france(http: httpx.AsyncClient) -> None:
    reply = await http.post(CHAT, json=chat(FRANCE, max_tokens=20))
    assert "Paris" in reply.json()["choices"][0]["message"]["content"]
    assert reply.headers["x-slipstream-lane"] == "group"
    assert reply.headers["x-slipstream-reasons"] == ""


async def test_the_capital_of_france_without_a_template(http: httpx.AsyncClient) -> None:
    body = {"prompt": "The capital of France is", "temperature": 0, "max_tokens": 8}
    reply = (await http.post("/v1/completions", json=body)).json()
    assert "Paris" in reply["choices"][0]["text"]


async def test_a_stream_adds_up_to_the_plain_reply(http: httpx.AsyncClient) -> None:
    for body in (
        chat(FRANCE, max_tokens=8),
        chat("Write a poem.", max_tokens=8, temperature=1, seed=7),
        chat("Count to ten in words.", max_tokens=16, stop=["three"]),
    ):
        # Apart in the prefix cache, so that the second does not find more there than the first.
        first, second = ({**body, "cache_salt": salt} for salt in ("stream", "plain"))
        piecewise, plain = await streamed(http, first), await whole(http, second)
        assert (piecewise.text, piecewise.finish) == (plain.text, plain.finish)
        assert piecewise.usage == plain.usage
        assert piecewise.own.keys() == plain.own.keys()


async def test_a_forced_solo_row_says_so_and_answers_the_same(http: httpx.AsyncClient) -> None:
    body = chat(FRANCE, max_tokens=12)
    solo = await whole(http, {**body, "lane": "solo"})
    assert (solo.own["lane"], solo.own["reasons"]) == ("solo", ["lane_requested"])
    assert solo.text == (await whole(http, body)).text


async def test_the_official_client_chats(official: openai.AsyncOpenAI) -> None:
    body = strict(
        await official.chat.completions.create(
            model=MODEL, messages=MESSAGES, temperature=0, max_completion_tokens=20
        )
    )
    assert "Paris" in body.choices[0].message.content
    assert body.usage.completion_tokens <= 20


async def test_the_official_client_streams(official: openai.AsyncOpenAI) -> None:
    stream = await official.chat.completions.create(
        model="default",
        messages=MESSAGES,
        temperature=0,
        max_tokens=20,
        stream=True,
        stream_options={"include_usage": True},
    )
    found = [strict(chunk) async for chunk in stream]
    assert len({chunk.id for chunk in found}) == 1
    assert "Paris" in "".join(c.choices[0].delta.content or "" for c in found[:-1])
    assert found[-1].choices == [] and found[-1].usage.total_tokens > 0


async def test_the_official_client_completes(official: openai.AsyncOpenAI) -> None:
    body = strict(
        await official.completions.create(
            model=MODEL, prompt=["One, two,", "The capital of France is"], max_tokens=6
        )
    )
    assert [choice.index for choice in body.choices] == [0, 1]
    assert "Paris" in body.choices[1].text


async def test_the_official_client_lists_the_models(official: openai.AsyncOpenAI) -> None:
    listed = [entry.id async for entry in official.models.list()]
    assert MODEL in listed
    entry = await official.models.retrieve(MODEL)
    assert (entry.id, entry.object) == (MODEL, "model")
