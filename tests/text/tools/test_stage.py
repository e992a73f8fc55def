"""Tool calls out of text: every family's, cut anywhere, whole, broken and cut off."""

import json
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.text.sink import whole_calls
from slipstream.text.tools.families import choose
from slipstream.text.tools.stage import ToolStage
from slipstream.text.tools.syntax import Toolbox

from .transcripts import COLOGNE, NOW, TOOLBOX, TRANSCRIPTS

NAMES = [f"{one.form}-{number}" for number, one in enumerate(TRANSCRIPTS)]
every = pytest.mark.parametrize("one", TRANSCRIPTS, ids=NAMES)


def stage(declared, **options):
    ids = count()
    form = choose(declared, lambda token: False)
    return ToolStage(form, TOOLBOX, new_id=lambda: f"call_{next(ids)}", **options)


def read(made, pieces):
    """Parts of a text that comes in `pieces`; their sizes account for all of it."""
    parts = [part for piece in pieces for part in made.push(piece)]
    parts += made.flush()
    return parts


def shown(parts):
    return "".join(part.text for part in parts)


def called(parts):
    whole = whole_calls(call for part in parts for call in part.calls)
    return [(call.name, json.loads(call.arguments)) for call in whole]


@every
def test_a_family_is_known_by_what_its_template_declares(one):
    assert choose(one.declared, lambda token: False).name == one.form


@every
def test_calls_and_text_are_told_apart(one):
    parts = read(stage(one.declared), [one.text])
    assert shown(parts) == one.shown
    assert called(parts) == list(one.calls)
    assert sum(part.size for part in parts) == len(one.text)


@every
def test_where_the_text_is_cut_changes_nothing(one):
    whole = read(stage(one.declared), [one.text])
    for at in range(1, len(one.text)):
        parts = read(stage(one.declared), [one.text[:at], one.text[at:]])
        assert (shown(parts), called(parts)) == (shown(whole), called(whole))
    single = read(stage(one.declared), list(one.text))
    assert (shown(single), called(single)) == (shown(whole), called(whole))


@every
def test_calls_are_numbered_and_named_once(one):
    pieces = [call for part in read(stage(one.declared), list(one.text)) for call in part.calls]
    heads = [piece for piece in pieces if piece.id]
    assert [piece.index for piece in heads] == list(range(len(one.calls)))
    assert len({piece.id for piece in heads}) == len(heads)
    assert [bool(piece.name) for piece in pieces] == [bool(piece.id) for piece in pieces]
    assert [piece.index for piece in pieces] == sorted(piece.index for piece in pieces)


@every
def test_a_text_cut_off_anywhere_is_text_or_pieces_that_stand(one):
    for at in range(len(one.text)):
        parts = read(stage(one.declared), [one.text[:at]])
        assert sum(part.size for part in parts) == at
        pieces = whole_calls(call for part in parts for call in part.calls)
        whole = read(stage(one.declared), [one.text])
        full = whole_calls(call for part in whole for call in part.calls)
        for got, expected in zip(pieces, full, strict=False):
            assert got.name == expected.name
            assert expected.arguments.startswith(got.arguments)


@every
def test_only_one_call_is_read_where_only_one_may_be(one):
    made = stage(one.declared, single=True)
    assert called(read(made, list(one.text))) == list(one.calls[:1])
    assert made.done and made.push("more") == ()


@given(st.sampled_from(TRANSCRIPTS), st.data())
def test_no_text_is_lost_whatever_a_model_writes(one, data):
    signs = [one.text[at : at + 9] for at in range(0, len(one.text), 9)]
    text = "".join(data.draw(st.lists(st.sampled_from([*signs, "a", " ", "\n", "}", '"']))))
    pieces = data.draw(st.lists(st.integers(0, len(text)), max_size=5).map(sorted))
    cuts = [0, *pieces, len(text)]
    whole = read(stage(one.declared), [text])
    parts = read(stage(one.declared), [text[a:b] for a, b in pairwise(cuts)])
    assert sum(part.size for part in parts) == len(text)
    assert shown(parts) == shown(whole)


def hermes(*bodies):
    return "\n".join(f"<tool_call>\n{body}\n</tool_call>" for body in bodies)


GOOD = '{"name": "get_weather", "arguments": {"city": "Köln 🌧", "days": 3}}'


@pytest.mark.parametrize(
    "broken",
    [
        "not JSON",
        '{"name": "f", "arguments": {"a": }}',
        '{"arguments": {}}',
        '{"name": ""}',
        "[]",
        '{"name": "f", "arguments": [1]}',
        '{"name": "f", "arguments": "{bad"}',
    ],
)
def test_a_call_that_cannot_be_read_is_text_and_the_others_are_calls(broken):
    parts = read(stage("<tool_call>"), [hermes(GOOD, broken, GOOD)])
    assert called(parts) == [COLOGNE, COLOGNE]
    assert shown(parts).strip() == hermes(broken)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{'a': True, 'b': None, 'c': (1, 2)}", {"a": True, "b": None, "c": [1, 2]}),
        ('{"a": "\\d+\\.\\w"}', {"a": "\\d+\\.\\w"}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('{"a": "\\ud83c\\udf27 \\u00f6 \\ud83c"}', {"a": "🌧 ö \ufffd"}),
        ('{"a": "</tool_call>"}', {"a": "</tool_call>"}),
        (
            '{"a": 1e3, "b": -0.5, "c": 0x10, "d": 1_000, "e": .5}',
            {"a": 1000.0, "b": -0.5, "c": 16, "d": 1000, "e": 0.5},
        ),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ("null", {}),
        ('{"a": [1, 2,], }', {"a": [1, 2]}),
        ('{a: "2024-01-31"}', {"a": "2024-01-31"}),
    ],
)
def test_what_models_write_for_json_is_read_as_they_mean_it(written, expected):
    parts = read(stage("<tool_call>"), list(hermes(f'{{"name": "f", "arguments": {written}}}')))
    assert called(parts) == [("f", expected)] and shown(parts) == ""


def test_an_object_that_is_not_closed_behind_its_arguments_is_whole():
    parts = read(stage("<tool_call>"), [hermes(GOOD[:-1])])
    assert called(parts) == [COLOGNE] and shown(parts) == ""


def test_arguments_ahead_of_the_name_are_kept_for_it():
    parts = read(stage("<tool_call>"), list(hermes('{"arguments": {"a": 1}, "name": "f"}')))
    assert called(parts) == [("f", {"a": 1})]


def test_text_before_and_between_calls_comes_as_it_is_written():
    made = stage("<tool_call>")
    assert shown(made.push("Let me look. <")) == "Let me look."
    assert shown(made.push("3 degrees")) == " <3 degrees"
    parts = [*made.push("\n" + hermes(GOOD) + "\n\nAnd now: "), *made.push(hermes(GOOD))]
    assert shown(parts) == "And now:" and called(parts) == [COLOGNE, COLOGNE]


def test_arguments_come_piece_by_piece():
    made = stage("<tool_call>")
    pieces = [call.arguments for part in read(made, list(hermes(GOOD))) for call in part.calls]
    assert len(pieces) > 8 and max(map(len, pieces)) <= len('", "days": 3')


def test_a_long_string_of_an_unquoted_argument_comes_piece_by_piece():
    made = stage("<tool_call><function=")
    made.push("<tool_call>\n<function=write_file>\n<parameter=content>\n")
    (part,) = made.push("a line\n" * 100)
    assert part.calls[0].arguments.startswith("a line\\n" * 90)


def test_json_that_names_no_offered_tool_is_text_where_calls_have_no_marker():
    text = '{"name": "Ada", "arguments": {"born": 1815}}'
    parts = read(stage("nothing known"), list(text))
    assert shown(parts) == text and called(parts) == []


def test_an_object_behind_text_is_text_where_calls_have_no_marker():
    text = 'Like this: {"name": "now", "arguments": {}}'
    assert shown(read(stage("nothing known"), list(text))) == text


@pytest.mark.parametrize(
    ("schema", "written", "expected"),
    [
        ({"type": "string"}, "3", "3"),
        ({"type": "string"}, "2024-01-31", "2024-01-31"),
        ({"type": "string"}, "null", "null"),
        ({"type": "integer"}, "3", 3),
        ({"type": "integer"}, "3.0", 3),
        ({"type": "integer"}, "three", "three"),
        ({"type": "number"}, "3", 3),
        ({"type": "number"}, "1e-3", 0.001),
        ({"type": "boolean"}, "True", True),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": ["string", "null"]}, "none of it", "none of it"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "7", 7),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"type": "array"}, "['a', 1, True]", ["a", 1, True]),
        ({"type": "object"}, '{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
        ({"$ref": "#/$defs/n"}, "5", 5),
        ({}, "5", 5),
        ({}, "plain words", "plain words"),
    ],
)
def test_an_unquoted_argument_has_the_type_that_the_schema_gives_it(schema, written, expected):
    parameters = {"properties": {"a": schema}, "$defs": {"n": {"type": "integer"}}}
    box = Toolbox([{"function": {"name": "f", "parameters": parameters}}])
    form = choose("<tool_call><arg_key>", lambda token: False)
    text = f"<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>{written}</arg_value>\n</tool_call>"
    assert called(read(ToolStage(form, box), list(text))) == [("f", {"a": expected})]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4), st.booleans())
def test_any_arguments_survive_as_json(arguments, plain):
    body = json.dumps({"name": "f", "arguments": arguments}, ensure_ascii=plain)
    parts = read(stage("<tool_call>"), list(hermes(body)))
    assert called(parts) == [("f", arguments)] and shown(parts) == ""


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), VALUES, max_size=4))
def test_any_arguments_survive_as_python(arguments):
    written = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    parts = read(stage("[func_name1("), list(f"[now({written})]"))
    assert called(parts) == [("now", arguments)] and shown(parts) == ""


@given(st.text())
def test_any_string_survives_between_tags(text):
    if "</parameter>" in text:
        return
    body = f"<function=write_file>\n<parameter=content>\n{text}\n</parameter>\n</function>"
    parts = read(stage("<tool_call><function="), list(hermes(body)))
    assert called(parts) == [("write_file", {"content": text})]


def test_white_space_around_calls_is_no_text():
    parts = read(stage("<tool_call>"), list("\n\n" + hermes(GOOD, '{"name": "now"}') + "\n\n"))
    assert shown(parts) == "" and called(parts) == [COLOGNE, NOW]
