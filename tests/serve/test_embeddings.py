"""/v1/embeddings: what it takes, what it gives, and the official client that reads it."""

from __future__ import annotations

import asyncio
import base64
import struct

import openai
import pytest

from slipstream.contracts.errors import InvalidRequest, QueueFull

from .official import strict
from .scripted import MODEL, ScriptedEngine, client_of

pytestmark = pytest.mark.anyio

EMBEDDINGS = "/v1/embeddings"
GOOD = [
    ("one", ["one"]),
    (["a", "bc"], ["a", "bc"]),
    ([1, 2, 3], [[1, 2, 3]]),
    ([[1], [2, 3]], [[1], [2, 3]]),
]
BAD = [
    ({}, "input"),
    ({"input": None}, "input"),
    ({"input": 5}, "input"),
    ({"input": {}}, "input"),
    ({"input": []}, "input"),
    ({"input": ""}, "input[0]"),
    ({"input": ["a", ""]}, "input[1]"),
    ({"input": ["a", 5]}, "input"),
    ({"input": ["a", [5]]}, "input"),
    ({"input": [[]]}, "input"),
    ({"input": [[1], []]}, "input"),
    ({"input": [1.5]}, "input"),
    ({"input": [-1]}, "input"),
    ({"input": [True]}, "input"),
    ({"input": [None]}, "input"),
    ({"input": ["x"] * 2049}, "input"),
    ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
    ({"input": "a", "encoding_format": 5}, "encoding_format"),
    ({"input": "a", "dimensions": 0}, "dimensions"),
    ({"input": "a", "dimensions": "8"}, "dimensions"),
    ({"input": "a", "dimensions": 1.5}, "dimensions"),
    ({"input": "a", "dimensions": True}, "dimensions"),
    ({"input": "a", "model": 5}, "model"),
    ({"input": "a", "adapter": "polite"}, "adapter"),
    ({"input": "a", "stream": True}, "stream"),
]


@pytest.fixture
async def official(engine: ScriptedEngine):
    async with client_of(engine) as transport:
        yield openai.AsyncOpenAI(
            base_url="http://test/v1", api_key="none", max_retries=0, http_client=transport
        )


@pytest.mark.parametrize(("given", "expected"), GOOD)
async def test_an_input_is_a_text_texts_ids_or_lists_of_ids(client, engine, given, expected):
    reply = await client.post(EMBEDDINGS, json={"input": given})
    assert reply.status_code == 200
    assert engine.embedded == expected
    body = reply.json()
    assert [one["index"] for one in body["data"]] == list(range(len(expected)))
    assert [one["embedding"][0] for one in body["data"]] == [len(one) for one in expected]
    tokens = 2 * len(expected)
    assert body["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    assert body["slipstream"]["lane"] == reply.headers["x-slipstream-lane"] == "group"


@pytest.mark.parametrize(("body", "param"), BAD, ids=str)
async def test_bad_bodies_are_refused_by_name(client, engine, body, param):
    reply = await client.post(EMBEDDINGS, json=body)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == param
    assert engine.embedded == []
    assert (await client.post(EMBEDDINGS, json={"input": "a"})).status_code == 200


async def test_numbers_and_base64_are_the_same_vector(client):
    numbers, coded = [
        (await client.post(EMBEDDINGS, json={"input": "abc", "encoding_format": form})).json()
        for form in ("float", "base64")
    ]
    raw = base64.b64decode(coded["data"][0]["embedding"])
    assert struct.unpack("<3f", raw) == tuple(numbers["data"][0]["embedding"])


@pytest.mark.parametrize("form", ["float", "base64", openai.NOT_GIVEN])
async def test_the_official_client_reads_either(official, form):
    made = await official.embeddings.create(
        model=MODEL, input=["a", "bc"], encoding_format=form, dimensions=2
    )
    if form != "base64":  # asked for by name, it is left to the caller
        strict(made)
        assert [one.embedding for one in made.data] == [[1.0, 0.0], [2.0, 1.0]]
    assert [one.index for one in made.data] == [0, 1]
    assert made.usage.total_tokens == 4


async def test_what_changes_nothing_is_declared_or_refused(client):
    body = {"input": "a", "user": "me"}
    reply = await client.post(EMBEDDINGS, json=body)
    assert reply.json()["slipstream"]["ignored"] == ["user"]
    async with client_of(ScriptedEngine(), strict=True) as strictly:
        refused = await strictly.post(EMBEDDINGS, json=body)
        assert refused.json()["error"]["param"] == "user"


@pytest.mark.parametrize(
    ("refusal", "status"),
    [(InvalidRequest("It makes none.", param="model"), 400), (QueueFull("Full."), 429)],
)
async def test_refusals_of_the_engine_come_through(client, engine, refusal, status):
    engine.refusal = refusal
    reply = await client.post(EMBEDDINGS, json={"input": "a"})
    assert reply.status_code == status
    assert reply.json()["error"]["param"] == refusal.param


async def test_names_of_other_models_are_not_found(client):
    reply = await client.post(EMBEDDINGS, json={"input": "a", "model": "other"})
    assert reply.status_code == 404


async def test_a_client_that_leaves_ends_its_work(engine):
    engine.compiled.clear()
    async with client_of(engine) as client:
        asking = asyncio.create_task(client.post(EMBEDDINGS, json={"input": "a"}))
        await engine.asked.wait()
        asking.cancel()
        await engine.given_up.wait()
