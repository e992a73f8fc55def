"""The request fields that bind output to a form, and the one GrammarText they come to.

It does not compile anything: whether a schema or grammar is sound is found by the text side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Protocol

import msgspec
from msgspec import Meta

from slipstream.contracts.completion import GrammarText
from slipstream.contracts.errors import InvalidRequest
from slipstream.serve.wire import encode

Filled = Annotated[str, Meta(min_length=1)]
Choices = Annotated[list[Filled], Meta(min_length=1)]
Schema = Filled | dict[str, Any]

GBNF_RULE = re.compile(r"^\s*[\w-]+\s*::=", re.MULTILINE)


class JsonSchema(msgspec.Struct):
    schema: dict[str, Any]
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct):
    """OpenAI's form, and the `schema` beside json_object that llama.cpp and others take."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None
    schema: dict[str, Any] | None = None


class StructuredOutputs(msgspec.Struct, forbid_unknown_fields=True):
    """vLLM's form: exactly one of these."""

    json: Schema | None = None
    json_object: bool | None = None
    regex: Filled | None = None
    choice: Choices | None = None
    grammar: Filled | None = None


class Asking(Protocol):
    """A request with the fields that can bind output."""

    response_format: ResponseFormat | None
    guided_json: Schema | None
    guided_regex: Filled | None
    guided_choice: Choices | None
    guided_grammar: Filled | None
    structured_outputs: StructuredOutputs | None


def grammar(request: Asking) -> GrammarText | None:
    """Raises InvalidRequest when several fields ask, or one asks for nothing."""
    asked = list(every(request))
    if len(asked) > 1:
        raise InvalidRequest(
            f"{asked[1].param} cannot be joined with {asked[0].param}; send one of them.",
            param=asked[1].param,
        )
    return asked[0] if asked else None


def every(request: Asking) -> Iterator[GrammarText]:
    if request.response_format is not None:
        yield from formatted(request.response_format)
    if request.guided_json is not None:
        yield schema_text(request.guided_json, "guided_json")
    if request.guided_regex is not None:
        yield GrammarText("regex", request.guided_regex, "guided_regex")
    if request.guided_choice is not None:
        yield choice_text(request.guided_choice, "guided_choice")
    if request.guided_grammar is not None:
        yield grammar_text(request.guided_grammar, "guided_grammar")
    if request.structured_outputs is not None:
        yield structured(request.structured_outputs)


def formatted(wanted: ResponseFormat) -> Iterator[GrammarText]:
    name = "response_format"
    match wanted:
        case ResponseFormat("text", None, None):
            return
        case ResponseFormat("json_object", None, None):
            yield GrammarText("json_object", "", name)
        case ResponseFormat("json_object", None, dict(schema)):
            yield schema_text(schema, name)
        case ResponseFormat("json_schema", JsonSchema(schema=schema), None):
            yield schema_text(schema, name)
        case ResponseFormat("json_schema", None, _):
            where = f"{name}.json_schema"
            raise InvalidRequest(f"{where} is missing.", param=where)
        case _:
            where = f"{name}.schema" if wanted.schema is not None else f"{name}.json_schema"
            raise InvalidRequest(f"{where} does not go with type {wanted.type}.", param=where)


def structured(wanted: StructuredOutputs) -> GrammarText:
    name = "structured_outputs"
    found = []
    if wanted.json is not None:
        found.append(schema_text(wanted.json, name))
    if wanted.json_object:
        found.append(GrammarText("json_object", "", name))
    if wanted.regex is not None:
        found.append(GrammarText("regex", wanted.regex, name))
    if wanted.choice is not None:
        found.append(choice_text(wanted.choice, name))
    if wanted.grammar is not None:
        found.append(grammar_text(wanted.grammar, name))
    if len(found) != 1:
        raise InvalidRequest(
            "structured_outputs holds exactly one of json, json_object, regex, choice, grammar.",
            param=name,
        )
    return found[0]


def schema_text(schema: Schema, param: str) -> GrammarText:
    """A schema given as text must be a JSON object too."""
    if isinstance(schema, dict):
        return GrammarText("json_schema", encode(schema).decode(), param)
    try:
        msgspec.json.decode(schema, type=dict)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"{param} is not a JSON object: {error}.", param=param) from error
    return GrammarText("json_schema", schema, param)


def choice_text(choices: Choices, param: str) -> GrammarText:
    return GrammarText("choice", encode(choices).decode(), param)


def grammar_text(text: str, param: str) -> GrammarText:
    """GBNF is told from Lark by the first rule's sign of definition."""
    return GrammarText("gbnf" if GBNF_RULE.search(text) else "lark", text, param)
