"""The same conversation is the same token ids on all three APIs, for every role and part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slipstream.contracts.clock import MonotonicClock
from slipstream.contracts.errors import InvalidRequest
from slipstream.contracts.model import ModelInfo
from slipstream.serve.anthropic import messages as anthropic_messages
from slipstream.serve.fields import Context
from slipstream.serve.names import ServedNames
from slipstream.serve.openai import chat as openai_chat
from slipstream.serve.responses.request import Responses
from slipstream.serve.responses.store import Store
from slipstream.text.prepare import Preparer
from slipstream.text.template import ChatTemplate
from text.vocabularies import tokenizer

BYTES = tokenizer("byte_level")
TEMPLATES = Path(__file__).parent.parent / "text" / "templates"
CONTEXT = Context("r", ServedNames("m"), strict=True, rows_max=1)
# With system, tools or parts of its own, or without: each reads something that others do not.
MODELS = (
    "chatml",
    "llama31_tools",
    "qwen25_tools",
    "qwen3_thinking",
    "phi4_mini",
    "gpt_oss",
    "gemma2",
    "mistral_v3",
    "smolvlm_parts",
)
SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}
LOOK = {"name": "look", "description": "Looks.", "parameters": SCHEMA}
CHAT_TOOLS = [{"type": "function", "function": LOOK}]
RESPONSE_TOOLS = [{"type": "function", **LOOK}]
ANTHROPIC_TOOLS = [{"name": "look", "description": "Looks.", "input_schema": SCHEMA}]
BILLING = "x-anthropic-billing-header: cc_version=2.1; cch=0f3a1;"
NOW = "Current time: 12:00:01"


def says(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def text(words: str, kind: str = "text") -> dict[str, str]:
    return {"type": kind, "text": words}


def called(number: int, arguments: Any) -> dict[str, Any]:
    function = {"name": "look", "arguments": arguments}
    return {"id": f"call_{number}", "type": "function", "function": function}


def call_item(number: int, arguments: str) -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": f"call_{number}",
        "name": "look",
        "arguments": arguments,
    }


def result_item(number: int, output: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": f"call_{number}", "output": output}


def use(number: int, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"call_{number}", "name": "look", "input": given}


def result(number: int, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": f"call_{number}", "content": content}


# name -> bodies for chat (several where one conversation can be written in several ways),
# Responses and Messages; None where an API has no way to say it.
TABLE: dict[str, tuple[list[Any], list[Any], list[Any]]] = {
    "one user": (
        [{"messages": [says("user", "Hi")]}, {"messages": [says("user", [text("Hi")])]}],
        [
            {"input": "Hi"},
            {"input": [says("user", "Hi")]},
            {"input": [says("user", [text("Hi", "input_text")])]},
            {"input": [{"type": "message", **says("user", "Hi")}]},
        ],
        [{"messages": [says("user", "Hi")]}, {"messages": [says("user", [text("Hi")])]}],
    ),
    "user parts": (
        [{"messages": [says("user", [text("a"), text("b "), text("c")])]}],
        [{"input": [says("user", [text(one, "input_text") for one in ("a", "b ", "c")])]}],
        [{"messages": [says("user", [text("a"), text("b "), text("c")])]}],
    ),
    "system": (
        [
            {"messages": [says("system", "Be brief."), says("user", "Hi")]},
            {"messages": [says("developer", "Be brief."), says("user", "Hi")]},
            {"messages": [says("system", [text("Be brief.")]), says("user", "Hi")]},
        ],
        [
            {"instructions": "Be brief.", "input": "Hi"},
            {"input": [says("system", "Be brief."), says("user", "Hi")]},
            {"input": [says("developer", "Be brief."), says("user", "Hi")]},
        ],
        [
            {"system": "Be brief.", "messages": [says("user", "Hi")]},
            {"system": [text("Be brief.")], "messages": [says("user", "Hi")]},
            {"messages": [says("system", "Be brief."), says("user", "Hi")]},
        ],
    ),
    "system parts": (
        [{"messages": [says("system", [text("Be"), text(" brief.")]), says("user", "Hi")]}],
        [
            {
                "input": [
                    says("system", [text("Be", "input_text"), text(" brief.", "input_text")]),
                    says("user", "Hi"),
                ]
            }
        ],
        [{"system": [text("Be"), text(" brief.")], "messages": [says("user", "Hi")]}],
    ),
    "a system in the middle": (
        [{"messages": [says("user", "a"), says("system", "French."), says("user", "b")]}],
        [{"input": [says("user", "a"), says("developer", "French."), says("user", "b")]}],
        [{"messages": [says("user", "a"), says("system", "French."), says("user", "b")]}],
    ),
    "turns": (
        [{"messages": [says("user", "1"), says("assistant", "2"), says("user", "3")]}],
        [
            {"input": [says("user", "1"), says("assistant", "2"), says("user", "3")]},
            {
                "input": [
                    says("user", "1"),
                    says("assistant", [text("2", "output_text")]),
                    says("user", "3"),
                ]
            },
        ],
        [{"messages": [says("user", "1"), says("assistant", "2"), says("user", "3")]}],
    ),
    "tools": (
        [{"tools": CHAT_TOOLS, "messages": [says("user", "Look.")]}],
        [{"tools": RESPONSE_TOOLS, "input": "Look."}],
        [{"tools": ANTHROPIC_TOOLS, "messages": [says("user", "Look.")]}],
    ),
    "a call alone, and its result": (
        [
            {
                "tools": CHAT_TOOLS,
                "messages": [
                    says("user", "Look."),
                    says("assistant", content, tool_calls=[called(1, arguments)]),
                    says("tool", "A", tool_call_id="call_1"),
                ],
            }
            for content in (None, "")
            for arguments in ('{"at": "漢字"}', {"at": "漢字"}, '{"at":"漢字"}')
        ],
        [
            {
                "tools": RESPONSE_TOOLS,
                "input": [says("user", "Look."), call_item(1, '{"at": "漢字"}'), output],
            }
            for output in (result_item(1, "A"), result_item(1, [text("A", "input_text")]))
        ],
        [
            {
                "tools": ANTHROPIC_TOOLS,
                "messages": [
                    says("user", "Look."),
                    says("assistant", [use(1, at="漢字")]),
                    says("user", [result(1, content)]),
                ],
            }
            for content in ("A", [text("A")])
        ],
    ),
    "text, two calls, results, and a question": (
        [
            {
                "tools": CHAT_TOOLS,
                "messages": [
                    says("user", "Look."),
                    says(
                        "assistant",
                        "I do.",
                        tool_calls=[called(1, '{"at": "a"}'), called(2, "{}")],
                    ),
                    says("tool", "A", tool_call_id="call_1"),
                    says("tool", "", tool_call_id="call_2"),
                    says("user", "And?"),
                ],
            }
        ],
        [
            {
                "tools": RESPONSE_TOOLS,
                "input": [
                    says("user", "Look."),
                    says("assistant", "I do."),
                    call_item(1, '{"at": "a"}'),
                    call_item(2, ""),
                    result_item(1, "A"),
                    result_item(2, ""),
                    says("user", "And?"),
                ],
            }
        ],
        [
            {
                "tools": ANTHROPIC_TOOLS,
                "messages": [
                    says("user", "Look."),
                    says("assistant", [text("I do."), use(1, at="a"), use(2)]),
                    says("user", [result(1, "A"), result(2, None), text("And?")]),
                ],
            }
        ],
    ),
    "thoughts": (
        [
            {
                "messages": [
                    says("user", "q"),
                    says("assistant", "a", **{name: "hm"}),
                    says("user", "and?"),
                ]
            }
            for name in ("reasoning_content", "reasoning")
        ],
        [
            {
                "input": [
                    says("user", "q"),
                    {
                        "type": "reasoning",
                        "summary": [],
                        "content": [text("hm", "reasoning_text")],
                    },
                    says("assistant", "a"),
                    says("user", "and?"),
                ]
            }
        ],
        [
            {
                "messages": [
                    says("user", "q"),
                    says(
                        "assistant",
                        [{"type": "thinking", "thinking": "hm", "signature": "x"}, text("a")],
                    ),
                    says("user", "and?"),
                ]
            }
        ],
    ),
    "an effort": (
        [{"messages": [says("user", "Hi")], "reasoning_effort": "low"}],
        [{"input": "Hi", "reasoning": {"effort": "low"}}],
        [{"messages": [says("user", "Hi")], "output_config": {"effort": "low"}}],
    ),
    "no thinking": (
        [{"messages": [says("user", "Hi")], "chat_template_kwargs": {"enable_thinking": False}}],
        [{"input": "Hi", "chat_template_kwargs": {"enable_thinking": False}}],
        [{"messages": [says("user", "Hi")], "thinking": {"type": "disabled"}}],
    ),
    "a line for the client's own servers": (
        [
            {"messages": [says("system", f"{BILLING}\nBe brief."), says("user", "Hi")]},
            {"messages": [says("system", [text(BILLING), text("Be brief.")]), says("user", "Hi")]},
            {"messages": [says("system", "Be brief."), says("user", "Hi")]},
        ],
        [{"instructions": f"{BILLING}\nBe brief.", "input": "Hi"}],
        [
            {"system": [text(BILLING), text("Be brief.")], "messages": [says("user", "Hi")]},
            {"system": f"{BILLING}\nBe brief.", "messages": [says("user", "Hi")]},
        ],
    ),
    "a line of the moment": (
        [{"messages": [says("system", f"{NOW}\nBe brief."), says("user", "Hi")]}],
        [{"instructions": f"{NOW}\nBe brief.", "input": "Hi"}],
        [{"system": f"{NOW}\nBe brief.", "messages": [says("user", "Hi")]}],
    ),
}
# Said on some APIs only, or meant differently on purpose; each with its other spellings.
PAIRS: dict[str, tuple[tuple[str, Any], tuple[str, Any]]] = {
    "consecutive users are apart on OpenAI's APIs": (
        ("chat", {"messages": [says("user", "a"), says("user", "b")]}),
        ("responses", {"input": [says("user", "a"), says("user", "b")]}),
    ),
    "consecutive users are one turn on Anthropic's": (
        ("chat", {"messages": [says("user", [text("a"), text("\n\n"), text("b")])]}),
        ("messages", {"messages": [says("user", "a"), says("user", "b")]}),
    ),
    "an answer to go on with": (
        (
            "chat",
            {
                "messages": [says("user", "Pick."), says("assistant", "I pick (")],
                "continue_final_message": True,
                "add_generation_prompt": False,
            },
        ),
        ("messages", {"messages": [says("user", "Pick."), says("assistant", "I pick (")]}),
    ),
    "a refusal is what was said": (
        ("chat", {"messages": [says("user", "a"), says("assistant", "No."), says("user", "b")]}),
        (
            "responses",
            {
                "input": [
                    says("user", "a"),
                    says("assistant", [{"type": "refusal", "refusal": "No."}]),
                    says("user", "b"),
                ]
            },
        ),
    ),
    "a refusal in a chat is what was said": (
        ("chat", {"messages": [says("user", "a"), says("assistant", "No."), says("user", "b")]}),
        (
            "chat",
            {
                "messages": [
                    says("user", "a"),
                    says("assistant", None, refusal="No."),
                    says("user", "b"),
                ]
            },
        ),
    ),
    "a tool's result may stand first": (
        ("chat", {"messages": [says("tool", "A", tool_call_id="call_1"), says("user", "b")]}),
        ("messages", {"messages": [says("user", [result(1, "A"), text("b")])]}),
    ),
    "and in Responses": (
        ("chat", {"messages": [says("tool", "A", tool_call_id="call_1"), says("user", "b")]}),
        ("responses", {"input": [result_item(1, "A"), says("user", "b")]}),
    ),
}


def preparer(template: str) -> Preparer:
    info = ModelInfo(
        id="m",
        path=Path("m"),
        context=9999,
        vocab_size=BYTES.vocab_size,
        eos_ids=(),
        config={},
    )
    words = (TEMPLATES / f"{template}.jinja").read_text("utf-8")
    return Preparer(
        info, BYTES, ChatTemplate({"default": words}, special=BYTES.named), {}, info.context
    )


def parsed(api: str, body: Any) -> Any:
    match api:
        case "chat":
            return openai_chat.parse(body, CONTEXT).completions[0]
        case "responses":
            store = Store(MonotonicClock())
            return Responses(store).parse(body, CONTEXT).completions[0]
        case _:
            return anthropic_messages.parse({"max_tokens": 9, **body}, CONTEXT).completions[0]


def ids_or_refusal(prepared: Preparer, api: str, body: Any) -> Any:
    """Some templates refuse two calls at once, or a system; then all APIs say so in one voice."""
    asked = parsed(api, body)
    try:
        return prepared.ids(asked)
    except InvalidRequest as error:
        return error.message


@pytest.mark.parametrize("template", MODELS)
@pytest.mark.parametrize("name", TABLE)
def test_a_conversation_is_the_same_ids_on_all_three_apis(name: str, template: str) -> None:
    prepared = preparer(template)
    bodies = zip(("chat", "responses", "messages"), TABLE[name], strict=True)
    found = [(api, ids_or_refusal(prepared, api, b)) for api, several in bodies for b in several]
    for api, ids in found:
        assert ids == found[0][1], api
    assert len(found[0][1]) > 5


@pytest.mark.parametrize("template", MODELS)
@pytest.mark.parametrize("name", PAIRS)
def test_what_only_some_apis_can_say_is_the_same_ids_there(name: str, template: str) -> None:
    prepared = preparer(template)
    one, other = (ids_or_refusal(prepared, api, body) for api, body in PAIRS[name])
    assert one == other


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_a_refusal_of_the_template_is_the_clients_to_mend(api: str) -> None:
    prepared = preparer("gemma2")
    body = TABLE["system"][("chat", "responses", "messages").index(api)][0]
    with pytest.raises(InvalidRequest, match=r"[Ss]ystem"):
        prepared.ids(parsed(api, body))
