"""Stored responses: what goes on from them, what shows them, and how long they stay."""

from __future__ import annotations

import pytest

from slipstream.contracts.errors import NotFound
from slipstream.serve.responses.store import Store
from slipstream.testing.clock import ManualClock

from .response_events import RESPONSES, streamed
from .test_responses import CALLS, WEATHER

pytestmark = pytest.mark.anyio


async def asked(client, **fields):
    reply = await client.post(RESPONSES, json={"input": "Hi", **fields})
    assert reply.status_code == 200, reply.text
    return reply.json()


async def test_a_response_is_shown_as_it_was_given(client):
    body = await asked(client, metadata={"a": "b"})
    shown = await client.get(f"{RESPONSES}/{body['id']}")
    assert shown.status_code == 200 and shown.json() == body


async def test_a_streamed_response_is_stored_too(client):
    reply = await client.post(RESPONSES, json={"input": "Hi", "stream": True})
    response = streamed(reply.text)[-1]["response"]
    assert (await client.get(f"{RESPONSES}/{response['id']}")).json() == response


async def test_a_conversation_goes_on_from_what_was_said(client, engine):
    engine.script = CALLS
    first = await asked(client, instructions="Old.", tools=[WEATHER])
    result = {"type": "function_call_output", "call_id": "call_a", "output": "Sun"}
    second = await asked(client, input=[result], previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]
    roles = [message["role"] for message in engine.last.messages]
    assert roles == ["user", "assistant", "tool"]
    answer = engine.last.messages[1]
    assert (answer["content"], answer["reasoning_content"]) == ("Let me look.", "Hm.")
    assert [call["id"] for call in answer["tool_calls"]] == ["call_a", "call_b"]
    await asked(client, instructions="New.", input="So?", previous_response_id=second["id"])
    roles = [message["role"] for message in engine.last.messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert engine.last.messages[0]["content"] == "New."


async def test_it_is_the_conversation_that_could_have_been_sent_whole(client, engine):
    first = await asked(client)
    await asked(client, input="More", previous_response_id=first["id"])
    stored = engine.last.messages
    user = {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    more = {"role": "user", "content": [{"type": "input_text", "text": "More"}]}
    await asked(client, input=[user, *first["output"], more])
    assert engine.last.messages == stored


async def test_what_was_declared_once_is_not_declared_again(client):
    item = {"role": "user", "content": [{"type": "input_text", "text": "a", "mine": 1}]}
    first = await asked(client, input=[item])
    second = await asked(client, previous_response_id=first["id"])
    assert first["slipstream"]["ignored"] == ["input[].content[].mine"]
    assert second["slipstream"]["ignored"] == []


@pytest.mark.parametrize("name", ["resp_absent", "x" * 500, "%2e%2e"])
async def test_an_unknown_response_is_not_found(client, engine, name):
    reply = await client.post(RESPONSES, json={"input": "Hi", "previous_response_id": name})
    assert reply.status_code == 404
    assert reply.json()["error"]["param"] == "previous_response_id"
    assert engine.runnings == []
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/input_items")):
        assert (await client.request(method, f"{RESPONSES}/{name}{path}")).status_code == 404


async def test_what_must_not_be_stored_is_not(client):
    body = await asked(client, store=False)
    assert (await client.get(f"{RESPONSES}/{body['id']}")).status_code == 404


async def test_a_deleted_response_is_gone(client):
    body = await asked(client)
    path = f"{RESPONSES}/{body['id']}"
    gone = (await client.delete(path)).json()
    assert gone == {"id": body["id"], "object": "response", "deleted": True}
    assert (await client.get(path)).status_code == 404
    assert (await client.delete(path)).status_code == 404


def test_old_responses_are_forgotten():
    clock = ManualClock()
    store = Store(clock, lifetime=10.0)
    for name in "ab":
        store.put({"id": name}, [])
        clock.advance(5.0)
    assert store.get("b").response == {"id": "b"}
    with pytest.raises(NotFound):
        store.get("a")


async def test_a_replay_is_refused_by_name(client):
    body = await asked(client)
    reply = await client.get(f"{RESPONSES}/{body['id']}?stream=true")
    assert reply.status_code == 400 and reply.json()["error"]["param"] == "stream"


@pytest.fixture
async def items(client):
    given = [{"role": "user", "content": text} for text in "abc"]
    return f"{RESPONSES}/{(await asked(client, input=given))['id']}/input_items"


async def test_input_items_come_newest_first(client, items):
    listed = (await client.get(items)).json()
    assert [item["content"] for item in listed["data"]] == ["c", "b", "a"]
    assert listed["first_id"] == listed["data"][0]["id"] and listed["has_more"] is False


async def test_input_items_come_page_by_page(client, items):
    asking = {"order": "asc", "limit": 2}
    first = (await client.get(items, params=asking)).json()
    rest = (await client.get(items, params={**asking, "after": first["last_id"]})).json()
    assert [item["content"] for item in (*first["data"], *rest["data"])] == ["a", "b", "c"]
    assert (first["has_more"], rest["has_more"]) == (True, False)


@pytest.mark.parametrize(
    "asking", [{"order": "up"}, {"limit": "0"}, {"limit": "101"}, {"limit": "x"}, {"after": "x"}]
)
async def test_a_bad_page_is_refused_by_name(client, items, asking):
    reply = await client.get(items, params=asking)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == next(iter(asking))


def test_a_full_store_lets_the_oldest_go():
    store = Store(ManualClock(), room=400)
    for name in "abcdef":
        store.put({"id": name, "text": "x" * 60}, [])
    assert store.get("f").response["text"] == "x" * 60
    with pytest.raises(NotFound):
        store.get("a")


def test_a_response_that_is_larger_than_the_store_is_not_kept():
    store = Store(ManualClock(), room=100)
    store.put({"id": "a", "text": "x" * 200}, [])
    with pytest.raises(NotFound):
        store.get("a")


def test_a_record_cannot_be_changed_from_outside():
    store = Store(ManualClock())
    store.put({"id": "a"}, [{"n": 1}])
    store.get("a").input.clear()
    assert store.get("a").input == [{"n": 1}]
