"""Chat templates: where they come from, which is taken, and how messages are shaped for them."""

import json
from datetime import datetime

import pytest

from slipstream.contracts.errors import InvalidRequest, ModelError
from slipstream.contracts.model import ModelInfo
from slipstream.text.template import ChatTemplate, load_template, read_templates

HI = [{"role": "user", "content": "hi"}]
PLAIN = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"
PARTS = (
    "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}<{{ p.text }}>{% endfor %}{% endif %}{% endfor %}"
)
ONLY_PARTS = "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"
CALLS = "{% for m in messages %}{% for c in m.tool_calls %}{{ SHOW }}{% endfor %}{% endfor %}"


def made(text, **options):
    return ChatTemplate({"default": text}, **options)


def says(content, role="user"):
    return [{"role": role, "content": content}]


def folder(path, **tokenizer):
    path.mkdir(exist_ok=True)
    return ModelInfo(
        id="m", path=path, context=8, vocab_size=8, eos_ids=(), config={}, tokenizer=tokenizer
    )


def test_no_messages_are_refused():
    with pytest.raises(InvalidRequest, match="no message"):
        made(PLAIN).render([])


def test_a_model_without_a_template_says_what_to_do():
    with pytest.raises(InvalidRequest, match="/v1/completions") as refusal:
        ChatTemplate({}).render(HI, param="input")
    assert refusal.value.param == "input"


def test_a_refusal_carries_the_templates_words():
    refusing = made("{{ raise_exception('only users may speak') }}")
    with pytest.raises(InvalidRequest, match="only users may speak") as refusal:
        refusing.render(HI)
    assert refusal.value.param == "messages"


@pytest.mark.parametrize(
    "text",
    ["{{ messages[5].content }}", "{{ messages + 1 }}", "{{ 1 / 0 }}", "{{ messages | nope }}"],
)
def test_a_failing_template_is_the_requests_error(text):
    if "nope" in text:
        with pytest.raises(ModelError, match="nope"):
            made(text)
        return
    with pytest.raises(InvalidRequest, match="cannot render"):
        made(text).render(HI)


def test_a_broken_template_is_a_model_error_with_its_line():
    with pytest.raises(ModelError, match="line 2"):
        made("ok\n{% for %}")


def test_the_date_comes_from_the_given_clock():
    template = made("{{ strftime_now('%Y-%m-%d') }}", now=lambda: datetime(2024, 2, 29))
    assert template.render(HI) == "2024-02-29"


def test_variables_of_a_request_win_over_those_of_the_server_and_the_model():
    template = made(
        "{{ a }}{{ b }}{{ c }}", special=dict.fromkeys("abc", 1), variables={"b": 2, "c": 2}
    )
    assert template.render(HI, variables={"c": 3}) == "123"


@pytest.mark.parametrize("name", ["messages", "tools"])
def test_variables_may_not_replace_the_request(name):
    with pytest.raises(InvalidRequest) as refusal:
        made(PLAIN).render(HI, variables={name: []})
    assert refusal.value.param == "chat_template_kwargs"


def test_tools_and_documents_choose_their_template():
    template = ChatTemplate({"default": "plain", "tool_use": "tools", "rag": "documents"})
    assert template.render(HI) == "plain"
    assert template.render(HI, tools=[{}]) == "tools"
    assert template.render(HI, variables={"documents": [{}]}) == "documents"


def test_without_tools_the_template_sees_none():
    assert made("{{ tools is none }}").render(HI) == "True"


def test_null_fields_are_absent():
    assert made("{{ 'content' in messages[0] }}").render(says(None)) == "False"


def test_parts_become_text_where_a_template_wants_text():
    parts = [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}]
    assert made(PLAIN).render(says(parts)) == "user:ab;"


def test_parts_stay_parts_where_a_template_reads_them():
    template = made(PARTS.replace("<{{ p.text }}>", "{{ p.text }}{{ '' if loop.last else '|' }}"))
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert template.render(says(parts)) == "a|b"


def test_text_becomes_a_part_where_a_template_reads_only_parts():
    assert made(ONLY_PARTS).render(HI) == "hi"


def test_a_template_that_prints_the_list_itself_gets_text():
    assert made(PLAIN).render(says([{"type": "text", "text": "a"}])) == "user:a;"


@pytest.mark.parametrize("part", [{"type": "image_url", "image_url": {}}, 5, {"text": 1}])
def test_parts_that_are_no_text_are_refused(part):
    with pytest.raises(InvalidRequest, match="reads text") as refusal:
        made(PARTS).render(says([part]))
    assert refusal.value.param == "messages"


def with_call(arguments):
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
    return [{"role": "assistant", "content": "", "tool_calls": [call]}]


def test_arguments_are_objects_where_a_template_wants_objects():
    template = made(CALLS.replace("SHOW", "c.function.arguments | tojson"))
    assert template.render(with_call('{"a": 1}')) == '{"a": 1}'
    assert template.render(with_call("")) == "{}"


def test_arguments_are_text_where_a_template_wants_text():
    template = made(CALLS.replace("SHOW", "'' + c.function.arguments"))
    assert template.render(with_call('{"a":1}')) == '{"a":1}'


@pytest.mark.parametrize("written", ["not json", "[1]", "7"])
def test_arguments_that_are_no_object_stay_as_they_are(written):
    template = made(CALLS.replace("SHOW", "c.function.arguments | tojson"))
    assert template.render(with_call(written)) == json.dumps(written)


def test_the_callers_messages_are_not_touched():
    messages = [*with_call('{"a": 1}'), *says([{"type": "text", "text": "x"}])]
    before = json.dumps(messages)
    made(PLAIN).render(messages, continue_final=True)
    assert json.dumps(messages) == before


def test_continuing_needs_text():
    with pytest.raises(InvalidRequest, match="no text to continue"):
        made(PLAIN).render(says(None, "assistant"), continue_final=True)


def test_a_template_that_drops_the_last_message_cannot_continue_it():
    with pytest.raises(InvalidRequest, match="cannot be continued"):
        made("{{ messages[0].role }}").render(HI, continue_final=True)


def test_the_file_wins_over_the_configuration(tmp_path):
    info = folder(tmp_path, chat_template="from config")
    assert read_templates(info) == {"default": "from config"}
    (tmp_path / "chat_template.jinja").write_text("from file", "utf-8")
    assert read_templates(info) == {"default": "from file"}


def test_the_flag_wins_over_both(tmp_path):
    given = tmp_path / "mine.jinja"
    given.write_text("mine", "utf-8")
    info = folder(tmp_path, chat_template="from config")
    assert load_template(info, {}, given=given).render(HI) == "mine"


def test_a_list_of_templates_is_read_by_name(tmp_path):
    listed = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]
    info = folder(tmp_path, chat_template=listed)
    assert read_templates(info) == {"default": "a", "tool_use": "b"}


def test_further_templates_lie_in_a_folder_of_their_own(tmp_path):
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "rag.jinja").write_text("r", "utf-8")
    (tmp_path / "chat_template.jinja").write_text("d", "utf-8")
    assert read_templates(folder(tmp_path)) == {"default": "d", "rag": "r"}


def test_a_model_may_have_no_template(tmp_path):
    assert read_templates(folder(tmp_path)) == {}


@pytest.mark.parametrize("written", [5, ["x"], [{"name": "default"}]])
def test_a_template_that_is_none_is_a_model_error(tmp_path, written):
    with pytest.raises(ModelError, match="not a template"):
        read_templates(folder(tmp_path, chat_template=written))


def test_a_flag_that_names_no_file_is_an_error(tmp_path):
    with pytest.raises(ModelError, match="cannot be read"):
        load_template(folder(tmp_path), {}, given=tmp_path / "absent.jinja")
