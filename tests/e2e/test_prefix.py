"""What one request computed, the next that begins like it does not compute again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import pairwise
from typing import Any

import httpx
import pytest

from .server import CHAT, Server, chat, client, ready, stats, streamed, whole

pytestmark = pytest.mark.anyio

TEXT = "/v1/completions"
SYSTEM = {"role": "system", "content": "You are a gardener. Answer in one short sentence."}
QUESTIONS = ("When do I sow peas?", "And beans?", "In which soil?", "How deep?", "How much water?")
LENGTH = 12  # tokens


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """No prefix cache, and memory for two rows of 512 tokens."""
    log_file = tmp_path_factory.mktemp("small") / "log"
    with ready(log_file, "--prefix-cache", "0", "--kv-budget", "0.05") as served:
        yield served
        assert "Traceback" not in served.log and "ERROR" not in served.log


@pytest.fixture
async def cramped(small: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with client(small) as opened:
        yield opened


async def continued(http: httpx.AsyncClient, ids: list[int]) -> tuple[str, int]:
    """(text, cached tokens)"""
    body = {"prompt": ids, "max_tokens": LENGTH, "temperature": 0, "ignore_eos": True}
    reply = (await http.post(TEXT, json=body)).json()
    cached: int = reply["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached == reply["slipstream"]["cached_tokens"]
    return reply["choices"][0]["text"], cached


async def ids_of(http: httpx.AsyncClient, text: str) -> list[int]:
    found: list[int] = (await http.post("/tokenize", json={"prompt": text})).json()["tokens"]
    return found


async def test_an_exact_repeat_computes_one_token(http: httpx.AsyncClient) -> None:
    body = chat("Name three rivers of Europe, and a city on each of them.", max_tokens=LENGTH)
    first, second = await whole(http, body), await streamed(http, body)
    assert second.text == first.text
    assert second.own["cached_tokens"] == first.usage["prompt_tokens"] - 1
    assert second.usage["prompt_tokens_details"]["cached_tokens"] == second.own["cached_tokens"]


async def test_one_token_less_and_one_more(http: httpx.AsyncClient) -> None:
    ids = await ids_of(http, "Gold, silver, copper and tin are metals; " * 4)
    assert (await continued(http, ids))[1] == 0
    assert (await continued(http, ids[:-1]))[1] == len(ids) - 2
    other = await ids_of(http, " zebra")
    assert (await continued(http, [*ids, *other]))[1] == len(ids)


async def test_a_chat_computes_its_new_tail_only(http: httpx.AsyncClient) -> None:
    messages: list[Mapping[str, Any]] = [SYSTEM]
    cached, lengths = [], []
    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        body = {"messages": messages, "temperature": 0, "max_tokens": LENGTH}
        answer = await whole(http, body)
        alone = await whole(http, {**body, "cache_salt": f"turn {len(messages)}"})
        assert alone.own["cached_tokens"] == 0
        assert answer.text == alone.text
        cached.append(answer.own["cached_tokens"])
        lengths.append(answer.usage["prompt_tokens"])
        messages.append({"role": "assistant", "content": answer.text})
    assert all(later > sooner for sooner, later in pairwise(cached))
    assert all(known >= length for length, known in zip(lengths, cached[1:], strict=False))


async def test_an_edited_turn_keeps_what_is_before_it(http: httpx.AsyncClient) -> None:
    turns = ("Count the planets. " * 8, "Eight.", "Which one is the largest?")
    roles = ("user", "assistant", "user")

    def body(*contents: str) -> dict[str, Any]:
        said = [{"role": r, "content": c} for r, c in zip(roles, contents, strict=False)]
        return {"messages": said, "temperature": 0, "max_tokens": LENGTH}

    head = (await whole(http, body(turns[0]))).usage["prompt_tokens"]
    first = await whole(http, body(*turns))
    edited = await whole(http, body(turns[0], "There are nine of them.", turns[2]))
    assert head <= edited.own["cached_tokens"] < first.usage["prompt_tokens"]
    assert (await whole(http, body(*turns))).text == first.text


async def test_choices_of_a_known_prompt_are_as_before(http: httpx.AsyncClient) -> None:
    body = chat("Write a riddle about a clock.", temperature=1, seed=3, n=3, max_tokens=LENGTH)
    replies = [(await http.post(CHAT, json=body)).json() for _ in range(2)]
    texts = [[c["message"]["content"] for c in reply["choices"]] for reply in replies]
    assert texts[0] == texts[1] and len(set(texts[0])) == 3
    assert replies[1]["slipstream"]["cached_tokens"] == replies[1]["usage"]["prompt_tokens"] - 1


async def test_tenants_do_not_share(http: httpx.AsyncClient) -> None:
    body = chat("Describe the taste of salt in one sentence.", max_tokens=4)
    for salt in ("a", "b"):
        assert (await whole(http, {**body, "cache_salt": salt})).own["cached_tokens"] == 0
    assert (await whole(http, {**body, "cache_salt": "a"})).own["cached_tokens"] > 0


async def test_a_line_of_the_moment_does_not_part_prompts(http: httpx.AsyncClient) -> None:
    stable = "You are an agent that mends bicycles. " * 10
    cached = []
    for second in (1, 2):
        system = {
            "role": "system",
            "content": f"Current time: 2026-01-31 12:00:0{second}\n{stable}",
        }
        body = chat("Hi", max_tokens=2)
        body["messages"].insert(0, system)
        cached.append((await whole(http, body)).own["cached_tokens"])
    assert cached[1] > 80


async def test_a_flush_without_a_disk_makes_nothing_durable_and_harms_nothing(
    http: httpx.AsyncClient,
) -> None:
    body = chat("Name three herbs.", max_tokens=LENGTH)
    before = await whole(http, body)
    reply, during = await asyncio.gather(http.post("/admin/cache/flush"), whole(http, body))
    assert (reply.status_code, reply.json()) == (200, {"written": 0, "bytes": 0})
    assert during.text == before.text == (await whole(http, body)).text


async def test_without_a_cache_nothing_is_cached(cramped: httpx.AsyncClient) -> None:
    body = chat("Name three rivers of Europe.", max_tokens=4)
    for _ in range(3):
        assert (await whole(cramped, body)).own["cached_tokens"] == 0
    assert (await stats(cramped))["prefix_cache"]["bytes"] == 0


async def test_the_context_is_what_memory_holds(cramped: httpx.AsyncClient) -> None:
    model = (await cramped.get("/v1/models")).json()["data"][0]
    context = model["max_model_len"]
    assert context == (await cramped.get("/model_info")).json()["context_length"] < 8192
    refused = await cramped.post(TEXT, json={"prompt": [1] * context, "max_tokens": 1})
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (400, "context_length_exceeded")
    assert str(context) in error["message"] and "--kv-budget" in error["message"]


async def test_more_than_memory_holds_waits_for_its_turn(cramped: httpx.AsyncClient) -> None:
    """Twelve rows that may grow to 512 tokens, four times what there is memory for."""
    body = chat("Tell me about the sea, the wind and the waves.", max_tokens=400, stop=["."])
    asked = [asyncio.create_task(whole(cramped, body)) for _ in range(12)]
    peak = budget = 0
    while not all(task.done() for task in asked):
        memory = (await stats(cramped))["memory"]
        peak, budget = max(peak, memory["kv"]), memory["kv_budget"]
        await asyncio.wait(asked, timeout=0.05, return_when=asyncio.ALL_COMPLETED)
    answers = [await task for task in asked]
    assert len({answer.text for answer in answers}) == 1
    assert 0 < peak <= budget
    assert max(answer.own["rows_peak"] for answer in answers) == 2
    assert (await stats(cramped))["queue"]["rejected"] == 0
