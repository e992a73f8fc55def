"""Chat completions: what a body becomes, and what comes back."""

from __future__ import annotations

import pytest

from slipstream.contracts.delta import Delta
from slipstream.contracts.row import FinishReason

from .scripted import CHAT, MODEL, chat, chunks, client_of, logprob

pytestmark = pytest.mark.anyio


async def accepted(client, engine, **fields):
    reply = await client.post(CHAT, json=chat(**fields))
    assert reply.status_code == 200, reply.text
    return engine.last, reply.json()


async def test_a_body_has_the_published_literals(client):
    body = (await client.post(CHAT, json=chat())).json()
    assert body["object"] == "chat.completion"
    assert body["id"].startswith("chatcmpl-")
    assert body["model"] == MODEL
    assert isinstance(body["created"], int)
    assert body["system_fingerprint"].startswith("fp_")
    assert body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello 🙂!", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]


async def test_usage_adds_up_and_counts_tokens_without_text(client):
    usage = (await client.post(CHAT, json=chat())).json()["usage"]
    assert usage == {
        "prompt_tokens": 7,
        "completion_tokens": 5,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


async def test_a_response_says_where_it_ran_and_what_it_ignored(client):
    body = (await client.post(CHAT, json=chat(user="me", lane="solo"))).json()
    assert body["slipstream"] == {
        "lane": "solo",
        "method": "autoregressive",
        "reasons": ["lane_requested"],
        "queue_ms": 1.5,
        "prefill_ms": 20.25,
        "decode_ms": 30.0,
        "cached_tokens": 3,
        "rows_peak": 2,
        "seed": 11,
        "ignored": ["user"],
        "spec": None,
    }


@pytest.mark.parametrize(
    ("lane", "expected"), [(None, ("group", "")), ("solo", ("solo", "lane_requested"))]
)
async def test_headers_carry_the_lane_and_the_reasons(client, lane, expected):
    headers = (await client.post(CHAT, json=chat(lane=lane))).headers
    assert (headers["x-slipstream-lane"], headers["x-slipstream-reasons"]) == expected


async def test_two_responses_have_two_ids(client):
    ids = {(await client.post(CHAT, json=chat())).json()["id"] for _ in range(2)}
    assert len(ids) == 2


async def test_sampling_holds_only_what_the_client_set(client, engine):
    completion, _ = await accepted(
        client, engine, temperature=0.5, top_k=-1, logit_bias={"5": -100, "7": 1}, seed=None
    )
    assert completion.sampling == {
        "temperature": 0.5,
        "top_k": -1,
        "logit_bias": {5: -100.0, 7: 1.0},
    }


async def test_every_sampling_field_arrives(client, engine):
    given = {
        "temperature": 1.0,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.05,
        "xtc_probability": 0.5,
        "xtc_threshold": 0.1,
        "repetition_penalty": 1.1,
        "repetition_context_size": 30,
        "presence_penalty": -2,
        "presence_context_size": 5,
        "frequency_penalty": 2,
        "frequency_context_size": 0,
        "seed": 2**64 - 1,
        "min_tokens": 3,
    }
    completion, body = await accepted(client, engine, **given)
    assert completion.sampling == given
    assert body["slipstream"]["ignored"] == []


async def test_the_other_fields_arrive(client, engine):
    completion, _ = await accepted(
        client,
        engine,
        stop=["a", "b"],
        stop_token_ids=[3],
        ignore_eos=True,
        max_tokens=9,
        logprobs=True,
        top_logprobs=4,
        logprobs_mode="raw",
        cache_salt="tenant",
        priority=2,
        chat_template_kwargs={"enable_thinking": False},
        reasoning_effort="low",
        draft=False,
    )
    assert completion.stop == ("a", "b")
    assert completion.stop_token_ids == (3,)
    assert completion.ignore_eos
    assert completion.max_tokens == 9
    assert (completion.logprobs, completion.logprobs_raw) == (4, True)
    assert completion.cache_salt == "tenant"
    assert completion.priority == 2
    assert completion.template_kwargs == {"enable_thinking": False, "reasoning_effort": "low"}


@pytest.mark.parametrize(("given", "expected"), [("x", ("x",)), (None, ()), ([], ())])
async def test_a_stop_is_a_string_strings_or_nothing(client, engine, given, expected):
    completion, _ = await accepted(client, engine, stop=given)
    assert completion.stop == expected


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
async def test_the_limit_has_two_names(client, engine, name):
    completion, _ = await accepted(client, engine, **{name: 3})
    assert completion.max_tokens == 3


@pytest.mark.parametrize(
    ("fields", "priority"),
    [
        ({}, 0),
        ({"service_tier": "auto"}, 0),
        ({"service_tier": "flex"}, -1),
        ({"service_tier": "priority"}, 1),
        ({"service_tier": "priority", "priority": -2}, -2),
    ],
)
async def test_a_service_tier_is_a_priority_unless_one_is_given(client, engine, fields, priority):
    completion, _ = await accepted(client, engine, **fields)
    assert completion.priority == priority


async def test_unknown_fields_are_declared_by_path_and_once(client, engine):
    cached = {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {}}]}
    _, body = await accepted(
        client, engine, messages=[cached, cached], foo=1, metadata={}, store=True, bar=None
    )
    assert body["slipstream"]["ignored"] == [
        "messages[].content[].cache_control",
        "foo",
        "metadata",
        "store",
    ]


async def test_stream_options_of_a_whole_reply_are_declared(client, engine):
    _, body = await accepted(client, engine, stream_options={"include_usage": True})
    assert body["slipstream"]["ignored"] == ["stream_options"]


@pytest.mark.parametrize("name", ["foo", "user"])
async def test_strict_refuses_what_would_be_ignored(engine, name):
    async with client_of(engine, strict=True) as client:
        reply = await client.post(CHAT, json=chat(**{name: "x"}))
        assert reply.status_code == 400
        assert reply.json()["error"]["param"] == name
        assert (await client.post(CHAT, json=chat(temperature=1))).status_code == 200


async def test_messages_reach_the_template_in_its_own_shape(client, engine):
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "a"}], "name": "Ann"},
        {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
    ]
    completion, _ = await accepted(client, engine, messages=messages)
    function = {"name": "f", "arguments": {"x": 1}}
    assert completion.messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "a"}], "name": "Ann"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "2", "tool_call_id": "c1"},
    )


async def test_logprobs_carry_text_bytes_and_tops(client, engine):
    engine.script = (
        Delta(text="é", tokens=1, logprobs=(logprob("é", -0.25, ("é", -0.25), ("e", -2.0)),)),
        Delta(tokens=1, finish=FinishReason.STOP),
    )
    _, body = await accepted(client, engine, logprobs=True, top_logprobs=2)
    tops = [
        {"token": "é", "logprob": -0.25, "bytes": [195, 169]},
        {"token": "e", "logprob": -2.0, "bytes": [101]},
    ]
    assert body["choices"][0]["logprobs"] == {
        "content": [{**tops[0], "top_logprobs": tops}],
        "refusal": None,
    }


async def test_reasoning_is_a_field_of_its_own(client, engine):
    engine.script = (
        Delta(reasoning="Hm.", tokens=2, reasoning_tokens=2),
        Delta(text="Yes", tokens=1, finish=FinishReason.LENGTH),
    )
    _, body = await accepted(client, engine)
    assert body["choices"][0]["message"]["reasoning_content"] == "Hm."
    assert body["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}


@pytest.mark.parametrize("name", [MODEL, "tiny-1B", "default", "default_model", None])
async def test_a_model_goes_by_its_usual_names(client, engine, name):
    completion, body = await accepted(client, engine, model=name)
    assert completion.model == body["model"] == (name or MODEL)


async def test_served_names_may_hold_stars(engine):
    async with client_of(engine, served_names=("claude-*", "mine")) as client:
        for name, status in (("claude-x", 200), ("mine", 200), (MODEL, 404), ("xclaude-x", 404)):
            reply = await client.post(CHAT, json=chat(model=name))
            assert reply.status_code == status, name
        assert (await client.post(CHAT, json=chat())).json()["model"] == "mine"


@pytest.mark.parametrize("name", ["gpt-4o", "../../etc/passwd", "", "a" * 5000])
async def test_an_unserved_model_is_not_found_with_the_list(client, name):
    reply = await client.post(CHAT, json=chat(model=name))
    error = reply.json()["error"]
    assert reply.status_code == 404
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert MODEL in error["message"]
    assert len(error["message"]) < 500


CHOICES = (
    Delta(choice=1, text="b", tokens=1),
    Delta(choice=0, text="a", tokens=1, finish=FinishReason.LENGTH),
    Delta(choice=1, text="B", tokens=1, finish=FinishReason.STOP),
)


async def test_choices_come_in_order_with_ends_of_their_own(client, engine):
    engine.script = CHOICES
    body = (await client.post(CHAT, json=chat(n=2))).json()
    assert engine.last.choices == 2
    found = [(c["index"], c["message"]["content"], c["finish_reason"]) for c in body["choices"]]
    assert found == [(0, "a", "length"), (1, "bB", "stop")]
    assert (body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]) == (7, 3)


async def test_each_choice_of_a_stream_opens_with_its_role(client, engine):
    engine.script = CHOICES
    got = chunks((await client.post(CHAT, json=chat(n=2, stream=True))).text)
    found = [(c["index"], c["delta"]) for chunk in got for c in chunk["choices"]]
    assert found == [
        (1, {"role": "assistant", "content": ""}),
        (1, {"content": "b"}),
        (0, {"role": "assistant", "content": ""}),
        (0, {"content": "a"}),
        (1, {"content": "B"}),
    ]
