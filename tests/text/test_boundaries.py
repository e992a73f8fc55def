"""Boundaries lie where a conversation like this one stops to be the same."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.contracts.completion import Completion
from slipstream.contracts.errors import InvalidRequest
from slipstream.text.boundaries import Rendered, boundaries, shared

from .conversations import CONVERSATIONS
from .test_prepare import BYTES, CHATML, preparer
from .vocabularies import KINDS, tokenizer

TEMPLATES = sorted((Path(__file__).parent / "templates").glob("*.jinja"))
SYSTEM = {"role": "system", "content": "Be brief."}


def says(*contents, roles=("user", "assistant")):
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(contents)]


def asks(messages, **fields):
    return Completion(request_id="r", model="m", messages=messages, **fields)


def prompt(messages, made=BYTES, template=CHATML, **fields):
    return preparer(made, template, context=5000).prepare(asks(messages, **fields)).prompt


def texts(messages, **fields):
    made = prompt(messages, **fields)
    return [BYTES.decode(made.ids[:length]) for length in made.boundaries]


def test_they_are_the_ends_of_system_history_and_prompt():
    found = texts([SYSTEM, *says("one", "two", "three")])
    head = "<s><|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n"
    history = head + "one<|im_end|>\n<|im_start|>assistant\ntwo<|im_end|>\n<|im_start|>user\n"
    assert found == [head, history, history + "three<|im_end|>\n"]


def test_a_first_question_has_no_history():
    assert len(texts([SYSTEM, *says("one")])) == 2


def test_the_last_message_that_is_continued_has_no_end():
    assert len(texts(says("one", "two"), continue_final=True)) == 1


def test_the_next_turn_begins_with_the_last_boundary():
    first, then = says("one"), says("one", "two", "three")
    length = prompt(first).boundaries[-1]
    assert prompt(then).ids[:length] == prompt(first).ids[:length]


def test_raw_prompts_have_none():
    made = preparer()
    completion = Completion(request_id="r", model="m", text="hello world")
    assert made.prepare(completion).prompt.boundaries == ()


def test_one_token_is_always_left():
    made = prompt(says("one"), template="{{ messages[0].content }}")
    assert made.boundaries == (len(made.ids) - 1,)


def test_a_begin_token_that_is_dropped_does_not_count():
    plain, doubled = prompt(says("one")), prompt(says("one"), template="{{ bos_token }}" + CHATML)
    assert (plain.ids, plain.boundaries) == (doubled.ids, doubled.boundaries)


def test_an_ending_that_the_template_refuses_is_passed_over():
    strict = "{% if messages|length < 2 %}{{ raise_exception('too few') }}{% endif %}" + CHATML
    assert len(prompt([SYSTEM, *says("a", "b", "c")], template=strict).boundaries) == 3
    assert len(prompt(says("a", "b", "c"), template=strict).boundaries) == 2


def test_a_very_long_text_has_none():
    long = Rendered("x" * (1 << 23), ())
    assert boundaries(long, says("one"), lambda messages, reply: "x") == ()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_they_are_shared_with_what_the_template_makes_of_another_ending(path, kind):
    """The plain twin: encode the conversation with its last question changed."""
    made, template = tokenizer(kind), path.read_text("utf-8")
    for name in ("system", "turns", "unicode", "two_users"):
        messages = CONVERSATIONS[name]
        other = [*messages[:-1], {**messages[-1], "content": "Zebras?"}]
        try:
            one, two = prompt(messages, made, template), prompt(other, made, template)
        except InvalidRequest:  # not every template takes every conversation
            continue
        assert all(0 < length < len(one.ids) for length in one.boundaries)
        assert list(one.boundaries) == sorted(set(one.boundaries))
        before = [length for length in one.boundaries[:-1] if length in two.boundaries]
        assert all(one.ids[:length] == two.ids[:length] for length in before)


@given(st.text("ab", max_size=12), st.text("ab", max_size=12))
@settings(max_examples=100)
def test_shared_counts_what_a_loop_counts(one, two):
    count = 0
    for left, right in zip(one, two, strict=False):
        if left != right:
            break
        count += 1
    assert shared(one, two) == count


@given(st.text("ab 漢\n", max_size=30), st.integers(0, 30))
@settings(max_examples=100)
def test_tokens_within_a_text_are_all_in_it(text, characters):
    """The twin reads the bytes of the tokens that are counted."""
    ids, spans = BYTES.encode_placed(text)
    count = Rendered(text, spans).tokens_within(characters)
    assert text[:characters].encode().startswith(b"".join(map(BYTES.token_bytes, ids[:count])))


def test_a_volatile_first_line_does_not_part_two_prompts():
    def head(moment, keep):
        system = {"role": "system", "content": f"Current time: {moment}\n{'Be brief. ' * 20}"}
        chat = preparer(context=5000, keep_volatile_line=keep)
        return chat.prepare(asks([system, *says("one")])).prompt.ids

    for keep, few in ((False, False), (True, True)):
        one, two = head("12:00:01", keep), head("12:00:02", keep)
        alike = next(n for n, (a, b) in enumerate(zip(one, two, strict=True)) if a != b)
        assert (alike < len(one) // 2) == few
