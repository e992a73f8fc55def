"""A grammar behind reasoning: free until the marker, then bound, as a plain walk would have it."""

import random

import numpy as np
import pytest

from slipstream.text.grammar_thinking import Lead

from .walks import BYTES, END, compiled, tokens

DIGITS = compiled("regex", "[0-9]+")
CLOSE = b"</t>"


def lead(begin=(), must=False, after=""):
    ids = tuple(BYTES.encode(after)) if after else ()
    return Lead(begin, must, CLOSE, ids, BYTES.token_bytes)


def fed(matcher, text):
    for token in BYTES.encode(text):
        assert token in tokens(matcher.allowed())
        matcher.accept(token)
    return matcher


def test_reasoning_is_free_but_for_ends_and_then_the_grammar_holds():
    matcher = DIGITS.matcher((), lead())
    assert tokens(matcher.allowed()) == [n for n in range(BYTES.vocab_size) if n != END]
    with pytest.raises(ValueError, match="no end of its own"):
        matcher.accept(END)
    fed(matcher, "so, 1 < 2 </t>")
    assert set(tokens(matcher.allowed())) == set(tokens(DIGITS.matcher().allowed()))
    fed(matcher, "12").accept(END)
    assert matcher.stopped


def test_reasoning_may_begin_or_the_grammar():
    sign = BYTES.id_of("<|im_end|>")
    thinking, plain = (DIGITS.matcher((), lead((sign,))) for _ in range(2))
    thinking.accept(sign)
    fed(thinking, "hm</t>1")
    fed(plain, "1").accept(END)
    assert plain.stopped and not thinking.stopped


def test_what_must_come_first_and_after_is_forced():
    begin = tuple(BYTES.encode("<a>"))
    matcher = DIGITS.matcher((), lead(begin, must=True, after="<b>"))
    assert tuple(matcher.forced()) == begin
    fed(matcher, "<a>")
    assert not matcher.forced()
    fed(matcher, "x</t>")
    assert list(matcher.forced()) == BYTES.encode("<b>")
    with pytest.raises(ValueError, match="certain"):
        matcher.accept(BYTES.id_of("1"))
    fed(matcher, "<b>1")


def test_a_row_that_starts_over_is_where_it_was():
    matcher = DIGITS.matcher((), lead())
    ids = BYTES.encode("hm</t>12")
    for token in ids:
        matcher.accept(token)
    before = matcher.allowed()
    matcher.rewind(ids)
    assert matcher.allowed() == before
    matcher.rewind(ids[:1])
    assert len(tokens(matcher.allowed())) == BYTES.vocab_size - 1


@pytest.mark.parametrize("seed", range(5))
def test_masks_of_a_group_are_those_of_each_row(seed):
    chance = random.Random(seed)
    made = [
        DIGITS.matcher((), lead()),
        DIGITS.matcher(),
        DIGITS.matcher((7,), lead((5,))),
        DIGITS.matcher((), lead(tuple(BYTES.encode("<a>")), must=True)),
    ]
    for _ in range(20):
        out = np.zeros((len(made), made[0].masks.words), np.uint32)
        assert made[0].masks.fill(made, memoryview(out)) == {}
        for matcher, line in zip(made, out, strict=True):
            assert line.tobytes() == matcher.allowed()
            if not matcher.stopped:
                matcher.accept(chance.choice(tokens(matcher.allowed())))
        made = [matcher for matcher in made if not matcher.stopped]
        if not made:
            break
