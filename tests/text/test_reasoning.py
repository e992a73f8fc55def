"""Reasoning out of answers: every dialect, wherever it is cut, however it ends."""

import pytest

from slipstream.text.parts import Plain
from slipstream.text.reasoning import DIALECTS, Thinking, choose, variables
from slipstream.text.tools.families import choose as choose_form
from slipstream.text.tools.harmony import Harmony
from slipstream.text.tools.stage import ToolStage

from .tools.test_stage import called, hermes
from .tools.transcripts import COLOGNE, HARMONY, TOOLBOX

every = pytest.mark.parametrize("dialect", DIALECTS, ids=[one.begin for one in DIALECTS])
THINK = DIALECTS[0]


def read(made, pieces):
    parts = [part for piece in pieces for part in made.push(piece)]
    parts += made.flush()
    assert sum(part.size for part in parts) == len("".join(pieces))
    return "".join(p.reasoning for p in parts), "".join(p.text for p in parts)


def everywhere(text, make):
    """What comes of `text`, the same wherever it is cut."""
    whole = read(make(), [text])
    for at in range(1, len(text)):
        assert read(make(), [text[:at], text[at:]]) == whole
    assert read(make(), list(text)) == whole
    return whole


def thinking(dialect=THINK, **options):
    return lambda: Thinking(dialect, Plain(), **options)


@every
def test_reasoning_and_answer_are_told_apart(dialect):
    text = f"{dialect.begin}\nHm, 2 < 3.\nSo.\n{dialect.end}\n\nYes.\n"
    assert everywhere(text, thinking(dialect)) == ("Hm, 2 < 3.\nSo.", "Yes.\n")


@every
def test_what_the_prompt_opened_needs_no_marker(dialect):
    text = f"\nHm.\n{dialect.end}\n\nYes."
    assert everywhere(text, thinking(dialect, opened=True)) == ("Hm.", "Yes.")


def test_a_marker_that_is_opened_twice_shows_nowhere():
    assert everywhere("<think>\nHm.</think>Yes.", thinking(opened=True)) == ("Hm.", "Yes.")


def test_reasoning_that_is_cut_off_is_all_reasoning():
    assert everywhere("<think>Hm, so", thinking()) == ("Hm, so", "")


def test_reasoning_may_be_empty():
    assert everywhere("<think>\n\n</think>\n\nYes.", thinking()) == ("", "Yes.")


def test_an_answer_without_reasoning_is_text():
    assert everywhere("Yes, 1 < 2.", thinking()) == ("", "Yes, 1 < 2.")


def test_markers_within_a_line_of_the_answer_are_text():
    text = "Write <think> and </think> around it."
    assert everywhere(text, thinking()) == ("", text)


def test_an_end_that_nothing_opened_is_dropped():
    assert everywhere("Hm.\n</think>\n\nYes.", thinking()) == ("", "Hm.\nYes.")


def test_reasoning_may_come_again_on_a_line_of_its_own():
    text = "<think>a</think>b\n<think>c</think>d"
    assert everywhere(text, thinking()) == ("ac", "b\nd")


def test_a_continued_message_keeps_its_first_space():
    assert everywhere(" and so", thinking(fresh=False)) == ("", " and so")


def test_calls_come_behind_reasoning_and_markers_within_them_are_theirs():
    form = choose_form("<tool_call>", lambda token: False)
    body = '{"name": "f", "arguments": {"a": "\\n<think>\\n</think>"}}'
    text = "<think>Hm.</think>\n" + hermes(body)
    for pieces in ([text], list(text)):
        made = Thinking(THINK, ToolStage(form, TOOLBOX))
        parts = [part for piece in pieces for part in made.push(piece)] + [*made.flush()]
        assert "".join(part.reasoning for part in parts) == "Hm."
        assert called(parts) == [("f", {"a": "\n<think>\n</think>"})]


@every
def test_a_dialect_is_known_by_what_template_or_vocabulary_declare(dialect):
    assert choose(f"a {dialect.begin} b {dialect.end}", lambda token: False) == dialect
    assert choose("", {dialect.begin, dialect.end}.__contains__) == dialect
    assert choose("", lambda token: False) is None


def test_harmony_is_reasoning_text_and_calls():
    assert everywhere(HARMONY, Harmony) == ("The user asks\nabout rain.", "I look.")
    parts = Harmony().push(HARMONY)
    assert called(parts) == [COLOGNE]


def test_harmonys_final_channel_is_the_answer():
    text = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>"
    assert everywhere(text + "Yes <|x|>.<|return|>", Harmony) == ("Hm.", "Yes <|x|>.")


def test_harmonys_calls_may_name_the_recipient_first():
    text = '<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{"a": 1}<|call|>'
    assert called(Harmony().push(text)) == [("f", {"a": 1})]


def test_a_call_of_harmony_that_cannot_be_read_is_text():
    text = "<|channel|>commentary to=functions.f<|message|>not JSON<|call|>"
    assert everywhere(text, Harmony) == ("", "not JSON")


def test_a_continued_text_of_harmony_is_text():
    assert everywhere(" and so on<|return|>", Harmony) == ("", " and so on")


@pytest.mark.parametrize(
    ("asked", "reads", "made", "idle"),
    [
        ({"reasoning_effort": "low"}, {"reasoning_effort"}, {"reasoning_effort": "low"}, ()),
        ({"reasoning_effort": "max"}, {"reasoning_effort"}, {"reasoning_effort": "high"}, ()),
        ({"reasoning_effort": "none"}, {"enable_thinking"}, {"enable_thinking": False}, ()),
        ({"reasoning_effort": "high"}, {"thinking"}, {"thinking": True}, ()),
        ({"enable_thinking": False}, {"thinking"}, {"thinking": False}, ()),
        ({"thinking": True}, {"enable_thinking"}, {"enable_thinking": True}, ()),
        (
            {"reasoning_effort": "high", "enable_thinking": False},
            {"enable_thinking"},
            {"enable_thinking": False},
            (),
        ),
        ({"reasoning_budget": 5}, {"thinking_budget"}, {"thinking_budget": 5}, ()),
        ({"reasoning_effort": "low"}, set(), {"reasoning_effort": "low"}, ("reasoning_effort",)),
    ],
)
def test_what_is_asked_of_reasoning_goes_by_the_templates_names(asked, reads, made, idle):
    assert variables(asked, frozenset(reads), "") == (made, idle)


def test_an_effort_that_the_template_has_a_word_for_stays():
    template = "{% if reasoning_effort == 'none' %}"
    made, _ = variables({"reasoning_effort": "none"}, frozenset({"reasoning_effort"}), template)
    assert made == {"reasoning_effort": "none"}
