"""Conversations of the Messages API, as chat templates get them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slipstream.contracts.errors import InvalidRequest
from slipstream.contracts.model import ModelInfo
from slipstream.serve.anthropic import messages as anthropic_messages
from slipstream.serve.fields import Context
from slipstream.serve.names import ServedNames
from slipstream.serve.openai import chat as openai_chat
from slipstream.text.prepare import Preparer
from slipstream.text.template import ChatTemplate
from text.vocabularies import tokenizer

BYTES = tokenizer("byte_level")
TEMPLATES = Path(__file__).parent.parent / "text" / "templates"
CONTEXT = Context("r", ServedNames("m"), strict=True, rows_max=1)
SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}
FUNCTION = {"name": "look", "description": "Looks.", "parameters": SCHEMA}
OPENAI_TOOLS = [{"type": "function", "function": FUNCTION}]
ANTHROPIC_TOOLS = [{"name": "look", "description": "Looks.", "input_schema": SCHEMA}]


def completion(messages, **fields):
    body = {"messages": messages, "max_tokens": 9, **fields}
    return anthropic_messages.parse(body, CONTEXT).completions[0]


def made(messages, **fields):
    return [*completion(messages, **fields).messages]


def text(words):
    return {"type": "text", "text": words}


def user(*content):
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else [*content]}


def assistant(*content):
    return user(*content) | {"role": "assistant"}


def use(number, **given):
    return {"type": "tool_use", "id": f"call_{number}", "name": "look", "input": given}


def result(number, content, **more):
    return {"type": "tool_result", "tool_use_id": f"call_{number}", "content": content, **more}


def called(number, arguments):
    function = {"name": "look", "arguments": arguments}
    return {"id": f"call_{number}", "type": "function", "function": function}


def says(role, content, **more):
    return {"role": role, "content": content, **more}


# The same conversation for both APIs: Anthropic's fields, then OpenAI's.
TABLE = {
    "one": ({"messages": [user("Hi")]}, {"messages": [says("user", "Hi")]}),
    "blocks": (
        {"messages": [user(text("a"), text("b "), text("c"))]},
        {"messages": [says("user", [text("a"), text("b "), text("c")])]},
    ),
    "system": (
        {"system": "Be brief.", "messages": [user("Hi")]},
        {"messages": [says("system", "Be brief."), says("user", "Hi")]},
    ),
    "system blocks": (
        {"system": [text("Be"), text(" brief.")], "messages": [user("Hi")]},
        {"messages": [says("system", [text("Be"), text(" brief.")]), says("user", "Hi")]},
    ),
    "turns": (
        {"messages": [user("1?"), assistant("2."), user(text("3?")), assistant("4"), user("5?")]},
        {
            "messages": [
                says("user", "1?"),
                says("assistant", "2."),
                says("user", "3?"),
                says("assistant", "4"),
                says("user", "5?"),
            ]
        },
    ),
    "tools": (
        {"tools": ANTHROPIC_TOOLS, "messages": [user("Look.")]},
        {"tools": OPENAI_TOOLS, "messages": [says("user", "Look.")]},
    ),
    "calls": (
        {
            "tools": ANTHROPIC_TOOLS,
            "messages": [
                user("Look."),
                assistant(text("I do."), use(1, at="a"), use(2, at="漢字")),
                user(result(1, "A"), result(2, [text("B"), text("b")]), text("And?")),
            ],
        },
        {
            "tools": OPENAI_TOOLS,
            "messages": [
                says("user", "Look."),
                says(
                    "assistant",
                    "I do.",
                    tool_calls=[called(1, '{"at": "a"}'), called(2, '{"at": "漢字"}')],
                ),
                says("tool", "A", tool_call_id="call_1"),
                says("tool", [text("B"), text("b")], tool_call_id="call_2"),
                says("user", "And?"),
            ],
        },
    ),
    "thinking": (
        {
            "messages": [
                user("q"),
                assistant({"type": "thinking", "thinking": "hm", "signature": "x"}, text("a")),
                user("and?"),
            ]
        },
        {
            "messages": [
                says("user", "q"),
                says("assistant", "a", reasoning_content="hm"),
                says("user", "and?"),
            ]
        },
    ),
    "no thinking": (
        {"messages": [user("Hi")], "thinking": {"type": "disabled"}},
        {"messages": [says("user", "Hi")], "chat_template_kwargs": {"enable_thinking": False}},
    ),
    "effort": (
        {"messages": [user("Hi")], "output_config": {"effort": "low"}},
        {"messages": [says("user", "Hi")], "reasoning_effort": "low"},
    ),
}
MODELS = ("chatml", "llama31_tools", "qwen25_tools", "qwen3_thinking", "phi4_mini", "gpt_oss")


def preparer(template):
    info = ModelInfo(
        id="m", path=None, context=9999, vocab_size=BYTES.vocab_size, eos_ids=(), config={}
    )
    words = (TEMPLATES / f"{template}.jinja").read_text("utf-8")
    chat = ChatTemplate({"default": words}, special=BYTES.named)
    return Preparer(info, BYTES, chat, {}, 9999)


def chat_completion(fields):
    """Of the same conversation on /v1/chat/completions; tools go from there as they came."""
    body = {name: value for name, value in fields.items() if name != "tools"}
    parsed = openai_chat.parse(body, CONTEXT).completions[0]
    return replace(parsed, tools=tuple(fields.get("tools", ())))


def ids_or_refusal(prepared, asked):
    """Some templates refuse two calls at once."""
    try:
        return prepared.ids(asked)
    except InvalidRequest as error:
        return error.message


@pytest.mark.parametrize("template", MODELS)
@pytest.mark.parametrize("name", TABLE)
def test_a_conversation_has_the_prompt_that_the_chat_route_makes_of_it(name, template):
    ours, theirs = TABLE[name]
    prepared = preparer(template)
    expected = ids_or_refusal(prepared, chat_completion(theirs))
    assert ids_or_refusal(prepared, completion(**ours)) == expected


def test_turns_of_one_role_become_one():
    found = made(
        [
            user("a"),
            user(text("b"), text("c")),
            assistant("d"),
            assistant(use(1), text("e")),
            assistant(text("f")),
            user(result(1, "g")),
            user("h"),
        ]
    )
    assert found == [
        says("user", [text(one) for one in ("a", "\n\n", "b", "c")]),
        says("assistant", "de\n\nf", tool_calls=[called(1, {})]),
        says("tool", "g", tool_call_id="call_1"),
        says("user", "h"),
    ]


def test_results_and_texts_keep_their_order():
    found = made(
        [user("a"), assistant(use(1), use(2)), user(text("b"), result(2, None), text("c"))]
    )
    assert found[2:] == [
        says("user", "b"),
        says("tool", "", tool_call_id="call_2"),
        says("user", "c"),
    ]


@pytest.mark.parametrize("content", ["No such file.", [text("No such"), text(" file.")]])
def test_a_failed_tool_says_so_in_its_text(content):
    found = made([user("a"), assistant(use(1)), user(result(1, content, is_error=True))])
    assert found[-1] == says("tool", "Error: No such file.", tool_call_id="call_1")


def test_a_system_turn_may_stand_among_the_others():
    found = made([user("a"), says("system", "Now in French."), user("b")], system="Be brief.")
    assert [one["role"] for one in found] == ["system", "user", "system", "user"]


def test_thoughts_go_where_templates_look_for_them():
    thoughts = [{"type": "thinking", "thinking": words, "signature": "s"} for words in "ab"]
    found = made([user("q"), assistant(thoughts[0], use(1), thoughts[1]), user(result(1, "r"))])
    assert found[1] == says("assistant", "", tool_calls=[called(1, {})], reasoning_content="a\n\nb")


def test_a_last_turn_of_the_assistant_is_continued():
    found = completion([user("Pick."), assistant("I pick (")])
    assert found.continue_final
    assert not completion([user("Pick.")]).continue_final
    prompt = preparer("chatml").ids(found)
    assert BYTES.decode(prompt).endswith("assistant\nI pick (")


def test_an_empty_system_is_none():
    for system in ("", [], None):
        assert made([user("a")], system=system) == [says("user", "a")]
