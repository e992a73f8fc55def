"""Text completions: prompts of every form, and what comes back."""

from __future__ import annotations

import pytest

from slipstream.contracts.delta import Delta, TextLogprob
from slipstream.contracts.errors import QueueFull
from slipstream.contracts.row import CancelReason, FinishReason

from .scripted import COMPLETIONS, MODEL, ScriptedEngine, chunks, client_of, logprob, text

pytestmark = pytest.mark.anyio

PIECES = (
    Delta(text="a", tokens=1, logprobs=(logprob("a", -1.0, ("a", -1.0), ("b", -2.0)),)),
    Delta(text="", tokens=1, logprobs=(TextLogprob("\ufffd", b"\xc3", -0.1),)),
    Delta(text="é", tokens=1, logprobs=(TextLogprob("\ufffd", b"\xa9", -0.2),)),
    Delta(text="c", tokens=1, logprobs=(logprob("c", -3.0),), finish=FinishReason.LENGTH),
)
COLUMNS = {
    "tokens": ["a", "bytes:\\xc3", "bytes:\\xa9", "c"],
    "token_logprobs": [-1.0, -0.1, -0.2, -3.0],
    "top_logprobs": [
        {"a": -1.0, "b": -2.0},
        {"bytes:\\xc3": -0.1},
        {"bytes:\\xa9": -0.2},
        {"c": -3.0},
    ],
    "text_offset": [0, 1, 2, 2],
}


async def test_a_body_has_the_published_literals(client):
    body = (await client.post(COMPLETIONS, json=text())).json()
    assert body["object"] == "text_completion"
    assert body["id"].startswith("cmpl-")
    assert body["model"] == MODEL
    assert body["choices"] == [
        {"index": 0, "text": "Hello 🙂!", "logprobs": None, "finish_reason": "stop"}
    ]
    assert body["usage"]["total_tokens"] == 12


@pytest.mark.parametrize(
    ("prompt", "sources"),
    [
        ("a", ["a"]),
        ("", [""]),
        (["a", "b"], ["a", "b"]),
        ([1, 2], [(1, 2)]),
        ([[1], [2, 3]], [(1,), (2, 3)]),
    ],
)
async def test_a_prompt_is_text_texts_ids_or_lists_of_ids(client, engine, prompt, sources):
    reply = await client.post(COMPLETIONS, json=text(prompt=prompt))
    given = [running.completion for running in engine.runnings]
    assert [one.text if one.ids is None else one.ids for one in given] == sources
    assert [choice["index"] for choice in reply.json()["choices"]] == list(range(len(sources)))
    assert {one.prompt_param for one in given} == {"prompt"}


async def test_several_prompts_are_counted_together(client):
    body = (await client.post(COMPLETIONS, json=text(prompt=["a", "b", "c"]))).json()
    assert body["usage"]["prompt_tokens"] == 21
    assert body["usage"]["completion_tokens"] == 15
    assert body["slipstream"]["cached_tokens"] == 9
    assert body["slipstream"]["prefill_ms"] == 20.25


async def test_several_prompts_stream_side_by_side(client):
    reply = await client.post(COMPLETIONS, json=text(prompt=["a", "b"], stream=True))
    answers = ["", ""]
    for chunk in chunks(reply.text):
        for choice in chunk["choices"]:
            answers[choice["index"]] += choice["text"]
    assert answers == ["Hello 🙂!"] * 2


class SecondRefused(ScriptedEngine):
    async def submit(self, completion):
        if self.runnings:
            raise QueueFull("Full.")
        return await super().submit(completion)


async def test_prompts_are_taken_all_or_none():
    engine = SecondRefused()
    async with client_of(engine) as client:
        reply = await client.post(COMPLETIONS, json=text(prompt=["a", "b"]))
    assert reply.status_code == 429
    assert engine.runnings[0].reason is CancelReason.DISCONNECT


async def test_more_prompts_than_can_ever_wait_are_refused(engine):
    async with client_of(engine, batch=1, queue=2) as client:
        assert (await client.post(COMPLETIONS, json=text(prompt=["a"] * 3))).status_code == 200
        reply = await client.post(COMPLETIONS, json=text(prompt=["a"] * 4))
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "prompt"


async def test_logprobs_come_in_columns_with_offsets_in_characters(client, engine):
    engine.script = PIECES
    body = (await client.post(COMPLETIONS, json=text(logprobs=2))).json()
    assert engine.last.logprobs == 2
    assert body["choices"][0]["logprobs"] == COLUMNS


async def test_streamed_columns_join_to_the_whole_ones(client, engine):
    engine.script = PIECES
    reply = await client.post(COMPLETIONS, json=text(logprobs=2, stream=True))
    joined = {name: [] for name in COLUMNS}
    for chunk in chunks(reply.text):
        for name, column in chunk["choices"][0]["logprobs"].items():
            joined[name] += column
    assert joined == COLUMNS


async def test_an_echo_has_null_first_and_offsets_through_to_the_answer(client, engine):
    begins = TextLogprob("<s>", b"<s>", None, silent=True)
    ends = TextLogprob("</s>", b"</s>", -4.0, silent=True)
    prompt = (begins, logprob("é", -2.0, ("e", -1.0)), logprob("é ", -3.0))
    engine.script = (
        Delta(text="éé ", logprobs=prompt),
        Delta(text="a", tokens=1, logprobs=(logprob("a"),)),
        Delta(tokens=1, logprobs=(ends,), finish=FinishReason.STOP),
    )
    choice = (await client.post(COMPLETIONS, json=text(echo=True, logprobs=1))).json()["choices"][0]
    assert engine.last.echo
    assert choice["text"] == "éé a"
    assert choice["logprobs"] == {
        "tokens": ["<s>", "é", "é ", "a", "</s>"],
        "token_logprobs": [None, -2.0, -3.0, -0.5, -4.0],
        "top_logprobs": [None, {"e": -1.0, "é": -2.0}, {"é ": -3.0}, {"a": -0.5}, {"</s>": -4.0}],
        "text_offset": [0, 0, 1, 3, 4],
    }


async def test_of_tokens_written_alike_the_likeliest_counts(client, engine):
    one = logprob("a", -3.0, ("b", -0.5), ("a", -1.0), ("b", -2.0))
    engine.script = (Delta(text="a", tokens=1, logprobs=(one,), finish=FinishReason.LENGTH),)
    choice = (await client.post(COMPLETIONS, json=text(logprobs=3))).json()["choices"][0]
    assert choice["logprobs"]["top_logprobs"] == [{"a": -1.0, "b": -0.5}]


THREE = (
    Delta(choice=0, text="a", tokens=1),
    Delta(choice=2, text="c", tokens=1),
    Delta(choice=1, text="b", tokens=1, finish=FinishReason.STOP),
    Delta(choice=2, text="C", tokens=1, finish=FinishReason.LENGTH),
    Delta(choice=0, text="A", tokens=2, finish=FinishReason.STOP),
)


async def test_choices_are_numbered_prompt_by_prompt(client, engine):
    engine.script = THREE
    body = (await client.post(COMPLETIONS, json=text(prompt=["x", "y"], n=3))).json()
    assert [running.completion.choices for running in engine.runnings] == [3, 3]
    found = [(one["index"], one["text"], one["finish_reason"]) for one in body["choices"]]
    answers = [("aA", "stop"), ("b", "stop"), ("cC", "length")]
    assert found == [(index, *answers[index % 3]) for index in range(6)]
    assert body["usage"]["prompt_tokens"] == 14
    assert body["usage"]["completion_tokens"] == 12


async def test_choices_of_prompts_interleave_in_a_stream(client, engine):
    engine.script = THREE
    reply = await client.post(COMPLETIONS, json=text(prompt=["x", "y"], n=3, stream=True))
    answers, ends = [""] * 6, [None] * 6
    for chunk in chunks(reply.text):
        for choice in chunk["choices"]:
            assert ends[choice["index"]] is None
            answers[choice["index"]] += choice["text"]
            ends[choice["index"]] = choice["finish_reason"]
    assert answers == ["aA", "b", "cC"] * 2
    assert ends == ["stop", "stop", "length"] * 2


async def test_more_answers_than_can_ever_wait_are_refused(engine):
    async with client_of(engine, batch=1, queue=2) as client:
        good = await client.post(COMPLETIONS, json=text(n=3))
        reply = await client.post(COMPLETIONS, json=text(prompt=["a", "b"], n=2))
    assert good.status_code != 400
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "n"


@pytest.mark.parametrize("fields", [{"best_of": 1}, {"best_of": None}, {"suffix": None}])
async def test_fields_that_change_nothing_pass(client, fields):
    assert (await client.post(COMPLETIONS, json=text(**fields))).status_code == 200
