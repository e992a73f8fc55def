"""The OpenAPI document tells the truth: every route it has exists, and real bodies fit it."""

from __future__ import annotations

import asyncio

import jsonschema
import pytest

from slipstream.serve.openapi import OPERATIONS, plain

from .response_events import RESPONSES
from .scripted import CHAT, COMPLETIONS, HELLO, MODEL, ScriptedEngine, chat, client_of, text
from .test_responses import CALLS, CODEX

pytestmark = pytest.mark.anyio

ORIGIN = "https://app.example"
BODIES = {
    f"POST {CHAT}": [chat(), chat(temperature=1, stop=["a"], logit_bias={"5": 1}), chat(foo=1)],
    f"POST {COMPLETIONS}": [text(), text(prompt=["a", "b"]), text(echo=True, logprobs=1)],
    f"POST {RESPONSES}": [{"input": "Hi"}, {"input": [{"role": "user", "content": "a"}]}, CODEX],
    "POST /v1/messages": [{**chat(), "model": MODEL, "max_tokens": 5}],
    "POST /v1/messages/count_tokens": [{**chat(), "model": MODEL}],
    "POST /v1/embeddings": [{"input": "a"}, {"input": [[1], [2]], "encoding_format": "base64"}],
    "POST /v1/adapters": [{"name": "sql", "path": "/x"}, {"name": "a", "path": "/x", "y": 1}],
    "POST /tokenize": [
        {"prompt": "a"},
        {**chat(), "return_token_strs": True},
        {"prompt": "a", "x": 1},
    ],
    "POST /detokenize": [{"tokens": [97]}, {"tokens": [97], "x": 1}],
}


@pytest.fixture
async def described(client):
    reply = await client.get("/openapi.json")
    assert reply.status_code == 200
    return reply.json()


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


async def every_operation():
    async with client_of(ScriptedEngine()) as client:
        return [*operations((await client.get("/openapi.json")).json())]


async def path_of(client, path, engine):
    """`path` with names of things that exist."""
    if "{name}" not in path:
        return path
    if path.startswith("/admin/rows"):
        return path.replace("{name}", await running(client, engine))
    if path.startswith("/v1/adapters"):
        await client.post("/v1/adapters", json={"name": "law", "path": "/x"})
        return path.replace("{name}", "law")
    if path.startswith("/v1/models"):
        return path.replace("{name}", MODEL)
    if path.startswith("/admin/traces"):
        await client.post(CHAT, json=chat(), headers={"x-request-id": "mine"})
        return path.replace("{name}", "mine")
    response = (await client.post(RESPONSES, json={"input": "Hi"})).json()
    return path.replace("{name}", response["id"])


async def running(client, engine):
    """The id of a request that goes on until it is ended."""
    engine.script, engine.submitted = (asyncio.Event(),), asyncio.Event()
    asking = asyncio.create_task(client.post(CHAT, json=chat()))
    await engine.submitted.wait()
    await engine.runnings[-1].read.wait()
    asking.add_done_callback(lambda _: setattr(engine, "script", HELLO))
    return engine.last.request_id


def fits(value, schema, document):
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(
        value
    )


async def test_every_operation_is_a_route_and_the_reverse(described):
    assert {f"{method} {path}" for method, path, _ in operations(described)} == set(OPERATIONS)


async def test_every_schema_is_sound_and_every_reference_leads_somewhere(described):
    for name, schema in described["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert name
    for reference in references(described):
        *_, name = reference.split("/")
        assert name in described["components"]["schemas"]


def references(node):
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for child in node.values():
            yield from references(child)
    elif isinstance(node, list):
        for child in node:
            yield from references(child)


async def test_every_operation_takes_and_gives_what_it_says(client, engine, described):
    for method, path, operation in operations(described):
        for body in BODIES.get(f"{method} {path}", [None]):
            where = await path_of(client, path, engine)
            reply = await client.request(method, where, json=body)
            assert reply.status_code == 200, (method, path, reply.text)
            given = operation["responses"]["200"]["content"]["application/json"]["schema"]
            fits(reply.json(), given, described)
            if body is not None:
                asked = operation["requestBody"]["content"]["application/json"]["schema"]
                fits(body, asked, described)
        assert ("requestBody" in operation) == (f"{method} {path}" in BODIES)


async def test_answers_with_calls_and_reasoning_fit_too(client, engine, described):
    engine.script = CALLS
    messages = "/v1/messages"
    asked = ((CHAT, chat()), (RESPONSES, {"input": "Hi"}), (messages, chat(max_tokens=9)))
    for path, body in asked:
        answer = (await client.post(path, json=body)).json()
        content = described["paths"][path]["post"]["responses"]["200"]["content"]
        fits(answer, content["application/json"]["schema"], described)


async def test_every_error_fits(client, engine, described):
    for method, path, operation in operations(described):
        reply = await client.request("PATCH", await path_of(client, path, engine))
        assert reply.status_code == 405
        assert method in reply.headers["allow"]
        error = operation["responses"]["default"]["content"]["application/json"]["schema"]
        fits(reply.json(), error, described)


async def test_every_operation_but_health_needs_a_key():
    async with client_of(ScriptedEngine(), api_keys=("right",)) as locked:
        for method, path, operation in await every_operation():
            reply = await locked.request(method, path.replace("{name}", "x"))
            assert reply.status_code == (200 if operation.get("security") == [] else 401), path
    assert [path for _, path, one in await every_operation() if "security" in one] == ["/health"]


async def test_every_operation_is_open_to_a_listed_origin_and_to_no_other():
    async with client_of(ScriptedEngine(), allowed_origins=(ORIGIN,)) as client:
        for method, path, _ in await every_operation():
            where = path.replace("{name}", "x")
            asking = {"access-control-request-method": method}
            for origin, expected in ((ORIGIN, ORIGIN), ("https://evil.example", None)):
                preflight = await client.options(where, headers={"origin": origin, **asking})
                reply = await client.request(method, where, headers={"origin": origin})
                for one in (preflight, reply):
                    assert one.headers.get("access-control-allow-origin") == expected, where
                    assert "access-control-allow-credentials" not in one.headers
                if expected:
                    assert method in preflight.headers["access-control-allow-methods"]


async def test_no_operation_reads_a_body_over_the_limit():
    async with client_of(ScriptedEngine(), max_body=0.001) as client:
        for method, path, _ in await every_operation():
            where = path.replace("{name}", "x")
            large = {"content-type": "application/json", "content-length": "9" * 12}
            reply = await client.request(method, where, content=b"{}", headers=large)
            assert reply.status_code == 413, where


def test_paths_lose_their_converters():
    assert plain("/v1/models/{name:path}") == "/v1/models/{name}"
    assert plain("/v1/responses/{name}") == "/v1/responses/{name}"
