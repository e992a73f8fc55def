"""Answers bound to a form, among others: always valid, and nobody's business but their row's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import httpx
import jsonschema
import openai
import pytest
from pydantic import BaseModel, Field

from serve.official import strangers

from .server import CHAT, Server, chat, opened, streamed, until_idle
from .shapes import SCHEMA, answers, apart, reply

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parents[1] / "text" / "schemas"
FORMATS = jsonschema.FormatChecker(["date", "email", "ipv4", "ipv6", "uuid"])
BRIEF = ("bounded_integer", "map_of_lists", "matrix", "one_of_payment", "scalar_enum", "sentiment")
LONG = 96  # tokens
MODEL = "default"


def written(name: str, **fields: Any) -> dict[str, Any]:
    """A request for an example of schema `name`."""
    schema = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    form = {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}
    asked = f"Write an example of {name.replace('_', ' ')} as JSON."
    return {**chat(asked, max_tokens=LONG, seed=5, **fields), "response_format": form}


def check(body: Mapping[str, Any], text: str, finish: str) -> None:
    """It is valid, or it was cut."""
    if finish != "length":
        schema = body["response_format"]["json_schema"]["schema"]
        jsonschema.validate(json.loads(text), schema, format_checker=FORMATS)


def threes(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[at : at + 3] for at in range(0, len(names), 3)]


OTHERS = sorted({path.stem for path in FOLDER.glob("*.json")} - set(BRIEF))
BATCHES = (
    *threes(BRIEF),
    *(pytest.param(names, marks=pytest.mark.slow) for names in threes(OTHERS)),
)


@pytest.mark.parametrize("names", BATCHES, ids="-".join)
@pytest.mark.timeout(600)
async def test_a_schema_is_kept_alone_and_in_a_batch_of_eight(
    http: httpx.AsyncClient, names: Sequence[str]
) -> None:
    bound = [{**written(name), "temperature": heat} for name in names for heat in (0, 1)]
    plain = [chat("Tell me about rain.", max_tokens=8), chat("Why?", max_tokens=8)]
    alone = [answers(await reply(http, CHAT, apart(body, "alone"))) for body in [*bound, *plain]]
    for body, ((text, finish),) in zip(bound, alone, strict=False):
        check(body, text, finish)
    crowd = [reply(http, CHAT, apart(body, "together")) for body in [*bound, *plain]]
    together = await asyncio.gather(*crowd)
    assert [answers(one) for one in together] == alone
    assert max(one["slipstream"]["rows_peak"] for one in together) > len(crowd) / 2


BOUND = chat("Describe a person.", temperature=1, seed=3, guided_json=SCHEMA)
FREE = chat("Tell me a long story.", ignore_eos=True)


@pytest.mark.parametrize(("bound", "free"), [(4, 12), (16, 4)])
async def test_whoever_of_a_bound_and_a_free_row_leaves_first_the_other_goes_on(
    http: httpx.AsyncClient, bound: int, free: int
) -> None:
    bodies = [{**BOUND, "max_tokens": bound}, {**FREE, "max_tokens": free}]
    alone = [await streamed(http, apart(body, "alone")) for body in bodies]
    together = await asyncio.gather(*(streamed(http, apart(body, "both")) for body in bodies))
    assert [one.text for one in together] == [one.text for one in alone]
    assert {one.own["rows_peak"] for one in together} == {2}


async def test_a_client_that_leaves_a_bound_row_disturbs_nobody(http: httpx.AsyncClient) -> None:
    others = [{**FREE, "max_tokens": 8}, {**BOUND, "max_tokens": 16, "seed": 4}]
    alone = [await streamed(http, apart(body, "alone")) for body in others]
    async with opened(http, {**BOUND, "max_tokens": 200}) as leaving:
        await anext(leaving)
        staying = [asyncio.create_task(streamed(http, apart(one, "left"))) for one in others]
        for _ in range(3):
            await anext(leaving)
    assert [(await one).text for one in staying] == [one.text for one in alone]
    await until_idle(http, 5)


class Animal(BaseModel):
    kind: Literal["cat", "dog", "bird"]
    legs: int = Field(ge=2, le=4)
    tame: bool


@pytest.fixture
async def official(server: Server) -> AsyncIterator[openai.AsyncOpenAI]:
    url = server.url + "/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        yield client


ANIMAL = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Describe a bird as JSON."}],
    "response_format": Animal,
    "temperature": 0,
    "max_completion_tokens": 60,
}


async def test_the_official_client_parses_into_a_type(official: openai.AsyncOpenAI) -> None:
    made = await official.chat.completions.parse(**ANIMAL)
    assert list(strangers(made)) == []
    message = made.choices[0].message
    assert message.parsed == Animal.model_validate_json(message.content)
    assert message.refusal is None


async def test_the_official_client_streams_into_a_type(official: openai.AsyncOpenAI) -> None:
    plain = await official.chat.completions.parse(**ANIMAL)
    async with official.chat.completions.stream(**ANIMAL) as stream:
        kinds = {event.type async for event in stream}
        whole = await stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert whole.choices[0].message.parsed == plain.choices[0].message.parsed


async def test_an_answer_that_was_cut_is_the_official_clients_own_error(
    official: openai.AsyncOpenAI,
) -> None:
    with pytest.raises(openai.LengthFinishReasonError):
        await official.chat.completions.parse(**{**ANIMAL, "max_completion_tokens": 4})
