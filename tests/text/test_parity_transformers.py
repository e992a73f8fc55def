"""What transformers does with the same files is what we do: templates, ids, special tokens."""

import json
from pathlib import Path

import jinja2
import pytest
from tokenizers import AddedToken, processors
from transformers import PreTrainedTokenizerFast

from slipstream.contracts.errors import InvalidRequest
from slipstream.text.template import ChatTemplate
from slipstream.text.tokenizer import Tokenizer

from .conversations import CONVERSATIONS, WEATHER, WITH_TOOLS
from .vocabularies import KINDS, NAMED, TEXTS, byte_level, sentencepiece, write_folder

TEMPLATES = {
    path.stem: path.read_text("utf-8")
    for path in sorted((Path(__file__).parent / "templates").glob("*.jinja"))
}
READ_PARTS = {"gemma3", "smolvlm_parts"}  # templates that iterate over content
READ_ONLY_PARTS = {"smolvlm_parts"}
WANT_JSON_TEXT = {"deepseek_r1"}  # templates that concatenate a call's arguments

templates = pytest.mark.parametrize("name", TEMPLATES)


IMAGE = {
    "__type": "AddedToken",
    "content": "<img>",
    "lstrip": True,
    "normalized": False,
    "rstrip": False,
    "single_word": False,
    "special": True,
}


@pytest.fixture(scope="module")
def oracle():
    return PreTrainedTokenizerFast(tokenizer_object=byte_level(), **NAMED)


def as_the_template_reads(name, messages):
    """The forms that we are expected to find out on our own."""
    shaped = []
    for message in messages:
        copy = dict(message)
        content = copy.get("content")
        if isinstance(content, list) and name not in READ_PARTS:
            copy["content"] = "".join(part["text"] for part in content)
        if isinstance(content, str) and name in READ_ONLY_PARTS:
            copy["content"] = [{"type": "text", "text": content}]
        if "tool_calls" in copy and name in WANT_JSON_TEXT:
            copy["tool_calls"] = [with_json_text(call) for call in copy["tool_calls"]]
        shaped.append(copy)
    return shaped


def with_json_text(call):
    arguments = json.dumps(call["function"]["arguments"], ensure_ascii=False)
    return {**call, "function": {**call["function"], "arguments": arguments}}


def compare(oracle, name, messages, continue_final=False, **more):
    text = TEMPLATES[name]
    ours = ChatTemplate({"default": text}, special=NAMED)
    variables = {key: value for key, value in more.items() if key != "tools"}
    try:
        expected = oracle.apply_chat_template(
            as_the_template_reads(name, messages),
            chat_template=text,
            tokenize=False,
            add_generation_prompt=more.pop("add_generation_prompt", not continue_final),
            continue_final_message=continue_final,
            **more,
        )
    except (jinja2.TemplateError, TypeError, ValueError) as error:
        expected = error
    if name in WANT_JSON_TEXT:
        messages = as_the_template_reads(name, messages)
    asked = {"variables": variables, "continue_final": continue_final}
    if isinstance(expected, str):
        assert ours.render(messages, tools=more.get("tools", ()), **asked) == expected
        return
    with pytest.raises(InvalidRequest) as refusal:
        ours.render(messages, tools=more.get("tools", ()), **asked)
    if type(expected) is jinja2.TemplateError:
        assert str(expected) in str(refusal.value)


@templates
@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_every_template_renders_every_conversation_alike(oracle, name, conversation):
    compare(oracle, name, CONVERSATIONS[conversation])


@templates
@pytest.mark.parametrize("conversation", WITH_TOOLS)
def test_tools_and_their_results_are_rendered_alike(oracle, name, conversation):
    compare(oracle, name, WITH_TOOLS[conversation], tools=[WEATHER])


@templates
def test_without_a_generation_prompt_they_agree_too(oracle, name):
    compare(oracle, name, CONVERSATIONS["turns"], add_generation_prompt=False)


@templates
@pytest.mark.parametrize("conversation", ["ends_with_assistant", "one", "parts"])
def test_a_last_message_is_continued_alike(oracle, name, conversation):
    compare(oracle, name, CONVERSATIONS[conversation], continue_final=True)


def test_extra_variables_reach_the_template(oracle):
    compare(oracle, "qwen3_thinking", CONVERSATIONS["one"], enable_thinking=False)
    compare(oracle, "gpt_oss", CONVERSATIONS["one"], reasoning_effort="high")
    compare(oracle, "llama31_tools", CONVERSATIONS["one"], date_string="1 May 2020")
    compare(oracle, "llama3", CONVERSATIONS["one"], bos_token="<other>")


def test_arguments_as_json_text_render_like_objects(oracle):
    for name in ("qwen25_tools", "qwen3_thinking", "mistral_v3", "llama31_tools", "gpt_oss"):
        messages = WITH_TOOLS["called"]
        sent = [
            {**m, "tool_calls": [with_json_text(call) for call in m["tool_calls"]]}
            if "tool_calls" in m
            else m
            for m in messages
        ]
        expected = oracle.apply_chat_template(
            messages,
            chat_template=TEMPLATES[name],
            tools=[WEATHER],
            tokenize=False,
            add_generation_prompt=True,
        )
        ours = ChatTemplate({"default": TEMPLATES[name]}, special=NAMED)
        assert ours.render(sent, tools=[WEATHER]) == expected


def check_ids(folder):
    ours = Tokenizer.load(folder)
    theirs = PreTrainedTokenizerFast.from_pretrained(folder)
    for text in (*TEXTS, "a <extra> b<img>c <tool call> d"):
        for special in (True, False):
            expected = theirs.encode(text, add_special_tokens=special)
            assert ours.encode(text, add_special_tokens=special) == expected
            for skip in (True, False):
                shown = theirs.decode(expected, skip_special_tokens=skip)
                assert ours.decode(expected, skip_special_tokens=skip) == shown
    assert ours.named == theirs.special_tokens_map
    assert ours.special_ids == set(theirs.all_special_ids)
    return ours, theirs


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_folder_gives_the_same_ids(tmp_path, kind):
    backend = KINDS[kind]()
    # Theirs knows a special token by its name or flag in the configuration, so name them all.
    config = {"additional_special_tokens": ["<|im_end|>"], "unk_token": "<unk>"}
    if kind == "byte_level":
        del config["unk_token"]
    check_ids(write_folder(tmp_path, backend, config))


@pytest.mark.parametrize(
    "config",
    [
        {"add_bos_token": True},
        {"add_bos_token": True, "add_eos_token": True},
        {"add_bos_token": False},
        {"pad_token": "<pad>", "image_token": "<img>"},
        {"additional_special_tokens": ["<extra>", IMAGE]},
        {"extra_special_tokens": {"image_token": "<img>"}},
        {"bos_token": {"content": "<s>", "__type": "AddedToken", "special": True}},
    ],
    ids=str,
)
def test_the_configuration_changes_the_ids_alike(tmp_path, config):
    backend = sentencepiece()
    merged = {"additional_special_tokens": ["<|im_end|>"], "unk_token": "<unk>", **config}
    if "extra_special_tokens" in config:
        del merged["additional_special_tokens"]
        merged["im_token"] = "<|im_end|>"
    elif "additional_special_tokens" in config:
        merged["im_token"] = "<|im_end|>"
    check_ids(write_folder(tmp_path, backend, merged))


def test_a_begin_token_from_the_file_counts(tmp_path):
    backend = byte_level()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B:1", special_tokens=[("<s>", 0)]
    )
    folder = write_folder(tmp_path, backend, {"additional_special_tokens": ["<|im_end|>"]})
    ours, _ = check_ids(folder)
    assert ours.encode("")[0] == ours.bos_id


def test_tokens_that_only_the_configuration_lists_are_added(tmp_path):
    backend = byte_level()
    size = backend.get_vocab_size()
    listed = backend.get_added_tokens_decoder() | {
        size: AddedToken("<extra>", special=True, normalized=False),
        size + 1: AddedToken("<img>", special=False, normalized=False, rstrip=True),
    }
    decoder = {
        str(index): {
            "content": token.content,
            "lstrip": token.lstrip,
            "rstrip": token.rstrip,
            "single_word": token.single_word,
            "normalized": token.normalized,
            "special": token.special,
        }
        for index, token in listed.items()
    }
    config = {
        "added_tokens_decoder": decoder,
        "additional_special_tokens": ["<|im_end|>", "<extra>"],
    }
    ours, _ = check_ids(write_folder(tmp_path, backend, config))
    assert ours.id_of("<img>") == size + 1


def test_an_older_folder_keeps_its_special_tokens_in_a_file_of_their_own(tmp_path):
    folder = write_folder(tmp_path, sentencepiece())
    special = {**NAMED, "unk_token": "<unk>", "additional_special_tokens": ["<|im_end|>"]}
    (folder / "tokenizer_config.json").write_text("{}", "utf-8")
    (folder / "special_tokens_map.json").write_text(json.dumps(special), "utf-8")
    check_ids(folder)
