"""Keys and origins."""

from __future__ import annotations

import pytest

from .scripted import CHAT, MODEL, ScriptedEngine, chat, client_of
from .test_routes import ROUTES

pytestmark = pytest.mark.anyio

KEY = "sk-right"
ORIGIN = "https://app.example"
GOOD = [{"authorization": f"Bearer {KEY}"}, {"authorization": f"bearer {KEY}"}, {"x-api-key": KEY}]
BAD = [
    {},
    {"authorization": "Bearer wrong"},
    {"authorization": "Bearer"},
    {"authorization": "Bearer "},
    {"authorization": KEY},
    {"authorization": f"Basic {KEY}"},
    {"x-api-key": ""},
    {"x-api-key": KEY + "x"},
    {"x-api-key": KEY[:-1]},
    {"x-api-key": "schlüssel".encode()},
]
EVERYWHERE = [
    *ROUTES.items(),
    ("/nothing", "GET"),
    ("/", "GET"),
    ("/web/main.js", "GET"),
    ("/metrics", "GET"),
    ("http://test//stats", "GET"),
]


@pytest.fixture
async def locked():
    async with client_of(ScriptedEngine(), api_keys=("sk-other", KEY)) as client:
        yield client


@pytest.mark.parametrize("headers", BAD, ids=str)
async def test_no_route_but_health_opens_without_a_right_key(locked, headers):
    for path, method in EVERYWHERE:
        reply = await locked.request(method, path, headers=headers)
        assert reply.status_code == (200 if path == "/health" else 401), path
        if reply.status_code == 401:
            assert reply.json()["error"]["type"] == "authentication_error"
            assert reply.headers["www-authenticate"].split()[0] in ("Bearer", "Basic")


@pytest.mark.parametrize("headers", GOOD, ids=str)
async def test_a_right_key_opens_in_either_header(locked, headers):
    assert (await locked.post(CHAT, json=chat(), headers=headers)).status_code == 200
    listed = (await locked.get("/v1/models", headers=headers)).json()["data"]
    assert MODEL in [entry["id"] for entry in listed]


async def test_a_key_may_hold_any_letters():
    async with client_of(ScriptedEngine(), api_keys=("schlüssel",)) as client:
        reply = await client.get("/stats", headers={"x-api-key": "schlüssel".encode()})
    assert reply.status_code == 200


async def test_the_key_is_asked_for_before_the_body_is_read(locked):
    assert (await locked.post(CHAT, content=b"{broken")).status_code == 401


async def test_the_messages_route_is_locked_in_its_own_shape(locked):
    reply = await locked.post("/v1/messages", json={})
    assert reply.status_code == 401
    assert reply.json()["type"] == "error"


async def test_keys_are_read_from_their_file(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"\n{KEY}\n")
    async with client_of(ScriptedEngine(), api_key_file=path) as client:
        assert (await client.get("/stats")).status_code == 401
        assert (await client.get("/stats", headers=GOOD[0])).status_code == 200


PREFLIGHT = {
    "origin": ORIGIN,
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization, content-type",
}


@pytest.fixture
async def opened():
    flags = {"allowed_origins": (f"{ORIGIN},http://localhost:3000",), "api_keys": (KEY,)}
    async with client_of(ScriptedEngine(), **flags) as client:
        yield client


async def test_a_preflight_of_a_listed_origin_is_answered_without_a_key(opened):
    reply = await opened.options(CHAT, headers=PREFLIGHT)
    assert reply.status_code == 204
    assert reply.headers["access-control-allow-origin"] == ORIGIN
    assert "POST" in reply.headers["access-control-allow-methods"]
    assert reply.headers["access-control-allow-headers"] == "authorization, content-type"
    assert reply.headers["vary"] == "Origin"


@pytest.mark.parametrize(
    "origin", ["https://evil.example", ORIGIN + ".evil", "null", "http://app.example"]
)
async def test_other_origins_get_nothing(opened, origin):
    preflight = await opened.options(CHAT, headers={**PREFLIGHT, "origin": origin})
    reply = await opened.post(CHAT, json=chat(), headers={**GOOD[0], "origin": origin})
    for one in (preflight, reply):
        assert not any(name.startswith("access-control") for name in one.headers)


async def test_answers_and_errors_can_be_read_by_a_listed_origin(opened):
    for headers in (GOOD[0], {}):
        reply = await opened.post(CHAT, json=chat(), headers={**headers, "origin": ORIGIN})
        assert reply.headers["access-control-allow-origin"] == ORIGIN
        assert "x-slipstream-lane" in reply.headers["access-control-expose-headers"]


async def test_credentials_are_never_allowed():
    async with client_of(ScriptedEngine(), allowed_origins=("*",)) as client:
        for reply in (
            await client.options(CHAT, headers=PREFLIGHT),
            await client.post(CHAT, json=chat(), headers={"origin": ORIGIN}),
        ):
            assert reply.headers["access-control-allow-origin"] == ORIGIN
            assert "access-control-allow-credentials" not in reply.headers


async def test_without_origins_there_is_no_cors(client):
    reply = await client.post(CHAT, json=chat(), headers={"origin": ORIGIN})
    assert not any(name.startswith("access-control") for name in reply.headers)
