"""Forty and more schemas as people write them: whatever a random model makes of one is valid."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from slipstream.contracts.completion import GrammarText
from slipstream.contracts.errors import InvalidRequest

from .walks import compiled, compiler, takes, walk

SCHEMAS = sorted(Path(__file__).with_name("schemas").glob("*.json"))
FORMATS = jsonschema.FormatChecker(["date", "email", "ipv4", "ipv6", "uuid"])
SEEDS = range(6)
OBJECT = '{"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": false}'


def whole(schema):
    """The answers that came to their end."""
    grammar = compiled("json_schema", json.dumps(schema))
    return [text for text, ended in (walk(grammar, seed) for seed in SEEDS) if ended]


def test_there_are_forty_schemas():
    assert len(SCHEMAS) >= 40


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_what_a_random_model_writes_is_valid(path):
    schema = json.loads(path.read_text("utf-8"))
    answers = whole(schema)
    assert answers, "some walk must end by itself"
    for answer in answers:
        jsonschema.validate(json.loads(answer), schema, format_checker=FORMATS)


def test_any_object_is_an_object():
    grammar = compiled("json_object", "")
    answers = [text for text, ended in (walk(grammar, seed) for seed in range(20)) if ended]
    assert answers and all(isinstance(json.loads(answer), dict) for answer in answers)
    assert not takes(grammar, "[]")


@pytest.mark.parametrize(
    "text",
    ['{"a":1,"b":2}', '{"a": 1, "b": 2}', '{ "a" : 1 }', '{\n  "a": 1,\n  "b": [\n    2\n  ]\n}'],
)
def test_json_may_be_compact_spaced_or_on_lines(text):
    assert takes(compiled("json_schema", OBJECT), text)


@pytest.mark.parametrize(
    "text", ['{"a":  1}', '{\n\n"a":1}', ' {"a":1}', '{"a":1}\n', '{"a":\n \n1}']
)
def test_an_answer_cannot_loop_on_white_space(text):
    assert not takes(compiled("json_schema", OBJECT), text)


@pytest.fixture
def anyio_backend():
    return "asyncio"


REFUSED = {
    "not": {"not": {"type": "string"}},
    "if": {"if": {}, "then": {}},
    "then": {"then": {}},
    "else": {"else": {}},
    "uniqueItems": {"type": "array", "uniqueItems": True},
    "contains": {"type": "array", "contains": {"type": "integer"}},
    "minContains": {"type": "array", "minContains": 1},
    "maxContains": {"type": "array", "maxContains": 1},
    "propertyNames": {"type": "object", "propertyNames": {"pattern": "a"}},
    "dependentRequired": {"dependentRequired": {"a": ["b"]}},
    "dependentSchemas": {"dependentSchemas": {"a": {}}},
    "dependencies": {"dependencies": {"a": ["b"]}},
    "unevaluatedItems": {"type": "array", "unevaluatedItems": False},
    "unevaluatedProperties": {"type": "object", "unevaluatedProperties": False},
    "$dynamicRef": {"$dynamicRef": "#a"},
    "$recursiveRef": {"$recursiveRef": "#"},
    "oneOf": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
    "format": {"type": "string", "format": "iri"},
    "x-guidance": {"x-guidance": {"lenient": True}},
}
WRONG = {
    "Invalid type": {"type": "objekt"},
    "nope": {"$ref": "#/$defs/nope"},
    "elsewhere": {"$ref": "http://example.com/elsewhere"},
    "unclosed group": {"type": "string", "pattern": "(a"},
    "look-ahead": {"type": "string", "pattern": "(?=a)b"},
    "minimum": {"type": "integer", "minimum": 5, "maximum": 3},
    "minLength": {"type": "string", "minLength": "a"},
    "required": {"type": "object", "required": ["b"], "additionalProperties": False},
    "empty": {"enum": []},
    "a schema is a JSON object": [],
    "Properties": {"type": "object", "properties": {"a": {}}, "minProperties": 1},
}


@pytest.mark.anyio
@pytest.mark.parametrize(("word", "schema"), [*REFUSED.items(), *WRONG.items()])
async def test_what_cannot_be_kept_is_refused_by_name(word, schema):
    text = GrammarText("json_schema", json.dumps(schema), "response_format")
    with pytest.raises(InvalidRequest) as refusal:
        await compiler().compile(text)
    assert word in refusal.value.message
    assert refusal.value.param == "response_format"
