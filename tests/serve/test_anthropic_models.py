"""The list of models, as Anthropic's own client asks for it."""

from __future__ import annotations

import anthropic
import pytest

from .official import strict
from .scripted import MODEL, ScriptedEngine
from .test_anthropic_client import client_of

pytestmark = pytest.mark.anyio

VERSION = {"anthropic-version": "2023-06-01"}
NAMES = ("a", "b", "c")


@pytest.fixture
async def official():
    async with client_of(ScriptedEngine(), served_names=NAMES) as opened:
        yield opened


@pytest.mark.parametrize("limit", [1, 2, 3, 20])
async def test_its_client_finds_every_model_page_by_page(official, limit):
    pages = official.models.list(limit=limit)
    assert [strict(one).id async for one in pages] == [*NAMES]


async def test_its_client_goes_back_too(official):
    page = await official.models.list(before_id="c", limit=1)
    assert [one.id for one in page.data] == ["b"]
    assert page.has_more


async def test_its_client_retrieves_one(official):
    one = strict(await official.models.retrieve("b"))
    assert (one.type, one.display_name, one.max_input_tokens) == ("model", "b", 4096)
    with pytest.raises(anthropic.NotFoundError):
        await official.models.retrieve("z")


async def test_everybody_else_gets_the_other_shape(client):
    listed = (await client.get("/v1/models")).json()
    assert listed["object"] == "list"
    assert MODEL in [one["id"] for one in listed["data"]]


@pytest.mark.parametrize(
    ("query", "param"),
    [("limit=0", "limit"), ("limit=x", "limit"), ("after_id=z", "after_id"), ("before_id=", "b")],
)
async def test_bad_queries_are_refused_by_name(client, query, param):
    reply = await client.get(f"/v1/models?{query}", headers=VERSION)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"].startswith(param)
