"""Patterns, choices and grammars as clients write them, and what is refused of them."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.contracts.errors import InvalidRequest
from slipstream.text.grammar_source import MOST_LEVELS, MOST_PARTS

from .walks import compiled, takes, walk

ARITHMETIC = r"""
# as llama.cpp's examples have it
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]{0,2}
"""


def answers(kind, text, seeds=range(12)):
    grammar = compiled(kind, text)
    found = [walk(grammar, seed, 200) for seed in seeds]
    return [written.decode() for written, ended in found if ended]


def refused(kind, text):
    with pytest.raises(InvalidRequest) as refusal:
        compiled(kind, text)
    return refusal.value.message


@pytest.mark.parametrize(
    "pattern",
    [
        "[a-z]{2,5}",
        "(yes|no|maybe)",
        r"\d{3}-\d{4}",
        r"^[A-Z][a-z]+ (Street|Road)$",
        r"(25[0-5]|2[0-4]\d|1?\d?\d)(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}",
        r"(?i)ok[.!]",
        "é+|漢字",
        "a/b\\.c",
        "a\\\\",
        "a/ | /b",
        "a\n[\n/]b",
    ],
)
def test_what_a_pattern_allows_it_matches(pattern):
    found = answers("regex", pattern)
    assert found and all(re.fullmatch(pattern, text) for text in found)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8), min_size=1))
def test_a_choice_is_one_of_the_texts_whatever_they_hold(choices):
    grammar = compiled("choice", json.dumps(choices))
    for seed in range(3):
        written, ended = walk(grammar, seed)
        assert ended and written.decode() in choices


def test_every_choice_can_be_made():
    texts = ["a", "ab", 'say "hi"', "<|im_end|>", "back\\slash\n", "🙂"]
    grammar = compiled("choice", json.dumps(texts))
    assert set(answers("choice", json.dumps(texts), range(60))) == set(texts)
    assert not takes(grammar, "b")


def test_a_lark_grammar_is_kept():
    found = answers("lark", 'start: pair ("," pair)*\npair: KEY "=" /[0-9]{1,3}/\nKEY: /[a-z]+/\n')
    pair = "[a-z]+=[0-9]{1,3}"
    assert found and all(re.fullmatch(f"{pair}(,{pair})*", text) for text in found)


def test_a_gbnf_grammar_is_kept():
    found = answers("gbnf", ARITHMETIC)
    assert found and all(re.fullmatch(r"([a-z0-9_+*/()= \t\n-]+\n)+", text) for text in found)
    assert takes(compiled("gbnf", ARITHMETIC), "a +(b*2) =9\n\n\n")


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        (r'root ::= "\u0041\u00e9" [\u6f22-\u6f23]', "Aé漢"),
        (r'root ::= "\U0001F642" | "x"', "🙂"),
        (r'root ::= "\x41\n\"\\"', 'A\n"\\'),
        ("root ::= . .", "\n."),
        (r'root ::= [^\]"/]+ "/"', "ab/"),
        ('root ::= a-b # "quoted\na-b ::= "\\u0078" .', "xy"),
    ],
)
def test_gbnf_is_read_in_full(grammar, text):
    assert takes(compiled("gbnf", grammar), text)


WRONG = {
    ("regex", "(a"): "unclosed group",
    ("regex", "[a"): "unclosed character class",
    ("regex", "a(?=b)"): "look-around",
    ("regex", r"(.)\1"): "backreferences",
    ("regex", r"\bfoo"): "lookarounds not supported",
    ("regex", "a\\"): "lone backslash",
    ("lark", 'begin: "a"'): "no start rule",
    ("lark", "start: other"): '1(8): unknown name: "other"',
    ("lark", "start: A\nA: /a(/"): "2(4): invalid regex",
    ("lark", 'start: "a'): "1(",
    ("lark", "start: start"): "NoExtension",
    ("gbnf", "root ::= (a"): "line",
    ("gbnf", 'top ::= "a"'): "No 'root' rule",
    ("gbnf", "root ::= other"): "Rule 'other' not found",
    ("gbnf", 'root ::= "a'): "Unexpected end of input",
    ("gbnf", 'root ::= "\\'): "GBNF",
    ("gbnf", r'root ::= "\ud800"'): "no character",
    ("yaml", "a: b"): "'yaml'",
    ("regex", "\ud800"): "surrogate",
    ("regex", "a" * 70_000): "70000 characters",
}


@pytest.mark.parametrize(("kind", "text"), WRONG, ids=lambda value: value[:20])
def test_what_is_wrong_is_told_with_its_place_or_word(kind, text):
    assert WRONG[kind, text] in refused(kind, text)


def chain(count):
    rules = [f'r{n}: "a" r{n + 1}' for n in range(count)]
    return "\n".join(["start: r0", *rules, f'r{count}: "b"'])


def references(count):
    links = {f"d{n}": {"properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}}} for n in range(count)}
    return json.dumps({"$defs": {**links, f"d{count}": {}}, "$ref": "#/$defs/d0"})


def test_chains_that_would_overflow_the_stack_are_refused():
    compiled("lark", chain(MOST_PARTS - 2))
    assert str(MOST_PARTS) in refused("lark", chain(2 * MOST_PARTS))
    gbnf = chain(3 * MOST_PARTS).replace("start", "root").replace(":", "::=")
    assert str(MOST_PARTS) in refused("gbnf", gbnf)
    compiled("json_schema", references(MOST_LEVELS // 5))
    for count in (MOST_LEVELS, 10 * MOST_LEVELS):
        assert str(MOST_LEVELS) in refused("json_schema", references(count))


@pytest.mark.parametrize("levels", [500, 100_000])
def test_a_schema_of_endless_depth_is_refused(levels):
    refused("json_schema", '{"items": ' * levels + "{}" + "}" * levels)
