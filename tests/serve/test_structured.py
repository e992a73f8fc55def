"""Every way to bind output to a form comes to one GrammarText."""

from __future__ import annotations

import json

import pytest

from slipstream.contracts.completion import GrammarText
from slipstream.contracts.errors import InvalidRequest
from slipstream.serve.fields import GenerationRequest, convert
from slipstream.serve.structured import grammar

SCHEMA = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {}}}
TEXT = json.dumps(SCHEMA)


def asked(**body):
    return grammar(convert(body, GenerationRequest))


@pytest.mark.parametrize(
    "body",
    [
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": SCHEMA},
            }
        },
        {"response_format": {"type": "json_object", "schema": SCHEMA}},
        {"guided_json": SCHEMA},
        {"guided_json": TEXT},
        {"structured_outputs": {"json": SCHEMA}},
        {"structured_outputs": {"json": TEXT}},
    ],
)
def test_a_schema_keeps_the_order_of_its_fields(body):
    found = asked(**body)
    assert found.kind == "json_schema" and found.param == next(iter(body))
    assert list(json.loads(found.text)["properties"]) == ["b", "a"]


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ({"response_format": {"type": "json_object"}}, "json_object", ""),
        ({"structured_outputs": {"json_object": True}}, "json_object", ""),
        ({"guided_regex": "a+"}, "regex", "a+"),
        ({"structured_outputs": {"regex": "a+"}}, "regex", "a+"),
        ({"guided_choice": ["a", "b"]}, "choice", '["a","b"]'),
        ({"structured_outputs": {"choice": ["a", "b"]}}, "choice", '["a","b"]'),
        ({"guided_grammar": 'root ::= "a"'}, "gbnf", 'root ::= "a"'),
        ({"guided_grammar": 'start: "::="'}, "lark", 'start: "::="'),
        ({"structured_outputs": {"grammar": "start: /a/"}}, "lark", "start: /a/"),
    ],
)
def test_each_form_has_its_kind(body, kind, text):
    assert asked(**body) == GrammarText(kind, text, next(iter(body)))


@pytest.mark.parametrize("body", [{}, {"response_format": {"type": "text"}}])
def test_without_a_form_there_is_no_grammar(body):
    assert asked(**body) is None


def test_two_forms_are_refused_by_the_second_ones_name():
    with pytest.raises(InvalidRequest) as refusal:
        asked(response_format={"type": "text"}, guided_regex="a", structured_outputs={"regex": "a"})
    assert refusal.value.param == "structured_outputs" and "guided_regex" in refusal.value.message
