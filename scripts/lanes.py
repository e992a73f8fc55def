"""The lane of each request field: a body that uses it, parsed, prepared and placed for real."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from slipstream.contracts.clock import MonotonicClock
from slipstream.contracts.errors import InvalidRequest
from slipstream.contracts.model import ModelInfo
from slipstream.contracts.placement import Abilities
from slipstream.engine.placement import place
from slipstream.serve.anthropic import messages as anthropic_messages
from slipstream.serve.api import Parse
from slipstream.serve.fields import NEVER, Context
from slipstream.serve.names import ServedNames
from slipstream.serve.openai import chat as openai_chat
from slipstream.serve.openai import completions as openai_completions
from slipstream.serve.responses.request import Responses, ResponsesRequest
from slipstream.serve.responses.store import Store
from slipstream.text.prepare import Preparer
from slipstream.text.template import ChatTemplate
from slipstream.text.tokenizer import Tokenizer

HEAD = """# Fields and lanes

Made from the code by `make docs`: for each field, a body that uses it is parsed, prepared and
placed, with the abilities of a model that can batch. No field is taken out of a request to make it
batch; what this server cannot do at all is refused.

| field | value | chat | completions | responses | messages |
|---|---|---|---|---|---|
"""
END = "<end>"
TEMPLATE = (
    "{{ tools or '' }}{{ reasoning_effort }}{{ name }}{{ enable_thinking }}"
    "{% for message in messages %}{{ message.content }}{% endfor %}"
)
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
# A value of every field that asks for something.
SAMPLES: Mapping[str, Any] = MappingProxyType(
    {
        "adapter": "polite",
        "adapters": "folder",
        "audio": {"voice": "any"},
        "best_of": 1,
        "cache_control": {"type": "ephemeral"},
        "cache_salt": "tenant",
        "chat_template_kwargs": {"name": "value"},
        "continue_final_message": True,
        "add_generation_prompt": True,
        "draft": "ngram",
        "echo": True,
        "frequency_context_size": 9,
        "frequency_penalty": 0.5,
        "function_call": "auto",
        "functions": [{"name": "look"}],
        "guided_choice": ["a", "b"],
        "guided_grammar": 'start: "a"',
        "guided_json": {"type": "object"},
        "guided_regex": "[a-z]+",
        "ignore_eos": True,
        "include": ["reasoning.encrypted_content"],
        "input": "Hi",
        "instructions": "Be brief.",
        "lane": "solo",
        "logit_bias": {"5": 1.0},
        "logprobs_mode": "raw",
        "max_completion_tokens": 9,
        "max_output_tokens": 9,
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Well,"},
        ],
        "metadata": {"name": "value"},
        "min_p": 0.1,
        "min_tokens": 2,
        "modalities": ["text"],
        "model": "model",
        "n": 4,
        "output_config": {"effort": "low"},
        "output_format": {"type": "json_schema", "schema": {"type": "object"}},
        "parallel_tool_calls": False,
        "presence_context_size": 9,
        "presence_penalty": 0.5,
        "priority": 2,
        "prompt": "Hi",
        "reasoning": {"effort": "low"},
        "reasoning_effort": "low",
        "repetition_context_size": 9,
        "repetition_penalty": 1.1,
        "response_format": {"type": "json_object"},
        "seed": 7,
        "service_tier": "flex",
        "stop": ["."],
        "stop_sequences": ["."],
        "stop_token_ids": [5],
        "store": False,
        "stream": True,
        "stream_options": {"include_usage": True},
        "structured_outputs": {"regex": "[a-z]+"},
        "suffix": "the end",
        "system": "Be brief.",
        "temperature": 0.7,
        "text": {"format": {"type": "json_object"}},
        "thinking": {"type": "enabled"},
        "tool_choice": "auto",
        "tools": [TOOL],
        "top_k": 40,
        "top_logprobs": 3,
        "top_p": 0.9,
        "truncation": "disabled",
        "web_search_options": {"user_location": "any"},
        "xtc_probability": 0.5,
        "xtc_threshold": 0.2,
    }
)


@dataclass(frozen=True, slots=True)
class Route:
    """`samples` where they differ from SAMPLES, `always` in every body, `never` refused by name."""

    parse: Parse
    request: type[msgspec.Struct]
    always: tuple[str, ...]
    samples: Mapping[str, Any]
    never: Collection[str]

    @property
    def known(self) -> set[str]:
        return {field.encode_name for field in msgspec.structs.fields(self.request)}

    def body(self, field: str) -> dict[str, Any]:
        names = (*self.always, field, *BESIDE.get(field, ()))
        return {name: self.sample(name) for name in names if name in self.known | {field}}

    def sample(self, field: str) -> Any:
        return {**SAMPLES, **self.samples}[field]


ANTHROPIC = {
    "service_tier": "auto",
    "tool_choice": {"type": "auto"},
    "tools": [{"name": "look", "input_schema": {"type": "object"}}],
}
RESPONSES = {
    "include": ["message.output_text.logprobs"],
    "n": 1,
    "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
}
ABILITIES = Abilities(adapters=frozenset({SAMPLES["adapter"]}))
ROUTES = (
    Route(openai_chat.parse, openai_chat.ChatRequest, ("messages",), {"logprobs": True}, NEVER),
    Route(
        openai_completions.parse,
        openai_completions.TextRequest,
        ("prompt",),
        {"logprobs": 3},
        NEVER,
    ),
    Route(
        Responses(Store(MonotonicClock())).parse,
        ResponsesRequest,
        ("input",),
        RESPONSES,
        (),
    ),
    Route(
        anthropic_messages.parse,
        anthropic_messages.MessagesRequest,
        ("messages", "max_tokens"),
        ANTHROPIC,
        (),
    ),
)
# Nothing that a single body could show: it speaks of an earlier one, or is refused whatever it is.
SKIPPED = frozenset({"background", "previous_response_id"})
BESIDE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"top_logprobs": ("logprobs", "include"), "stream_options": ("stream",)}
)


def preparer() -> Preparer:
    """The text side of a model whose tokens are bytes."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    backend = tokenizers.Tokenizer(models.BPE(vocabulary, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = Tokenizer(backend, {"eos_token": END})
    info = ModelInfo(
        id="model",
        path=Path("model"),
        context=1000,
        vocab_size=tokenizer.vocab_size,
        eos_ids=(),
        config={},
    )
    template = ChatTemplate({"default": TEMPLATE})
    return Preparer(info, tokenizer, template, {}, info.context)


async def lane(preparing: Preparer, parse: Parse, body: dict[str, Any]) -> str:
    """Where `body` goes, or `refused`."""
    context = Context(
        request_id="docs", names=ServedNames("model"), strict=True, rows_max=len(SAMPLES)
    )
    try:
        (completion,) = parse(body, context).completions
        prompt = preparing.prepare(completion, await preparing.grammar(completion)).prompt
        return place(prompt.needs, ABILITIES).lane
    except InvalidRequest:
        return "refused"


def rows() -> Iterator[tuple[str, ...]]:
    """(field, sample as JSON, its lane on each route); a lane is empty where the route does not
    know the field. Raises KeyError for a field without a sample."""
    preparing = preparer()
    try:
        for field in sorted(set().union(NEVER, *(route.known for route in ROUTES)) - SKIPPED):
            lanes = [
                asyncio.run(lane(preparing, route.parse, route.body(field)))
                if field in {*route.known, *route.never}
                else ""
                for route in ROUTES
            ]
            first = next(route for route, found in zip(ROUTES, lanes, strict=True) if found)
            yield field, msgspec.json.encode(first.body(field)[field]).decode(), *lanes
    finally:
        preparing.close()


def lanes_page() -> str:
    return HEAD + "".join(
        f"| `{field}` | `{value}` | {' | '.join(lanes)} |\n" for field, value, *lanes in rows()
    )
