"""The official client, whose types must know every field that it is sent."""

from __future__ import annotations

import openai
import pytest

from slipstream.contracts.delta import Delta
from slipstream.contracts.errors import QueueFull, RowFault, Unavailable
from slipstream.contracts.row import FinishReason

from .official import strangers, strict
from .scripted import HELLO, MODEL, ScriptedEngine, client_of, logprob

pytestmark = pytest.mark.anyio

MESSAGES = [{"role": "user", "content": "Hi"}]
WITH_LOGPROBS = (
    Delta(text="He", tokens=1, logprobs=(logprob("He", -0.5, ("He", -0.5), ("Ho", -1.5)),)),
    Delta(text="y", tokens=1, logprobs=(logprob("y", -0.5),), finish=FinishReason.LENGTH),
)


@pytest.fixture
async def official(engine: ScriptedEngine):
    async with client_of(engine) as transport:
        yield openai.AsyncOpenAI(
            base_url="http://test/v1", api_key="none", max_retries=0, http_client=transport
        )


async def test_a_chat(official):
    raw = await official.chat.completions.with_raw_response.create(model=MODEL, messages=MESSAGES)
    body = strict(raw.parse())
    assert body.choices[0].message.content == "Hello 🙂!"
    assert body.usage.total_tokens == 12
    assert body.slipstream["lane"] == "group"
    assert raw.request_id == raw.headers["x-request-id"]


@pytest.mark.parametrize("script", [HELLO, WITH_LOGPROBS])
async def test_a_chat_stream_folds_to_its_body(official, engine, script):
    engine.script = script
    request = {"model": MODEL, "messages": MESSAGES, "logprobs": True, "top_logprobs": 2}
    body = strict(await official.chat.completions.create(**request))
    stream = await official.chat.completions.create(
        **request, stream=True, stream_options={"include_usage": True}
    )
    chunks = [strict(chunk) async for chunk in stream]
    choices = [choice for chunk in chunks for choice in chunk.choices]
    assert "".join(one.delta.content or "" for one in choices) == body.choices[0].message.content
    assert choices[-1].finish_reason == body.choices[0].finish_reason
    assert chunks[-1].usage == body.usage
    entries = [entry for one in choices if one.logprobs for entry in one.logprobs.content]
    assert entries == body.choices[0].logprobs.content


async def test_a_completion_and_its_stream(official, engine):
    engine.script = WITH_LOGPROBS
    request = {"model": MODEL, "prompt": "Hi", "logprobs": 2}
    body = strict(await official.completions.create(**request))
    assert body.choices[0].text == "Hey"
    assert body.choices[0].logprobs.tokens == ["He", "y"]
    chunks = [c async for c in await official.completions.create(**request, stream=True)]
    assert list(strangers(chunks)) == []  # its types know no chunk without a finish_reason
    assert "".join(chunk.choices[0].text for chunk in chunks) == "Hey"


async def test_the_models(official):
    listed = [model.id async for model in official.models.list()]
    assert MODEL in listed
    assert (await official.models.retrieve(MODEL)).id == MODEL


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (QueueFull("Full."), openai.RateLimitError),
        (Unavailable("Draining."), openai.InternalServerError),
        (RowFault("step", "boom"), openai.InternalServerError),
    ],
)
async def test_refusals_raise_the_clients_own_classes(official, engine, refusal, expected):
    engine.refusal = refusal
    with pytest.raises(expected) as caught:
        await official.chat.completions.create(model=MODEL, messages=MESSAGES)
    assert caught.value.body["message"] == refusal.message


async def test_bad_requests_name_their_field(official):
    with pytest.raises(openai.BadRequestError) as caught:
        await official.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=-1)
    assert caught.value.param == "temperature"
    with pytest.raises(openai.NotFoundError) as missing:
        await official.chat.completions.create(model="gpt-4o", messages=MESSAGES)
    assert missing.value.code == "model_not_found"


async def test_a_fault_within_a_stream_raises(official, engine):
    engine.script = (Delta(text="a", tokens=1), RowFault("step", "boom"))
    stream = await official.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
    with pytest.raises(openai.APIError, match="boom"):
        async for _ in stream:
            pass


async def test_a_wrong_key_raises_the_clients_own_class():
    async with client_of(ScriptedEngine(), api_keys=("right",)) as transport:
        official = openai.AsyncOpenAI(
            base_url="http://test/v1", api_key="wrong", max_retries=0, http_client=transport
        )
        with pytest.raises(openai.AuthenticationError):
            await official.models.list()
