"""Several answers to one request, and log-probabilities of answers and prompts, on the starter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import openai
import pytest

from serve.official import strict

from .server import CHAT, Server, chat, chunks, opened, until_idle

pytestmark = pytest.mark.anyio

TEXT = "/v1/completions"
POEM = "Write a short poem about the sea."
CAPITAL = "The capital of France is"
COLUMNS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
CLOSE = 2e-2  # natural log; a prompt is read in other chunks than an answer is written


async def reply(http: httpx.AsyncClient, route: str, body: Mapping[str, Any]) -> dict[str, Any]:
    response = await http.post(route, json=body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def stream(
    http: httpx.AsyncClient, route: str, body: Mapping[str, Any]
) -> list[dict[str, Any]]:
    asking = {**body, "stream": True, "stream_options": {"include_usage": True}}
    async with http.stream("POST", route, json=asking) as response:
        assert response.status_code == 200, await response.aread()
        return [chunk async for chunk in chunks(response)]


async def ids_of(http: httpx.AsyncClient, text: str) -> list[int]:
    body = {"prompt": text, "add_special_tokens": False}
    found: list[int] = (await reply(http, "/tokenize", body))["tokens"]
    return found


def contents(body: Mapping[str, Any]) -> list[str]:
    assert [choice["index"] for choice in body["choices"]] == list(range(len(body["choices"])))
    return [choice["message"]["content"] for choice in body["choices"]]


async def test_each_choice_is_what_its_own_seed_says_alone(http: httpx.AsyncClient) -> None:
    body = chat(POEM, temperature=0.9, seed=40, max_tokens=12)
    together = await reply(http, CHAT, {**body, "n": 4})
    alone = [await reply(http, CHAT, {**body, "seed": 40 + choice}) for choice in range(4)]
    assert contents(together) == [contents(one)[0] for one in alone]
    assert len(set(contents(together))) == 4
    assert together["slipstream"]["seed"] == 40


async def test_choices_share_their_prompt_and_its_cost(http: httpx.AsyncClient) -> None:
    body = chat(POEM, temperature=1, seed=1, max_tokens=6, ignore_eos=True)
    one, four = await reply(http, CHAT, body), await reply(http, CHAT, {**body, "n": 4})
    assert four["usage"]["prompt_tokens"] == one["usage"]["prompt_tokens"]
    assert four["usage"]["completion_tokens"] == 4 * one["usage"]["completion_tokens"] == 24
    assert four["slipstream"]["cached_tokens"] == one["slipstream"]["cached_tokens"]
    assert four["slipstream"]["rows_peak"] == 4


async def test_a_stream_of_choices_adds_up_to_the_plain_reply(http: httpx.AsyncClient) -> None:
    body = chat(POEM, temperature=1, seed=7, max_tokens=16, n=3, stop=["."])
    plain = await reply(http, CHAT, body)
    *pieces, last = await stream(http, CHAT, body)
    texts, ends, order = [""] * 3, [None] * 3, []
    for choice in (choice for piece in pieces for choice in piece["choices"]):
        index = choice["index"]
        assert ends[index] is None, "nothing comes after a choice's end"
        texts[index] += choice["delta"].get("content", "")
        ends[index] = choice["finish_reason"]
        order.append(index)
    assert texts == contents(plain)
    assert ends == [choice["finish_reason"] for choice in plain["choices"]]
    assert last["usage"] == plain["usage"]
    assert sorted(order) != order, "choices come side by side"


async def test_a_client_that_leaves_ends_every_choice(http: httpx.AsyncClient) -> None:
    body = chat(POEM, temperature=1, max_tokens=400, n=5, ignore_eos=True)
    async with opened(http, body) as stream:
        await anext(stream)
    await until_idle(http, seconds=5)


async def test_several_prompts_with_several_choices(http: httpx.AsyncClient) -> None:
    prompts = [CAPITAL, "One, two, three,"]
    body = {"temperature": 1, "seed": 3, "max_tokens": 5, "n": 2}
    found = (await reply(http, TEXT, {**body, "prompt": prompts}))["choices"]
    assert [choice["index"] for choice in found] == [0, 1, 2, 3]
    alone = [await reply(http, TEXT, {**body, "prompt": prompt}) for prompt in prompts]
    expected = [choice["text"] for one in alone for choice in one["choices"]]
    assert [choice["text"] for choice in found] == expected


def check_entries(text: str, entries: Sequence[Mapping[str, Any]], top: int) -> None:
    assert b"".join(bytes(entry["bytes"]) for entry in entries) == text.encode()
    for entry in entries:
        values = [one["logprob"] for one in entry["top_logprobs"]]
        assert len(values) == top
        assert values == sorted(values, reverse=True)
        assert all(math.isfinite(value) and value <= 0 for value in [entry["logprob"], *values])
        assert entry["logprob"] <= max(values, default=0.0) + 1e-6


@pytest.mark.parametrize("top", [0, 5, 20])
async def test_chat_logprobs_are_exact_sorted_and_the_same_in_a_stream(
    http: httpx.AsyncClient, top: int
) -> None:
    # An emoji of several tokens, and an end of its own.
    body = chat("Repeat: café 🙂", max_tokens=24, logprobs=True, top_logprobs=top)
    plain = await reply(http, CHAT, body)
    (choice,) = plain["choices"]
    entries = choice["logprobs"]["content"]
    check_entries(choice["message"]["content"], entries, top)
    ended = choice["finish_reason"] == "stop"
    assert len(entries) == plain["usage"]["completion_tokens"] - ended
    pieces = (piece["choices"][0] for piece in (await stream(http, CHAT, body))[:-1])
    streamed = [
        one for piece in pieces if piece["logprobs"] for one in piece["logprobs"]["content"]
    ]
    assert [(one["token"], one["bytes"]) for one in streamed] == [
        (one["token"], one["bytes"]) for one in entries
    ]
    # The second request finds the prompt in the prefix cache, so sums run in another order.
    assert every_logprob(streamed) == pytest.approx(every_logprob(entries), abs=CLOSE)


def every_logprob(entries: Sequence[Mapping[str, Any]]) -> list[float]:
    """The chosen tokens' log-probabilities, and each one's alternatives."""
    return [one["logprob"] for entry in entries for one in (entry, *entry["top_logprobs"])]


async def test_logprobs_are_null_unless_asked_for(http: httpx.AsyncClient) -> None:
    body = chat(POEM, max_tokens=3)
    assert (await reply(http, CHAT, body))["choices"][0]["logprobs"] is None
    pieces = (await stream(http, CHAT, body))[:-1]
    assert {piece["choices"][0]["logprobs"] for piece in pieces} == {None}
    text = await reply(http, TEXT, {"prompt": CAPITAL, "max_tokens": 3, "temperature": 0})
    assert text["choices"][0]["logprobs"] is None


async def test_raw_logprobs_do_not_see_a_bias(http: httpx.AsyncClient) -> None:
    paris = (await ids_of(http, " Paris"))[0]
    body = {"prompt": CAPITAL, "max_tokens": 1, "temperature": 0, "logprobs": 3}
    plain = (await reply(http, TEXT, body))["choices"][0]["logprobs"]
    body |= {"logit_bias": {str(paris): -100}}
    biased = (await reply(http, TEXT, body))["choices"][0]["logprobs"]
    raw = (await reply(http, TEXT, {**body, "logprobs_mode": "raw"}))["choices"][0]["logprobs"]
    assert plain["tokens"] == [" Paris"]
    assert biased["tokens"] == raw["tokens"] != [" Paris"]
    assert " Paris" not in biased["top_logprobs"][0]
    assert raw["top_logprobs"][0][" Paris"] == pytest.approx(plain["token_logprobs"][0], abs=1e-4)


@pytest.mark.parametrize("stop", [None, [" "]])
async def test_text_logprobs_stream_as_they_come_plain(
    http: httpx.AsyncClient, stop: list[str] | None
) -> None:
    body = {"prompt": "Ünïcödé 🙂", "max_tokens": 12, "temperature": 0, "logprobs": 2}
    body |= {"stop": stop, "echo": True, "n": 2}
    plain = (await reply(http, TEXT, body))["choices"]
    joined: list[dict[str, list[Any]]] = [{name: [] for name in COLUMNS} for _ in plain]
    for piece in (await stream(http, TEXT, body))[:-1]:
        for choice in piece["choices"]:
            for name, column in (choice["logprobs"] or {}).items():
                joined[choice["index"]][name] += column
    assert joined == [choice["logprobs"] for choice in plain]


async def test_an_echo_begins_with_the_prompt(http: httpx.AsyncClient) -> None:
    body = {"prompt": CAPITAL, "max_tokens": 4, "temperature": 0}
    answer = (await reply(http, TEXT, body))["choices"][0]["text"]
    for prompt in (CAPITAL, await ids_of(http, CAPITAL)):
        echoed = await reply(http, TEXT, {**body, "prompt": prompt, "echo": True})
        assert echoed["choices"][0]["text"] == CAPITAL + answer
        assert echoed["choices"][0]["logprobs"] is None
        assert echoed["usage"]["completion_tokens"] == 4


async def test_a_prompt_is_scored_as_an_answer_is(http: httpx.AsyncClient) -> None:
    """Longer than one scored chunk, so that the chunks' seams are in it."""
    ids = await ids_of(http, CAPITAL + " Paris. " * 130)
    assert len(ids) > 256
    body = {"prompt": ids, "temperature": 0, "logprobs": 2, "ignore_eos": True}
    written = (await reply(http, TEXT, {**body, "max_tokens": 12}))["choices"][0]
    longer = ids + await ids_of(http, written["text"])
    body |= {"prompt": longer, "max_tokens": 1, "echo": True}
    read = (await reply(http, TEXT, body))["choices"][0]
    assert len(read["logprobs"]["tokens"]) == len(longer) + 1
    assert read["logprobs"]["tokens"][len(ids) : -1] == written["logprobs"]["tokens"]
    expected = pytest.approx(written["logprobs"]["token_logprobs"], abs=CLOSE)
    assert read["logprobs"]["token_logprobs"][len(ids) : -1] == expected
    assert all(value <= 0 for value in read["logprobs"]["token_logprobs"][1:])


async def test_an_evaluation_harness_can_score_continuations(http: httpx.AsyncClient) -> None:
    """The request, and what is read of the reply, of lm-evaluation-harness's local-completions."""
    pairs = [(CAPITAL, " Paris"), (CAPITAL, " London"), ("Hello.<|im_end|>", "\n")]
    contexts = [await ids_of(http, context) for context, _ in pairs]
    wholes = [await ids_of(http, context + more) for context, more in pairs]
    body = {"prompt": wholes, "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234}
    found = await reply(http, TEXT, {**body, "echo": True})
    scores, greedy = [], []
    for choice, context, whole in zip(found["choices"], contexts, wholes, strict=True):
        logprobs = choice["logprobs"]
        assert {len(logprobs[name]) for name in COLUMNS} == {len(whole) + 1}
        assert logprobs["token_logprobs"][0] is None and logprobs["top_logprobs"][0] is None
        tokens = logprobs["token_logprobs"][len(context) : -1]
        tops = logprobs["top_logprobs"][len(context) : -1]
        scores.append(sum(tokens))
        greedy.append(all(one == max(top.values()) for one, top in zip(tokens, tops, strict=True)))
    assert greedy[:2] == [True, False]
    assert scores[0] > scores[1]


async def test_an_answer_that_ends_at_once_is_an_entry_too(http: httpx.AsyncClient) -> None:
    ids = await ids_of(http, CAPITAL)
    (end,) = await ids_of(http, "<|im_end|>")
    body = {"prompt": ids, "temperature": 0, "max_tokens": 1, "logprobs": 1, "echo": True}
    found = await reply(http, TEXT, {**body, "logit_bias": {str(end): 100}})
    (choice,) = found["choices"]
    assert (choice["text"], choice["finish_reason"]) == (CAPITAL, "stop")
    assert len(choice["logprobs"]["tokens"]) == len(ids) + 1
    assert choice["logprobs"]["tokens"][-1] == "<|im_end|>"


async def test_offsets_lead_through_prompt_and_answer(http: httpx.AsyncClient) -> None:
    body = {"prompt": "Une épée, très", "max_tokens": 6, "temperature": 0, "ignore_eos": True}
    choice = (await reply(http, TEXT, {**body, "echo": True, "logprobs": 0}))["choices"][0]
    logprobs, text = choice["logprobs"], choice["text"]
    for token, offset in zip(logprobs["tokens"], logprobs["text_offset"], strict=True):
        assert token.startswith("bytes:") or text.startswith(token, offset)


async def test_the_official_client_takes_choices_and_logprobs(server: Server) -> None:
    async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none") as official:
        made = await official.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": POEM}],
            n=2,
            logprobs=True,
            top_logprobs=2,
            max_completion_tokens=4,
        )
        assert len(strict(made).choices) == 2
        text = await official.completions.create(
            model="default", prompt=CAPITAL, logprobs=1, max_tokens=2, n=2
        )
        assert len(strict(text).choices) == 2
