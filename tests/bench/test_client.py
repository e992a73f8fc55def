"""What the client of a load test reads off a stream, and how it names each way to fail."""

from __future__ import annotations

import pytest

from slipstream.bench.client import base_of, fetched
from slipstream.bench.processes import free_port
from slipstream.bench.target import Answer, Target
from slipstream.bench.texts import user
from slipstream.contracts.errors import Fault, UsageError

from .servers import (
    ANSWER,
    DONE,
    Scripted,
    chunked,
    event,
    listening,
    said,
    stream,
    targeted,
    usage,
    whole,
)

pytestmark = pytest.mark.anyio
QUESTION = (user("hello"),)


async def answered(*reply: bytes, seconds: float = 60.0) -> Answer:
    async with targeted(Scripted(reply)) as target:
        return await target.attempt(QUESTION, 5, fields={}, kind="equal", seconds=seconds)


async def test_an_answer_has_its_text_its_pieces_and_what_the_server_counted() -> None:
    answer = await answered(*stream(*ANSWER, usage(7, 4), DONE))
    assert (answer.failed, answer.text, answer.prompt, answer.tokens) == (None, "ab", 7, 4)
    assert len(answer.marks.pieces) == 2


async def test_without_usage_each_piece_is_a_token() -> None:
    answer = await answered(*stream(*ANSWER, DONE))
    assert answer.counted is None and answer.tokens == 2


async def test_thoughts_are_tokens_too_but_no_text() -> None:
    thought = event({"choices": [{"delta": {"reasoning_content": "hm"}}]})
    answer = await answered(*stream(thought, said("a"), DONE))
    assert (answer.tokens, answer.text) == (2, "a")


async def test_chunks_may_cut_events_anywhere() -> None:
    whole_stream = b"".join((*ANSWER, usage(7, 2), DONE))
    cut = [whole_stream[n : n + 5] for n in range(0, len(whole_stream), 5)]
    answer = await answered(*chunked(*cut))
    assert (answer.failed, answer.text, answer.tokens) == (None, "ab", 2)


async def test_a_server_that_dies_in_the_middle_is_broken() -> None:
    for reply in (stream(*ANSWER), chunked(*ANSWER)[:-1], chunked(*ANSWER), ()):
        answer = await answered(*reply)
        assert answer.failed == "broken", reply


async def test_a_refusal_is_named_by_its_status() -> None:
    answer = await answered(*whole("429 Too Many Requests", {"error": {"message": "full"}}))
    assert answer.failed == "status 429" and "full" in answer.why


@pytest.mark.parametrize("data", ["{", "[1]", "null", "nonsense"])
async def test_an_event_that_is_no_object_is_malformed(data: str) -> None:
    assert (await answered(*stream(said("a"), event(data), DONE))).failed == "malformed"


async def test_a_broken_chunk_size_and_a_reply_that_is_no_http_are_malformed() -> None:
    head = chunked()[0]
    assert (await answered(head, b"zz\r\nxx\r\n")).failed == "malformed"
    assert (await answered(b"220 mail.example ESMTP\r\n\r\n")).failed == "malformed"


async def test_an_error_event_ends_the_answer() -> None:
    answer = await answered(*stream(said("a"), event({"error": {"message": "no memory"}})))
    assert answer.failed == "error event" and "no memory" in answer.why


async def test_an_answer_without_text_is_empty() -> None:
    assert (await answered(*stream(ANSWER[0], usage(7, 0), DONE))).failed == "empty"


async def test_an_answer_that_never_ends_times_out() -> None:
    async with targeted(Scripted(stream(DONE), crowd=2)) as target:
        answer = await target.attempt(QUESTION, 5, fields={}, kind="equal", seconds=0.01)
    assert answer.failed == "timeout"


async def test_nobody_there_is_a_failure_to_connect() -> None:
    target = Target("none", f"http://127.0.0.1:{free_port()}/v1/chat/completions")
    answer = await target.attempt(QUESTION, 5, fields={}, kind="equal", seconds=60.0)
    assert answer.failed == "connect"


async def test_a_key_goes_along_and_fields_of_none_stay_behind() -> None:
    server = Scripted(stream(said("a"), DONE))
    async with targeted(server, more={"ignore_eos": True, "model": "m"}, key="secret") as target:
        await target.ask(QUESTION, 5, fields={"ignore_eos": None, "seed": 3})
    assert "Authorization: Bearer secret" in server.heads[0]
    body = server.bodies[0]
    assert "ignore_eos" not in body and (body["seed"], body["model"]) == (3, "m")


async def test_a_get_gives_json_or_says_that_it_is_none() -> None:
    server = Scripted(whole("200 OK", {"data": []}), (b"HTTP/1.1 200 OK\r\n\r\n", b"<html>"))
    async with listening(server) as url:
        assert await fetched(f"{url}/models") == {"data": []}
        with pytest.raises(Fault, match="not JSON"):
            await fetched(f"{url}/models")


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
        ("http://host/", "http://host:80/v1"),
        ("https://host/v1", "https://host:443/v1"),
        ("http://host:1/v1/chat/completions", "http://host:1/v1"),
        ("https://host/prefix/v1/", "https://host:443/prefix/v1"),
        ("http://[::1]:8080", "http://[::1]:8080/v1"),
    ],
)
def test_every_way_to_write_an_address(url: str, base: str) -> None:
    assert base_of(url) == base


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://host", "http://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="http://"):
        base_of(url)
