"""Routes, methods, media types and sizes; and the routes that do not generate."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from slipstream.contracts import errors
from slipstream.contracts.backend import Memory
from slipstream.contracts.report import EngineStats, LaneStats
from slipstream.serve.queries import MOST

from .response_events import RESPONSES
from .scripted import CHAT, COMPLETIONS, MODEL, ScriptedEngine, chat, client_of, served

pytestmark = pytest.mark.anyio

ROUTES = {
    CHAT: "POST",
    COMPLETIONS: "POST",
    RESPONSES: "POST",
    "/v1/embeddings": "POST",
    "/v1/models": "GET",
    f"/v1/models/{MODEL}": "GET",
    "/tokenize": "POST",
    "/detokenize": "POST",
    "/health": "GET",
    "/ready": "GET",
    "/stats": "GET",
    "/model_info": "GET",
    "/admin/cache/flush": "POST",
    "/admin/rows": "GET",
    "/openapi.json": "GET",
}
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(("path", "method"), ROUTES.items())
async def test_a_wrong_method_gets_405_and_the_right_ones(client, path, method):
    for wrong in {"GET", "POST", "PUT", "DELETE", "PATCH"} - {method}:
        reply = await client.request(wrong, path)
        assert reply.status_code == 405
        assert method in reply.headers["allow"]
        assert reply.json()["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize(("path", "method"), ROUTES.items())
async def test_options_lists_the_methods(client, path, method):
    reply = await client.options(path)
    assert reply.status_code == 204
    assert method in reply.headers["allow"]


@pytest.mark.parametrize("path", [path for path, method in ROUTES.items() if method == "GET"])
async def test_head_is_get_without_a_body(path):
    async with served(ScriptedEngine()) as url, httpx.AsyncClient() as client:
        got, head = await client.get(url + path), await client.head(url + path)
    assert head.status_code == got.status_code == 200
    assert head.headers["content-type"] == got.headers["content-type"]
    assert head.content == b""


@pytest.mark.parametrize(
    "path", ["/v1/nothing/here", "/v1", "/STATS", "/stats/", "http://test//stats", "/v2"]
)
async def test_what_is_not_there_is_a_json_404(client, path):
    reply = await client.get(path)
    assert reply.status_code == 404
    assert set(reply.json()["error"]) == {"message", "type", "param", "code"}


async def test_under_the_messages_route_errors_have_its_shape(client):
    reply = await client.get("/v1/messages/nothing")
    assert reply.status_code == 404
    assert reply.json()["type"] == "error"
    assert reply.json()["error"]["type"] == "not_found_error"
    assert reply.headers["request-id"] == reply.headers["x-request-id"]


@pytest.mark.parametrize(
    "media", ["text/xml", "text/plain", "application/x-www-form-urlencoded", ""]
)
@pytest.mark.parametrize(
    "path", [CHAT, COMPLETIONS, RESPONSES, "/v1/embeddings", "/tokenize", "/detokenize"]
)
async def test_a_body_that_is_not_called_json_gets_415(client, path, media):
    reply = await client.post(path, content=b"{}", headers={"content-type": media})
    assert reply.status_code == 415
    assert reply.json()["error"]["code"] == "unsupported_media_type"


@pytest.mark.parametrize(
    "media", ["application/json; charset=utf-8", "Application/JSON", "application/x+json"]
)
async def test_json_by_any_of_its_names_is_taken(client, media):
    reply = await client.post(CHAT, content=json.dumps(chat()), headers={"content-type": media})
    assert reply.status_code == 200


async def test_a_compressed_body_gets_415(client):
    reply = await client.post(CHAT, content=b"{}", headers={**JSON, "content-encoding": "gzip"})
    assert reply.status_code == 415


async def test_a_body_that_says_it_is_too_large_is_not_read(engine):
    async with client_of(engine, max_body=0.001) as client:
        reply = await client.post(CHAT, content=b"{}", headers={**JSON, "content-length": "9" * 30})
    assert reply.status_code == 413
    assert reply.json()["error"]["code"] == "body_too_large"


async def test_a_body_without_a_length_is_cut_off_at_the_limit(engine):
    sent = 0

    async def endless():
        nonlocal sent
        while True:
            sent += 1
            yield b" " * 100

    async with client_of(engine, max_body=0.001) as client:
        reply = await client.post(CHAT, content=endless(), headers=JSON)
    assert reply.status_code == 413
    assert sent == 11


async def test_a_large_body_gets_its_413_over_a_socket_too():
    async def large():
        for _ in range(64):
            yield b" " * 65536

    async with served(ScriptedEngine(), max_body=1) as url, httpx.AsyncClient() as client:
        for content in (large(), b" " * (1 << 22)):
            reply = await client.post(url + CHAT, content=content, headers=JSON)
            assert reply.status_code == 413
        assert (await client.post(url + CHAT, json=chat())).status_code == 200


async def test_a_sane_request_id_is_kept(client):
    reply = await client.post(CHAT, json=chat(), headers={"x-request-id": "mine-42"})
    assert reply.headers["x-request-id"] == "mine-42"


@pytest.mark.parametrize("given", ["", "with space", "x" * 129, "\x7f"])
async def test_any_other_request_id_is_replaced(client, engine, given):
    reply = await client.post(CHAT, json=chat(), headers={"x-request-id": given})
    assert reply.headers["x-request-id"] not in ("", given)
    assert engine.last.request_id == reply.headers["x-request-id"]


async def test_errors_have_request_ids_of_their_own(client):
    ids = {(await client.get("/nothing")).headers["x-request-id"] for _ in range(2)}
    assert len(ids) == 2


async def test_models_are_listed_with_their_context(client):
    listed = (await client.get("/v1/models")).json()
    assert listed["object"] == "list"
    assert [entry["id"] for entry in listed["data"]][:2] == [MODEL, "tiny-1B"]
    for entry in listed["data"]:
        assert entry["object"] == "model"
        assert entry["max_model_len"] == 4096
        assert (await client.get(f"/v1/models/{entry['id']}")).json() == entry


async def test_an_unserved_model_is_not_shown(client):
    reply = await client.get("/v1/models/absent")
    assert reply.status_code == 404
    assert reply.json()["error"]["code"] == "model_not_found"


async def test_tokens_come_with_their_count_and_the_context(client):
    reply = await client.post("/tokenize", json={"prompt": "ab"})
    assert reply.json() == {"tokens": [1, 97, 98], "count": 3, "max_model_len": 4096}


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({"prompt": "a", "add_special_tokens": False}, [97]),
        ({"messages": [{"role": "user", "content": "a"}]}, [97]),
        ({"messages": [{"role": "user", "content": "a"}], "add_special_tokens": True}, [1, 97]),
    ],
)
async def test_special_tokens_are_for_texts_unless_said_otherwise(client, fields, tokens):
    assert (await client.post("/tokenize", json=fields)).json()["tokens"] == tokens


async def test_tokens_come_as_text_when_asked_for(client):
    reply = await client.post("/tokenize", json={"prompt": "a", "return_token_strs": True})
    assert reply.json()["token_strs"] == ["\x01", "a"]


async def test_tokens_turn_back_into_text(client):
    reply = await client.post("/detokenize", json={"model": MODEL, "tokens": [97, 98]})
    assert reply.json() == {"prompt": "ab"}


async def test_unknown_fields_of_the_token_routes_are_declared(client):
    reply = await client.post("/detokenize", json={"tokens": [97], "foo": 1})
    assert reply.json() == {"prompt": "a", "slipstream": {"ignored": ["foo"]}}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": []}, "prompt"),
        ("/tokenize", {"prompt": 5}, "prompt"),
        ("/tokenize", {"prompt": "a" * (MOST + 1)}, "prompt"),
        ("/detokenize", {"tokens": [97] * (MOST + 1)}, "tokens"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/tokenize", {"prompt": "a", "add_special_tokens": 1}, "add_special_tokens"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": "a"}, "tokens"),
        ("/detokenize", {"tokens": [1000]}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens[0]"),
        ("/detokenize", {"tokens": [True]}, "tokens[0]"),
    ],
)
async def test_bad_bodies_of_the_token_routes_are_named(client, path, body, param):
    reply = await client.post(path, json=body)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"].startswith(param)


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize"])
async def test_the_token_routes_know_which_models_there_are(client, path):
    reply = await client.post(path, json={"model": "absent", "prompt": "a", "tokens": [1]})
    assert reply.status_code == 404


async def test_health_tells_the_reason(client, engine):
    assert (await client.get("/health")).status_code == 200
    engine.unhealthy = "the device thread died"
    reply = await client.get("/health")
    assert reply.status_code == 503
    assert reply.json()["reason"] == "the device thread died"


@pytest.mark.parametrize(
    ("state", "status"), [("ready", 200), ("loading", 503), ("draining", 503), ("failed", 500)]
)
async def test_only_a_ready_server_answers(client, engine, state, status):
    engine.state = state
    for method, path, body in (
        ("GET", "/ready", None),
        ("GET", "/v1/models", None),
        ("GET", f"/v1/models/{MODEL}", None),
        ("POST", CHAT, chat()),
        ("POST", "/tokenize", {"prompt": "a"}),
        ("POST", "/detokenize", {"tokens": [97]}),
    ):
        reply = await client.request(method, path, json=body)
        assert reply.status_code == status
        assert ("retry-after" in reply.headers) == (status == 503)
    assert (await client.get("/health")).status_code == 200


async def test_model_info_is_what_routers_ask(client):
    info = (await client.get("/model_info")).json()
    assert info["model_path"] == "models/tiny"
    assert info["served_model_name"] == MODEL
    assert info["context_length"] == 4096


async def test_stats_have_their_documented_shape(client, engine):
    engine.numbers = EngineStats(
        turns=5,
        group=LaneStats(active=1, max=8, submitted=3),
        solo=LaneStats(active=1, max=1, submitted=2),
        waiting=4,
        queue_max=64,
        rejected=6,
        memory=Memory(weights=10, active=20, peak=30, budget=40),
        prompt_tokens=7,
        generated_tokens=9,
        placements={"none": 3},
        finish={"stop": 2},
    )
    stats = (await client.get("/stats")).json()
    assert stats.pop("uptime_s") >= 0
    assert stats == {
        "model": MODEL,
        "turns": 5,
        "lanes": {
            "group": {"active": 1, "max": 8, "submitted": 3},
            "solo": {"active": 1, "submitted": 2},
        },
        "queue": {"waiting": 4, "max": 64, "rejected": 6},
        "lease": {"held_by": None, "waiting": 0},
        "memory": {
            "weights": 10,
            "kv": 0,
            "kv_budget": 0,
            "prefix_ram": 0,
            "active": 20,
            "peak": 30,
            "budget": 40,
        },
        "prefix_cache": {
            "entries": 0,
            "bytes": 0,
            "hits": 0,
            "misses": 0,
            "hit_tokens": 0,
            "ssd_bytes": 0,
            "ssd_hits": 0,
            "dirty": 0,
        },
        "tokens": {"prompt": 7, "cached": 0, "generated": 9},
        "placements": {"none": 3},
        "spec": {"drafted": 0, "accepted": 0},
        "finish": {"stop": 2},
    }


FAULT = (500, "server_error")
MAP = [
    (errors.InvalidRequest("x", param="seed"), 400, "invalid_request_error"),
    (errors.ContextExceeded(9000, 4096, param="messages"), 400, "invalid_request_error"),
    (errors.Unauthorized("x"), 401, "authentication_error"),
    (errors.NotFound("x"), 404, "not_found_error"),
    (errors.WrongMethod("x"), 405, "invalid_request_error"),
    (errors.TooLarge("x"), 413, "invalid_request_error"),
    (errors.WrongMedia("x"), 415, "invalid_request_error"),
    (errors.QueueFull("x"), 429, "rate_limit_error"),
    (errors.Unavailable("x"), 503, "service_unavailable_error"),
    (errors.RowFault("step", "x"), *FAULT),
    (errors.ForwardFault("x"), *FAULT),
    (errors.OverBudget("x", param="max_tokens"), 400, "invalid_request_error"),
    (errors.ModelError("x"), *FAULT),
]


@pytest.mark.parametrize(("error", "status", "kind"), MAP, ids=lambda v: type(v).__name__)
async def test_every_error_has_its_status_and_type(client, engine, error, status, kind):
    engine.refusal = error
    reply = await client.post(CHAT, json=chat())
    body = reply.json()["error"]
    assert reply.status_code == status
    assert body == {
        "message": error.message,
        "type": kind,
        "param": error.param,
        "code": error.code,
    }
    assert ("retry-after" in reply.headers) == (status in (429, 503))


async def test_what_nobody_foresaw_is_a_500_that_shows_nothing(client, engine, caplog):
    engine.refusal = ZeroDivisionError("secret detail")
    reply = await client.post(CHAT, json=chat())
    assert reply.status_code == 500
    assert "secret" not in reply.text
    assert reply.headers["x-request-id"] in reply.json()["error"]["message"]
    assert "secret detail" in caplog.text


async def test_an_upload_that_breaks_off_is_nobodys_fault(caplog):
    engine = ScriptedEngine()
    async with served(engine) as url:
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}content-length: 100\r\n\r\n{{".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()
    assert engine.runnings == []
    assert caplog.records == []


async def test_a_flush_says_what_it_made_durable(client):
    reply = await client.post("/admin/cache/flush")
    assert reply.status_code == 200
    assert reply.json() == {"written": 3, "bytes": 1 << 20}


async def test_a_flush_waits_for_a_model(client, engine):
    engine.state = "loading"
    assert (await client.post("/admin/cache/flush")).status_code == 503
