"""Tools on the chat route: what is asked, and what comes back, streamed and not."""

from __future__ import annotations

import json
from itertools import count

import openai
import pytest

from slipstream.contracts.completion import ToolChoice, ToolMode
from slipstream.contracts.delta import Delta, ToolDelta
from slipstream.contracts.row import FinishReason, TokenEvent
from slipstream.text.detokenize import Detokenizer
from slipstream.text.pieces import byte_alphabet
from slipstream.text.sink import Sink
from slipstream.text.stops import Stops
from slipstream.text.tools.families import choose
from slipstream.text.tools.harmony import Harmony
from slipstream.text.tools.stage import ToolStage
from text.tools.transcripts import HARMONY, TOOLBOX, TRANSCRIPTS
from text.vocabularies import tokenizer

from .official import strict
from .scripted import CHAT, MODEL, ScriptedEngine, chat, chunks, client_of

pytestmark = pytest.mark.anyio

BYTES = tokenizer("byte_level")
ALPHABET = {byte: BYTES.id_of(sign) for sign, byte in byte_alphabet().items()}
LOOK = {"name": "look", "parameters": {"type": "object", "properties": {"at": {}}}}
TOOL = {"type": "function", "function": LOOK}
OTHER = {"type": "function", "function": {"name": "other", "strict": True}}
CALLS = (
    Delta(text="So: ", tokens=2),
    Delta(calls=(ToolDelta(index=0, id="call_a", name="look", arguments='{"at"'),), tokens=3),
    Delta(
        calls=(
            ToolDelta(index=0, arguments=": 1}"),
            ToolDelta(index=1, id="call_b", name="other", arguments="{}"),
        ),
        tokens=2,
    ),
    Delta(tokens=1, finish=FinishReason.TOOL_CALLS),
)


async def accepted(client, engine, **fields):
    reply = await client.post(CHAT, json=chat(**fields))
    assert reply.status_code == 200, reply.text
    return engine.last, reply.json()


async def refused(client, **fields):
    reply = await client.post(CHAT, json=chat(**fields))
    assert reply.status_code == 400, reply.text
    return reply.json()["error"]


async def test_tools_arrive_as_they_were_sent(client, engine):
    completion, body = await accepted(client, engine, tools=[TOOL, OTHER])
    assert list(completion.tools) == [TOOL, OTHER]
    assert completion.tool_choice == ToolChoice()
    assert body["slipstream"]["ignored"] == []


NAMED = {"type": "function", "function": {"name": "look"}}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("none", ToolChoice(mode=ToolMode.NONE)),
        ("auto", ToolChoice()),
        ("required", ToolChoice(mode=ToolMode.REQUIRED)),
        (NAMED, ToolChoice(mode=ToolMode.NAMED, name="look")),
        (None, ToolChoice()),
    ],
)
async def test_a_choice_arrives(client, engine, choice, expected):
    completion, _ = await accepted(client, engine, tools=[TOOL], tool_choice=choice)
    assert completion.tool_choice == expected


async def test_only_allowed_tools_are_offered(client, engine):
    allowed = {"mode": "required", "tools": [NAMED]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    completion, _ = await accepted(client, engine, tools=[TOOL, OTHER], tool_choice=choice)
    assert list(completion.tools) == [TOOL]
    assert completion.tool_choice.mode is ToolMode.REQUIRED


async def test_calls_may_be_kept_to_one(client, engine):
    completion, _ = await accepted(client, engine, tools=[TOOL], parallel_tool_calls=False)
    assert not completion.tool_choice.parallel


async def test_tools_of_other_kinds_are_declared(client, engine):
    tools = [TOOL, {"type": "web_search"}, {"type": "web_search"}]
    completion, body = await accepted(client, engine, tools=tools)
    assert list(completion.tools) == [TOOL]
    assert body["slipstream"]["ignored"] == ["tools[web_search]"]


async def test_tools_of_other_kinds_are_refused_when_strict(engine):
    async with client_of(engine, strict=True) as client:
        error = await refused(client, tools=[{"type": "web_search"}])
    assert error["param"] == "tools[web_search]"


async def test_what_the_model_cannot_use_is_declared(client, engine, monkeypatch):
    async def submit(completion):
        running = await ScriptedEngine.submit(engine, completion)
        running.ignored = ("reasoning_effort",)
        return running

    monkeypatch.setattr(engine, "submit", submit)
    _, body = await accepted(client, engine, reasoning_effort="low", user="me")
    assert body["slipstream"]["ignored"] == ["user", "reasoning_effort"]


def tool(**function):
    return [{"type": "function", "function": function}]


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("tools[0].function", {"tools": [{"type": "function"}]}),
        ("tools[0].function.name", {"tools": tool(name="")}),
        ("tools[0].function.name", {"tools": tool(name="two words")}),
        ("tools[1].function.name", {"tools": [TOOL, TOOL]}),
        ("tools[0].function.parameters", {"tools": tool(name="f", parameters={"type": "array"})}),
        ("tools[0].function.parameters", {"tools": tool(name="f", parameters=[])}),
        ("tool_choice", {"tools": [], "tool_choice": "required"}),
        ("tool_choice", {"tools": [{"type": "web_search"}], "tool_choice": "required"}),
        ("tool_choice.function.name", {"tools": [OTHER], "tool_choice": NAMED}),
        ("tool_choice.function", {"tools": [TOOL], "tool_choice": {"type": "function"}}),
        (
            "tool_choice.allowed_tools",
            {
                "tools": [OTHER],
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {"mode": "auto", "tools": [NAMED]},
                },
            },
        ),
    ],
)
async def test_what_is_wrong_with_tools_is_named(client, param, fields):
    assert (await refused(client, **fields))["param"].replace("[]", "[0]") == param


@pytest.mark.parametrize("arguments", ['{"at": "日"}', {"at": "日"}])
async def test_calls_of_a_conversation_reach_the_template_as_objects(client, engine, arguments):
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": arguments}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning": "Hm."},
        {"role": "tool", "tool_call_id": "c", "content": "There."},
    ]
    completion, _ = await accepted(client, engine, messages=messages)
    said = completion.messages[1]
    assert said["tool_calls"][0]["function"] == {"name": "look", "arguments": {"at": "日"}}
    assert said["reasoning_content"] == "Hm."
    assert completion.messages[2]["tool_call_id"] == "c"


async def test_a_message_holds_its_calls(client, engine):
    engine.script = CALLS
    _, body = await accepted(client, engine, tools=[TOOL])
    choice = body["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"] == {
        "role": "assistant",
        "content": "So: ",
        "refusal": None,
        "tool_calls": [
            {
                "id": "call_a",
                "type": "function",
                "function": {"name": "look", "arguments": '{"at": 1}'},
            },
            {"id": "call_b", "type": "function", "function": {"name": "other", "arguments": "{}"}},
        ],
    }


async def test_a_message_of_calls_alone_has_no_content(client, engine):
    engine.script = CALLS[1:]
    _, body = await accepted(client, engine, tools=[TOOL])
    assert body["choices"][0]["message"]["content"] is None


async def test_a_stream_hands_calls_out_piece_by_piece(client, engine):
    engine.script = CALLS
    got = chunks((await client.post(CHAT, json=chat(tools=[TOOL], stream=True))).text)
    deltas = [chunk["choices"][0]["delta"] for chunk in got]
    assert deltas[1:] == [
        {"content": "So: "},
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "call_a",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"at"'},
                }
            ]
        },
        {
            "tool_calls": [
                {"index": 0, "function": {"arguments": ": 1}"}},
                {
                    "index": 1,
                    "id": "call_b",
                    "type": "function",
                    "function": {"name": "other", "arguments": "{}"},
                },
            ]
        },
        {},
    ]


def folded(got):
    """The message that the chunks of a stream add up to."""
    message, calls = {"content": "", "reasoning_content": ""}, {}
    finish = None
    for choice in (choice for chunk in got for choice in chunk["choices"]):
        for name in message:
            message[name] += choice["delta"].get(name) or ""
        for call in choice["delta"].get("tool_calls", ()):
            whole = calls.setdefault(call["index"], {"arguments": ""})
            whole |= {"id": call["id"], "name": call["function"]["name"]} if "id" in call else {}
            whole["arguments"] += call["function"]["arguments"]
        finish = choice["finish_reason"] or finish
    return message, list(calls.values()), finish


def scripts(text, reader):
    """The deltas of `text`: token by token, byte by byte, a few at a time, and all at once."""
    tokens = BYTES.encode(text)
    letters = [ALPHABET[byte] for byte in text.encode()]
    for ids, size in ((tokens, 1), (letters, 1), (letters, 7), (tokens, len(tokens))):
        made = Sink(Detokenizer(BYTES), Stops(()), reader(), stop_ids={BYTES.eos_id})
        events = [TokenEvent(token) for token in ids]
        events.append(TokenEvent(BYTES.eos_id, finish=FinishReason.STOP))
        yield [d for at in range(0, len(events), size) for d in made.push(events[at : at + size])]


def reader_of(one):
    ids = count()
    form = choose(one.declared, lambda token: False)
    return lambda: ToolStage(form, TOOLBOX, new_id=lambda: f"call_{next(ids)}")


READERS = [(one.text, reader_of(one)) for one in TRANSCRIPTS] + [(HARMONY, Harmony)]


@pytest.mark.parametrize(("text", "reader"), READERS)
async def test_a_stream_adds_up_to_the_body_in_every_dialect(client, engine, text, reader):
    for script in scripts(text, reader):
        engine.script = script
        body = (await client.post(CHAT, json=chat(tools=[TOOL]))).json()["choices"][0]
        got = chunks((await client.post(CHAT, json=chat(tools=[TOOL], stream=True))).text)
        message, calls, finish = folded(got)
        whole = body["message"]
        assert message["content"] == (whole["content"] or "")
        assert message["reasoning_content"] == whole.get("reasoning_content", "")
        assert finish == body["finish_reason"] == "tool_calls"
        assert calls == [{"id": call["id"], **call["function"]} for call in whole["tool_calls"]]
        assert all(isinstance(json.loads(call["arguments"]), dict) for call in calls)


async def test_the_official_client_knows_every_field(engine):
    engine.script = CALLS
    async with client_of(engine) as transport:
        official = openai.AsyncOpenAI(
            base_url="http://test/v1", api_key="none", max_retries=0, http_client=transport
        )
        request = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "tools": [TOOL]}
        body = strict(await official.chat.completions.create(**request))
        assert [call.function.name for call in body.choices[0].message.tool_calls] == [
            "look",
            "other",
        ]
        stream = await official.chat.completions.create(**request, stream=True)
        pieces = [strict(chunk).choices[0].delta.tool_calls async for chunk in stream]
        assert sum(len(piece) for piece in pieces if piece) == 3
