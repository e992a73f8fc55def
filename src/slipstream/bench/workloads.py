"""What a load test says: endless conversations of each kind, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, cycle
from types import MappingProxyType
from typing import Any

from slipstream.bench.target import NOTHING
from slipstream.bench.texts import Message, Words, system

SHORTS = 7  # short streams for each long prompt
TURNS = 4  # of a chat
LONGER = 16  # times the usual prompt is a long one
PENALISED = MappingProxyType({"presence_penalty": 0.3, "frequency_penalty": 0.3})
LOGPROBS = MappingProxyType({"logprobs": True, "top_logprobs": 5})
NUMBERS = MappingProxyType({"type": "array", "items": {"type": "integer"}, "minItems": 200})
SCHEMA = MappingProxyType(
    {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "numbers", "schema": dict(NUMBERS)},
        },
        "ignore_eos": None,  # the schema keeps it going
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The usual prompt in words, each about a token, and the usual answer in tokens."""

    prompt: int = 128
    output: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """A conversation: each question is asked once the one before it is answered."""

    questions: Sequence[str]
    tokens: int  # of each answer
    kind: str
    opening: Sequence[Message] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)


def equal(words: Words, size: Size) -> Iterator[Talk]:
    """Prompts and answers of one length."""
    while True:
        yield _one(words, size, "equal")


def mixed_lengths(words: Words, size: Size) -> Iterator[Talk]:
    """Prompts of a quarter to four times the length, answers of a half to twice theirs."""
    while True:
        prompt = round(size.prompt * 4 ** words.chance.uniform(-1, 1))
        output = round(size.output * 2 ** words.chance.uniform(-1, 1))
        yield _one(words, Size(prompt=prompt, output=max(2, output)), "mixed-lengths")


def seeded(words: Words, size: Size) -> Iterator[Talk]:
    """Rows that sample with a seed of their own."""
    while True:
        yield _one(words, size, "seeded", _sampled(words))


def schema(words: Words, size: Size) -> Iterator[Talk]:
    """Answers that a JSON Schema binds."""
    while True:
        yield _one(words, size, "schema", SCHEMA)


def mixed_shapes(words: Words, size: Size) -> Iterator[Talk]:
    """Greedy, seeded, penalised, with log-probabilities, and bound by a schema, in turn."""
    for kind in cycle(("greedy", "seeded", "penalised", "logprobs", "schema")):
        fields = {
            "seeded": _sampled(words),
            "penalised": PENALISED,
            "logprobs": LOGPROBS,
            "schema": SCHEMA,
        }
        yield _one(words, size, kind, fields.get(kind, NOTHING))


def shared_prefix(words: Words, size: Size) -> Iterator[Talk]:
    """Agents with one system prompt of four times the length, and a short question each."""
    opening = [system(words.of(4 * size.prompt))]
    while True:
        yield Talk(
            questions=[words.of(max(8, size.prompt // 8))],
            tokens=size.output,
            kind="shared-prefix",
            opening=opening,
        )


def chat(words: Words, size: Size) -> Iterator[Talk]:
    """Conversations of several turns, each with all that was said before."""
    while True:
        questions = [words.of(max(8, size.prompt // 4)) for _ in range(TURNS)]
        opening = [system(words.of(size.prompt))]
        yield Talk(questions=questions, tokens=size.output, kind="chat", opening=opening)


def long_among_short(words: Words, size: Size) -> Iterator[Talk]:
    """One prompt of many times the length among seven short streams."""
    for number in count():
        if number % (SHORTS + 1) == SHORTS // 2:
            yield _one(words, Size(prompt=LONGER * size.prompt, output=size.output), "long")
        else:
            yield _one(words, Size(prompt=size.prompt // 2, output=size.output), "short")


WORKLOADS: Mapping[str, Callable[[Words, Size], Iterator[Talk]]] = MappingProxyType(
    {
        "equal": equal,
        "mixed-lengths": mixed_lengths,
        "mixed-shapes": mixed_shapes,
        "shared-prefix": shared_prefix,
        "chat": chat,
        "long-among-short": long_among_short,
        "seeded": seeded,
        "schema": schema,
    }
)


def talks(workload: str, seed: str, size: Size) -> Iterator[Talk]:
    """`seed` makes them repeatable; other seeds share no beginning of a prompt with it."""
    return WORKLOADS[workload](Words(random.Random(f"{workload} {seed}")), size)


def _one(words: Words, size: Size, kind: str, fields: Mapping[str, Any] = NOTHING) -> Talk:
    return Talk(questions=[words.of(size.prompt)], tokens=size.output, kind=kind, fields=fields)


def _sampled(words: Words) -> Mapping[str, Any]:
    return {"temperature": 0.8, "top_p": 0.9, "seed": words.chance.getrandbits(31)}
