"""Bound calls: whatever a model draws under the grammar is a call that keeps the schema."""

import json

import jsonschema
import pytest

from slipstream.contracts.completion import Completion, GrammarText, ToolChoice, ToolMode
from slipstream.contracts.errors import InvalidRequest
from slipstream.text.sink import whole_calls
from slipstream.text.tools.binding import binding
from slipstream.text.tools.families import FORMS, PLAIN
from slipstream.text.tools.harmony import Harmony
from slipstream.text.tools.stage import ToolStage
from slipstream.text.tools.syntax import Syntax, Toolbox

from ..walks import BYTES, compiler, takes, walk
from .transcripts import tool

KIND = {"enum": ["a b", "c"]}
SMALL = {"type": "integer", "minimum": 0, "maximum": 99}
TOOLS = (
    tool("look", ("at", "often"), at={"enum": ["sea", "sky"]}, often=SMALL, kind=KIND),
    tool("now"),
    tool("maybe", a=SMALL, b={"type": "boolean"}),
)
REQUIRED = ToolChoice(mode=ToolMode.REQUIRED)
ALL = (*FORMS, PLAIN)
every = pytest.mark.parametrize("form", ALL, ids=[form.name for form in ALL])
MADE = compiler()


FREE = ToolChoice()


def asks(choice=FREE, tools=TOOLS, grammar=None):
    return Completion(
        request_id="r", model="m", text="", tools=tools, tool_choice=choice, grammar=grammar
    )


def compiled(form, completion, special=()):
    return MADE.start(binding(completion, form, dict(special))).result()


def read(form, text, tools=TOOLS):
    made = ToolStage(form, Toolbox(tools)) if isinstance(form, Syntax) else Harmony()
    parts = [*made.push(text), *made.flush()]
    calls = whole_calls(call for part in parts for call in part.calls)
    return "".join(part.text for part in parts), calls


def check(calls):
    for call in calls:
        schema = next(
            t["function"]["parameters"] for t in TOOLS if t["function"]["name"] == call.name
        )
        jsonschema.validate(json.loads(call.arguments), schema)


@every
@pytest.mark.parametrize("seed", range(3))
def test_a_required_call_is_read_back_and_keeps_its_schema(form, seed):
    choice = ToolChoice(mode=ToolMode.REQUIRED, parallel=False)
    written, ended = walk(compiled(form, asks(choice)), seed, longest=3000)
    assert ended
    text, calls = read(form, written.decode())
    assert text == "" and len(calls) == 1
    check(calls)


@every
def test_several_calls_stand_as_the_family_writes_them(form):
    choice = ToolChoice(mode=ToolMode.REQUIRED)
    for seed in range(20):
        written, ended = walk(compiled(form, asks(choice)), seed, longest=6000)
        text, calls = read(form, written.decode("utf-8", "ignore"))
        if ended and len(calls) > 1:
            break
    assert form.alone or (len(calls) > 1 and text == "")
    check(calls)


TAGGED = ("qwen_coder", "glm", "minimax", "deepseek_markup", "gemma4")


@pytest.mark.parametrize("name", TAGGED)
def test_a_string_between_tags_is_any_text(name):
    form = next(form for form in FORMS if form.name == name)
    text = tool("say", ("words",), words={"type": "string"})
    choice = ToolChoice(mode=ToolMode.REQUIRED, parallel=False)
    grammar = compiled(form, asks(choice, (text,)))
    pieces = form.bound("say", text["function"]["parameters"])
    words = '"quoted" <b>\\\n'
    written = "".join(piece if isinstance(piece, str) else words + piece.end for piece in pieces)
    written = form.around[0] + written + form.around[1]
    assert takes(grammar, written)
    _, (call,) = read(form, written, (text,))
    assert json.loads(call.arguments) == {"words": words}


def test_a_schema_with_references_is_kept_beside_an_answer():
    nested = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/n"}},
        "required": ["a"],
        "$defs": {"n": {"type": "integer"}},
    }
    tools = ({"type": "function", "function": {"name": "f", "parameters": nested, "strict": True}},)
    answer = GrammarText("json_schema", json.dumps({"type": "array"}), "response_format")
    grammar = compiled(PLAIN, asks(FREE, tools, answer))
    assert takes(grammar, "[1]") and takes(grammar, '{"name": "f", "arguments": {"a": 1}}')
    assert not takes(grammar, '{"name": "f", "arguments": {"a": "b"}}')


def test_a_named_tool_is_the_only_one():
    choice = ToolChoice(mode=ToolMode.NAMED, name="now", parallel=False)
    grammar = compiled(PLAIN, asks(choice))
    assert takes(grammar, '{"name": "now", "arguments": {}}')
    assert not takes(grammar, '{"name": "maybe", "arguments": {}}')


def test_nothing_is_bound_where_calls_are_free():
    assert binding(asks(), PLAIN, {}) is None
    assert binding(asks(ToolChoice(mode=ToolMode.NONE)), PLAIN, {}) is None


STRICT = ({**TOOLS[0], "function": {**TOOLS[0]["function"], "strict": True}}, TOOLS[1])
LOOK = '<tool_call>\n{"name": "look", "arguments": {"at": "sea", "often": 3}}\n</tool_call>'
HERMES = next(form for form in FORMS if form.name == "hermes")


@pytest.mark.parametrize("text", ["", "Just <text>.", LOOK, f"I look.\n{LOOK}\n{LOOK}"])
def test_a_strict_tool_leaves_text_free(text):
    assert takes(compiled(HERMES, asks(tools=STRICT)), text)


@pytest.mark.parametrize("wrong", [LOOK.replace("sea", "moon"), LOOK.replace("look", "other")])
def test_a_strict_tool_is_called_as_its_schema_says(wrong):
    assert not takes(compiled(HERMES, asks(tools=STRICT)), wrong)


def test_beside_a_strict_tool_the_others_take_any_arguments():
    free = '<tool_call>\n{"name": "now", "arguments": {"any": [1]}}\n</tool_call>'
    assert takes(compiled(HERMES, asks(tools=STRICT)), free)


def test_a_marker_that_is_a_special_token_is_written_as_one():
    mistral = next(form for form in FORMS if form.name == "mistral")
    sign = BYTES.id_of("<|im_end|>")
    grammar = compiled(mistral, asks(REQUIRED), {"[TOOL_CALLS]": sign})
    matcher = grammar.matcher()
    assert list(matcher.forced())[:1] == [sign]


@every
def test_calls_and_an_answer_in_a_form_exclude_each_other(form):
    schema = GrammarText("json_schema", '{"type": "object"}', "response_format")
    grammar = compiled(form, asks(grammar=schema))
    assert takes(grammar, form.final + '{"any": 1}')
    assert not takes(grammar, form.final + "any text")


def test_a_form_that_is_not_json_does_not_go_with_tools():
    with pytest.raises(InvalidRequest) as refusal:
        binding(asks(grammar=GrammarText("regex", "a", "guided_regex")), PLAIN, {})
    assert refusal.value.param == "guided_regex"


def test_a_demanded_call_leaves_no_room_for_another_form():
    schema = GrammarText("json_schema", "{}", "response_format")
    with pytest.raises(InvalidRequest) as refusal:
        binding(asks(REQUIRED, grammar=schema), PLAIN, {})
    assert refusal.value.param == "response_format"


def test_a_schema_that_cannot_be_kept_is_refused_by_the_field():
    bad = tool("f", a=True)
    bad["function"]["parameters"]["x-guidance"] = {}
    with pytest.raises(InvalidRequest, match="tool f") as refusal:
        binding(asks(REQUIRED, tools=(bad,)), PLAIN, {})
    assert refusal.value.param == "tools"
