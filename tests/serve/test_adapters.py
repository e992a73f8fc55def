"""Adapters over HTTP: asked for on every API, mounted, listed, unmounted."""

from __future__ import annotations

import pytest

from slipstream.contracts.adapters import AdapterUse

from .scripted import CHAT, COMPLETIONS, MODEL, chat, client_of, text

pytestmark = pytest.mark.anyio
MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
BODIES = {
    CHAT: chat(),
    COMPLETIONS: text(),
    RESPONSES: {"input": "Hi"},
    MESSAGES: {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5},
}
FORMS = [
    ("a", [("a", 1.0)]),
    (["a", "b"], [("a", 1.0), ("b", 1.0)]),
    ([{"name": "a", "scale": 0.5}, "b"], [("a", 0.5), ("b", 1.0)]),
    ({"a": 0.5, "b": -2}, [("a", 0.5), ("b", -2.0)]),
    ([], []),
]


async def mount(client, name="sql", path="/adapters/sql"):
    return await client.post("/v1/adapters", json={"name": name, "path": path})


@pytest.mark.parametrize("route", BODIES)
@pytest.mark.parametrize(("given", "uses"), FORMS)
async def test_every_api_takes_every_form(engine, client, route, given, uses):
    reply = await client.post(route, json={**BODIES[route], "adapter": given})
    assert reply.status_code == 200
    assert engine.last.adapters == tuple(AdapterUse(*use) for use in uses)


@pytest.mark.parametrize("route", BODIES)
async def test_a_request_that_names_none_leaves_it_to_the_server(engine, client, route):
    for more in ({}, {"adapter": None}):
        await client.post(route, json={**BODIES[route], **more})
        assert engine.last.adapters is None


@pytest.mark.parametrize("route", BODIES)
@pytest.mark.parametrize("model", [MODEL, "default", "tiny-1B"])
async def test_a_model_name_with_a_colon_asks_for_an_adapter(engine, client, route, model):
    await mount(client)
    reply = await client.post(route, json={**BODIES[route], "model": f"{model}:sql"})
    assert engine.last.adapters == (AdapterUse("sql"),)
    assert reply.json()["model"] == f"{model}:sql"


async def test_a_model_name_with_an_adapter_that_is_not_mounted_is_not_found(client):
    await mount(client)
    for model in (f"{MODEL}:law", "other:sql", ":sql", f"{MODEL}:"):
        reply = await client.post(CHAT, json=chat(model=model))
        assert reply.status_code == 404
        assert reply.json()["error"]["code"] == "model_not_found"
        assert f"{MODEL}:sql" in reply.json()["error"]["message"]


async def test_the_field_may_repeat_the_models_name_and_not_contradict_it(engine, client):
    await mount(client)
    same = await client.post(CHAT, json=chat(model=f"{MODEL}:sql", adapter="sql"))
    assert same.status_code == 200
    for other in ("law", {"sql": 0.5}, []):
        reply = await client.post(CHAT, json=chat(model=f"{MODEL}:sql", adapter=other))
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, "adapter")


async def test_the_field_of_another_server_is_refused_and_says_what_to_send(client):
    reply = await client.post(CHAT, json=chat(adapters="/some/folder"))
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "adapters")


async def test_embeddings_take_no_adapter(client):
    await mount(client)
    by_field = {"input": "Hi", "adapter": "sql"}
    by_name = {"input": "Hi", "model": f"{MODEL}:sql"}
    for body, param in ((by_field, "adapter"), (by_name, "model")):
        reply = await client.post("/v1/embeddings", json=body)
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


async def test_what_is_mounted_is_listed_there_and_among_the_models(engine, client):
    made = (await mount(client)).json()
    assert made["model"] == f"{MODEL}:sql"
    assert made["unmounted"] == []
    engine.adapters.busy.add("sql")
    listed = (await client.get("/v1/adapters")).json()["data"]
    del made["unmounted"]
    assert listed == [{**made, "rows": 1}]
    models = (await client.get("/v1/models")).json()["data"]
    assert models[-1]["id"] == f"{MODEL}:sql"
    one = await client.get(f"/v1/models/{MODEL}:sql")
    assert one.json() == models[-1]


async def test_unmounting_takes_the_name_away(client):
    await mount(client)
    reply = await client.delete("/v1/adapters/sql")
    assert reply.json() == {"id": "sql", "object": "adapter", "deleted": True}
    assert (await client.get("/v1/adapters")).json()["data"] == []
    assert (await client.get(f"/v1/models/{MODEL}:sql")).status_code == 404
    assert (await client.delete("/v1/adapters/sql")).status_code == 404


async def test_one_in_use_stays_unless_the_last_row_may_be_awaited(engine, client):
    await mount(client)
    engine.adapters.busy.add("sql")
    refused = await client.delete("/v1/adapters/sql")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "adapter_in_use")
    odd = await client.delete("/v1/adapters/sql?when=later")
    assert (odd.status_code, odd.json()["error"]["param"]) == (400, "when")
    assert (await client.delete("/v1/adapters/sql?when=idle")).status_code == 200


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "name"),
        ({"name": "sql"}, "path"),
        ({"name": 5, "path": "/x"}, "name"),
        ({"name": "", "path": "/x"}, "name"),
        ({"name": "a:b", "path": "/x"}, "name"),
        ({"name": "../x", "path": "/x"}, "name"),
        ({"name": "x" * 65, "path": "/x"}, "name"),
        ({"name": "sql", "path": "/broken"}, "path"),
    ],
)
async def test_a_bad_mount_names_its_field_and_changes_nothing(engine, client, body, param):
    reply = await client.post("/v1/adapters", json=body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
    assert engine.adapters.mounted == {}


async def test_unknown_fields_of_a_mount_are_declared_or_refused(engine, client):
    body = {"name": "sql", "path": "/x", "colour": "red"}
    reply = await client.post("/v1/adapters", json=body)
    assert reply.json()["slipstream"] == {"ignored": ["colour"]}
    async with client_of(engine, strict=True) as strict:
        assert (await strict.post("/v1/adapters", json=body)).status_code == 400
