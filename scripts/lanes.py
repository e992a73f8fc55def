"""The lane of each request field: a body that uses it, parsed, prepared and placed for real."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from slipstream.contracts.errors import InvalidRequest
from slipstream.contracts.model import ModelInfo
from slipstream.contracts.placement import Abilities
from slipstream.engine.placement import place
from slipstream.serve.api import Parse
from slipstream.serve.fields import NEVER, Context
from slipstream.serve.names import ServedNames
from slipstream.serve.openai import chat as openai_chat
from slipstream.serve.openai import completions as openai_completions
from slipstream.text.prepare import Preparer
from slipstream.text.template import ChatTemplate
from slipstream.text.tokenizer import Tokenizer

HEAD = """# Fields and lanes

Made from the code by `make docs`: for each field, a body that uses it is parsed, prepared and
placed, with the abilities of a model that can batch. No field is taken out of a request to make it
batch; what this server cannot do at all is refused.

| field | value | chat | completions |
|---|---|---|---|
"""
END = "<end>"
TEMPLATE = "{{ tools or '' }}{{ reasoning_effort }}{{ name }}{{ messages[0].content }}"
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
# A value of every field that asks for something.
SAMPLES: Mapping[str, Any] = MappingProxyType(
    {
        "adapter": "polite",
        "audio": {"voice": "any"},
        "best_of": 1,
        "cache_salt": "tenant",
        "chat_template_kwargs": {"name": "value"},
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
        "lane": "solo",
        "logit_bias": {"5": 1.0},
        "logprobs_mode": "raw",
        "max_completion_tokens": 9,
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Hi"}],
        "min_p": 0.1,
        "min_tokens": 2,
        "modalities": ["text"],
        "model": "model",
        "n": 4,
        "parallel_tool_calls": False,
        "presence_context_size": 9,
        "presence_penalty": 0.5,
        "priority": 2,
        "prompt": "Hi",
        "reasoning_effort": "low",
        "repetition_context_size": 9,
        "repetition_penalty": 1.1,
        "response_format": {"type": "json_object"},
        "seed": 7,
        "service_tier": "flex",
        "stop": ["."],
        "stop_token_ids": [5],
        "stream": True,
        "stream_options": {"include_usage": True},
        "structured_outputs": {"regex": "[a-z]+"},
        "suffix": "the end",
        "temperature": 0.7,
        "tool_choice": "auto",
        "tools": [TOOL],
        "top_k": 40,
        "top_logprobs": 3,
        "top_p": 0.9,
        "web_search_options": {"user_location": "any"},
        "xtc_probability": 0.5,
        "xtc_threshold": 0.2,
    }
)
CHAT = {**SAMPLES, "logprobs": True}
TEXT = {**SAMPLES, "logprobs": 3}
BESIDE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"top_logprobs": ("logprobs",), "stream_options": ("stream",)}
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
        return place(prompt.needs, Abilities()).lane
    except InvalidRequest:
        return "refused"


def rows() -> Iterator[tuple[str, str, str, str]]:
    """(field, sample as JSON, lane of a chat, lane of a completion); a lane is empty where the
    route does not know the field. Raises KeyError for a field without a sample."""
    routes = (
        (openai_chat.parse, CHAT, "messages", known(openai_chat.ChatRequest)),
        (openai_completions.parse, TEXT, "prompt", known(openai_completions.TextRequest)),
    )
    preparing = preparer()
    try:
        for field in sorted(NEVER.keys() | routes[0][3] | routes[1][3]):
            lanes = []
            for parse, samples, source, fields in routes:
                body = {name: samples[name] for name in (source, field, *BESIDE.get(field, ()))}
                here = field in fields or field in NEVER
                lanes.append(asyncio.run(lane(preparing, parse, body)) if here else "")
            value = msgspec.json.encode((CHAT if lanes[0] else TEXT)[field]).decode()
            yield field, value, lanes[0], lanes[1]
    finally:
        preparing.close()


def known(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


def lanes_page() -> str:
    return HEAD + "".join(
        f"| `{field}` | `{value}` | {chat} | {text} |\n" for field, value, chat, text in rows()
    )
