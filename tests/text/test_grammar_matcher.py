"""A matcher: what it allows, what it forces, when it ends; and many masks at once."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.contracts.completion import GrammarText

from .walks import BYTES, END, compiled, compiler, draw, tokens

NOT_ALLOWED = r"Parser Error|out of range"
STOP = BYTES.id_of("<|im_end|>")
PERSON = """{"type": "object", "properties": {"name": {"type": "string"},
"mood": {"enum": ["merry", "mellow"]}}, "required": ["name", "mood"]}"""
GRAMMARS = {
    "schema": compiled("json_schema", PERSON),
    "regex": compiled("regex", "a+(bc)?"),
    "choice": compiled("choice", '["hello world", "hello words", "hell"]'),
    "lark": compiled("lark", 'start: "(" start ")" | /[0-9]/'),
}


def ids(text):
    return BYTES.encode(text)


def at(grammar, text, ends=()):
    matcher = GRAMMARS[grammar].matcher(ends)
    matcher.rewind(ids(text))
    return matcher


def test_an_end_is_allowed_exactly_where_the_grammar_may_end():
    assert END not in tokens(at("regex", "").allowed())
    assert END in tokens(at("regex", "aa").allowed())
    assert tokens(at("regex", "aabc").allowed()) == [END]


def test_a_special_token_is_never_text():
    allowed = tokens(compiled("regex", "(?s).*").matcher().allowed())
    assert BYTES.special_ids.intersection(allowed) == {END}


def test_an_end_of_one_row_is_allowed_where_the_models_own_is():
    assert STOP not in tokens(at("regex", "", ends=[STOP]).allowed())
    assert tokens(at("regex", "aabc", ends=[STOP]).allowed()) == sorted([END, STOP])


@pytest.mark.parametrize("end", [END, STOP])
def test_after_an_end_nothing_is_taken(end):
    matcher = at("regex", "aa", ends=[STOP])
    assert not matcher.stopped
    matcher.accept(end)
    assert matcher.stopped and matcher.forced() == ()
    with pytest.raises(ValueError, match="ended"):
        matcher.accept(ids("a")[0])


def test_where_only_an_end_is_left_it_is_forced():
    matcher = at("regex", "aabc")
    assert matcher.stopped and matcher.forced() == (END,)


def test_a_certain_text_is_forced_token_by_token():
    matcher = at("schema", '{"name": "x", "mood": "me')
    assert matcher.forced() == []
    matcher.rewind(ids('{"name": "x", "mood": "mer'))
    forced = matcher.forced()
    assert BYTES.decode(forced).startswith("ry")
    for token in forced:
        assert tokens(matcher.allowed()) == [token]
        matcher.accept(token)


@pytest.mark.parametrize("name", GRAMMARS)
@pytest.mark.parametrize("seed", range(5))
def test_what_is_forced_is_all_that_the_mask_allows(name, seed):
    chance = random.Random(seed)
    matcher = GRAMMARS[name].matcher()
    for _ in range(60):
        allowed = tokens(matcher.allowed())
        forced = list(matcher.forced())
        assert allowed and (not forced or allowed == forced[:1])
        token = draw(allowed, chance)
        matcher.accept(token)
        if token == END:
            return


@pytest.mark.parametrize("token", [ids("x")[0], END, STOP, BYTES.vocab_size + 9])
def test_a_token_that_is_not_allowed_is_a_value_error_and_stays_one(token):
    matcher = at("regex", "")
    with pytest.raises(ValueError, match=NOT_ALLOWED):
        matcher.accept(token)
    with pytest.raises(ValueError, match=NOT_ALLOWED):
        matcher.allowed()
    matcher.rewind(ids("aa"))
    assert END in tokens(matcher.allowed())


def test_matchers_of_one_grammar_share_nothing():
    one, other = GRAMMARS["regex"].matcher(), GRAMMARS["regex"].matcher()
    one.accept(ids("a")[0])
    assert END in tokens(one.allowed()) and END not in tokens(other.allowed())


@settings(max_examples=40, deadline=None)
@given(st.integers(), st.integers(0, 12), st.sampled_from(sorted(GRAMMARS)))
def test_rewinding_is_the_same_as_starting_afresh(seed, kept, name):
    chance = random.Random(seed)
    matcher, fresh, drawn = GRAMMARS[name].matcher(), GRAMMARS[name].matcher(), []
    while len(drawn) < 25 and END not in drawn:
        drawn.append(draw(tokens(matcher.allowed()), chance))
        matcher.accept(drawn[-1])
    matcher.rewind(drawn[:kept])
    for token in drawn[:kept]:
        fresh.accept(token)
    assert matcher.allowed() == fresh.allowed() and matcher.stopped == fresh.stopped


def filled(matchers):
    masks = matchers[0].masks
    out = np.full((len(matchers), masks.words), -1, np.int32)
    failures = masks.fill(matchers, memoryview(out))
    return out, failures


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.booleans()), min_size=1))
def test_masks_filled_together_equal_each_ones_own(rows):
    together = compiler()
    kinds = [("json_schema", PERSON), ("regex", "a+(bc)?"), ("choice", '["ab"]'), ("regex", ".*")]
    made = [together.start(GrammarText(*kind, "x")).result() for kind in kinds]
    matchers = []
    for which, steps, ends in rows:
        matcher = made[which].matcher([STOP] if ends else [])
        for step in range(steps):
            if not matcher.stopped:
                matcher.accept(draw(tokens(matcher.allowed()), random.Random(step)))
        matchers.append(matcher)
    out, failures = filled(matchers)
    assert failures == {}
    assert [line.tobytes() for line in out] == [matcher.allowed() for matcher in matchers]


def test_a_broken_matcher_allows_only_ends_and_harms_no_other_row():
    broken, good = GRAMMARS["regex"].matcher(), GRAMMARS["regex"].matcher()
    with pytest.raises(ValueError, match=NOT_ALLOWED):
        broken.accept(ids("x")[0])
    out, failures = filled([broken, good])
    assert list(failures) == [0] and failures[0]
    assert tokens(out[0].tobytes()) == [END]
    assert out[1].tobytes() == good.allowed()


def test_masks_of_a_wrong_shape_are_not_written():
    matcher = GRAMMARS["regex"].matcher()
    out = np.zeros((2, matcher.masks.words), np.int32)
    with pytest.raises(ValueError, match="1 rows"):
        matcher.masks.fill([matcher], memoryview(out))
    with pytest.raises(ValueError, match="1 rows"):
        matcher.masks.fill([matcher], memoryview(np.zeros((1, 2 * out.shape[1]), np.int32)[:, ::2]))
    assert not out.any()
