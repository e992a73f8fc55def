"""Preparing: everything about a request resolved, and every wrong thing refused by name."""

import pytest

from slipstream.contracts.adapters import AdapterUse
from slipstream.contracts.completion import Completion, GrammarText
from slipstream.contracts.errors import ContextExceeded, InvalidRequest, ModelError
from slipstream.contracts.model import ModelInfo
from slipstream.contracts.row import FinishReason, TokenEvent
from slipstream.text.prepare import Preparer, fresh_seed, sampling_defaults
from slipstream.text.sink import fold
from slipstream.text.template import ChatTemplate
from slipstream.text.tokenizer import Tokenizer

from .vocabularies import NAMED, byte_level, tokenizer, word_level

BYTES = tokenizer("byte_level")
CHATML = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
AS = GrammarText("regex", "a+", "guided_regex")
HI = ({"role": "user", "content": "hello"},)


@pytest.fixture
def anyio_backend():
    return "asyncio"


def preparer(made=BYTES, template=CHATML, context=200, defaults=None, eos_ids=(), **options):
    info = ModelInfo(
        id="m",
        path=None,
        context=context,
        vocab_size=made.vocab_size + 8,
        eos_ids=eos_ids,
        config={},
    )
    chat = ChatTemplate({"default": template}, special=made.named)
    return Preparer(info, made, chat, defaults or {}, context, draw_seed=lambda: 11, **options)


def asks(**fields):
    if not {"text", "ids", "messages"} & set(fields):
        fields["text"] = "hello"
    return Completion(request_id="r", model="m", **fields)


def refused(param, *args, **fields):
    with pytest.raises(InvalidRequest) as refusal:
        preparer(*args).prepare(asks(**fields))
    assert refusal.value.param == param
    return refusal.value


def test_messages_go_through_the_template():
    prompt = preparer().prepare(asks(messages=HI)).prompt
    expected = "<s><|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    assert BYTES.decode(prompt.ids) == expected


def test_a_begin_token_is_not_doubled():
    doubling = preparer(template="{{ bos_token }}{{ bos_token }}{{ messages[0].content }}")
    assert BYTES.decode(doubling.prepare(asks(messages=HI)).prompt.ids) == "<s>hello"


def test_a_last_message_is_continued():
    messages = (*HI, {"role": "assistant", "content": "I say"})
    prepared = preparer().prepare(asks(messages=messages, continue_final=True))
    assert BYTES.decode(prepared.prompt.ids).endswith("assistant\nI say")


def test_text_is_read_with_special_tokens():
    prompt = preparer().prepare(asks(text="<s>hello")).prompt
    assert prompt.ids == tuple(BYTES.encode("<s>hello")) and prompt.ids[0] == BYTES.bos_id


def test_ids_are_taken_as_they_are():
    assert preparer().prepare(asks(ids=[5, 6, 7])).prompt.ids == (5, 6, 7)


@pytest.mark.parametrize("token", [-1, 10_000])
def test_ids_outside_the_vocabulary_are_refused(token):
    error = refused("prompt", ids=[1, token], prompt_param="prompt")
    assert str(token) in str(error)
    refused("stop_token_ids", stop_token_ids=(token,))


def test_a_bias_outside_the_vocabulary_is_refused():
    refused("logit_bias", sampling={"logit_bias": {10_000: 1.0}})


def test_sampling_out_of_range_is_refused_by_name():
    refused("temperature", sampling={"temperature": -1.0})


def test_an_empty_prompt_begins_with_the_begin_token():
    assert preparer().prepare(asks(text="")).prompt.ids == (BYTES.bos_id,)


def test_an_empty_prompt_without_a_begin_token_is_refused():
    refused("prompt", Tokenizer(byte_level()), text="", prompt_param="prompt")


def test_a_prompt_that_leaves_no_room_is_refused_with_the_numbers():
    for count in (200, 350):
        with pytest.raises(ContextExceeded) as refusal:
            preparer().prepare(asks(ids=[1] * count, prompt_param="prompt"))
        error = refusal.value
        assert (error.tokens, error.context, error.param) == (count, 200, "prompt")
        assert str(count) in error.message and "200" in error.message


def test_one_token_of_room_is_enough():
    assert preparer().prepare(asks(ids=[1] * 199)).prompt.max_tokens == 1


@pytest.mark.timeout(20)
def test_an_endless_text_is_refused_without_reading_all_of_it():
    with pytest.raises(ContextExceeded, match="at least") as refusal:
        preparer().prepare(asks(text="hello world " * 4_000_000, prompt_param="prompt"))
    assert refusal.value.tokens < 100_000


def test_a_long_text_of_few_tokens_is_not_refused_for_its_length():
    made = Tokenizer(word_level(), NAMED)
    text = " " * 300_000 + "hello"
    assert preparer(made).prepare(asks(text=text)).prompt.ids == (made.id_of("hello"),)


@pytest.mark.parametrize(
    ("asked", "default", "expected"),
    [(10, None, 10), (None, 20, 20), (None, None, 197), (1000, None, 197), (None, 1000, 197)],
)
def test_the_answers_length_fits_the_context(asked, default, expected):
    made = preparer(max_tokens_default=default)
    assert made.prepare(asks(ids=[1, 2, 3], max_tokens=asked)).prompt.max_tokens == expected


def test_an_answer_of_no_length_is_refused():
    refused("max_tokens", max_tokens=0)


def test_sampling_is_the_clients_over_the_servers():
    made = preparer(defaults={"temperature": 0.5, "top_p": 0.9})
    sampling = made.prepare(asks(sampling={"top_p": 0.1})).prompt.sampling
    assert (sampling.temperature, sampling.top_p) == (0.5, 0.1)


def test_a_seed_is_drawn_when_none_is_given():
    assert preparer().prepare(asks()).prompt.sampling.seed == 11
    assert preparer().prepare(asks(sampling={"seed": 3})).prompt.sampling.seed == 3


def test_choices_have_seeds_of_their_own():
    prepared = preparer().prepare(asks(sampling={"seed": (1 << 63) - 1}, choices=3))
    seeds = [prepared.for_choice(n).sampling.seed for n in range(prepared.choices)]
    assert seeds == [(1 << 63) - 1, 0, 1]


def test_the_models_and_the_tokenizers_ends_stop_a_row():
    made = preparer(eos_ids=(7, 8))
    assert made.prepare(asks()).prompt.stop_ids == {7, 8, BYTES.eos_id}
    assert made.prepare(asks(stop_token_ids=(9,))).prompt.stop_ids == {7, 8, 9, BYTES.eos_id}
    assert made.prepare(asks(ignore_eos=True, stop_token_ids=(9,))).prompt.stop_ids == {9}


def test_a_stop_string_that_is_a_special_token_stops_by_its_id():
    prompt = preparer().prepare(asks(stop=("<|im_end|>", "x"), ignore_eos=True)).prompt
    assert prompt.stop_ids == {BYTES.id_of("<|im_end|>")}


@pytest.mark.parametrize("stop", [("",), ("ok", ""), tuple("abcdefghijklmnopq")])
def test_empty_and_too_many_stop_strings_are_refused(stop):
    refused("stop", stop=stop)


@pytest.mark.anyio
async def test_every_choice_has_a_matcher_of_its_own_that_its_stops_may_end():
    made, asked = preparer(), asks(grammar=AS, choices=2, stop_token_ids=(9,))
    prepared = made.prepare(asked, await made.grammar(asked))
    one, other = (prepared.for_choice(n).matcher for n in range(2))
    one.accept(BYTES.id_of("a"))
    one.accept(9)
    assert one.stopped and not other.stopped


@pytest.mark.anyio
async def test_without_a_grammar_there_is_no_matcher():
    made = preparer()
    assert await made.grammar(asks()) is None
    assert made.prepare(asks()).for_choice(0).matcher is None


@pytest.mark.anyio
async def test_a_grammar_that_cannot_be_kept_is_refused_by_the_field_that_asked():
    with pytest.raises(InvalidRequest) as refusal:
        await preparer().grammar(asks(grammar=GrammarText("regex", "(a", "guided_regex")))
    assert refusal.value.param == "guided_regex"


@pytest.mark.anyio
async def test_ends_cannot_be_ignored_where_a_form_ends_the_answer():
    with pytest.raises(InvalidRequest, match="guided_regex") as refusal:
        await preparer().grammar(asks(grammar=AS, ignore_eos=True))
    assert refusal.value.param == "ignore_eos"


def test_what_the_device_must_know_is_in_the_prompt():
    prepared = preparer().prepare(
        asks(
            lane="solo", adapters=(AdapterUse("sql", 0.5),), priority=2, cache_salt="t", logprobs=3
        )
    )
    prompt = prepared.prompt
    assert prompt.needs.solo and prompt.needs.adapters == (AdapterUse("sql", 0.5),)
    assert (prompt.priority, prompt.cache_salt, prompt.logprobs) == (2, "t", 3)


def answer(prepared, *tokens):
    sink = prepared.sink()
    events = [TokenEvent(token) for token in tokens[:-1]]
    return fold(sink.push([*events, TokenEvent(tokens[-1], finish=FinishReason.LENGTH)])).text


def test_a_sink_knows_the_stops():
    prepared = preparer().prepare(asks(stop=("wor",)))
    assert answer(prepared, *BYTES.encode("hello world")) == "hello "


def test_sinks_share_nothing():
    prepared = preparer().prepare(asks())
    assert answer(prepared, *BYTES.encode("a")) == answer(prepared, *BYTES.encode("a")) == "a"


def test_an_echo_comes_before_the_answer():
    assert answer(preparer().prepare(asks(text="say ", echo=True)), *BYTES.encode("it")) == "say it"
    ids = BYTES.encode("<s>say ")
    assert answer(preparer().prepare(asks(ids=ids, echo=True)), *BYTES.encode("it")) == "<s>say it"


def test_a_continued_text_keeps_the_space_and_a_reply_does_not():
    made = tokenizer("sentencepiece")
    word = made.id_of("▁hello")
    assert answer(preparer(made).prepare(asks(text="a")), word) == " hello"
    assert answer(preparer(made).prepare(asks(messages=HI)), word) == "hello"


@pytest.mark.parametrize(
    ("generation", "flags", "expected"),
    [
        ({}, {}, {}),
        (
            {"temperature": 0.6, "top_p": 0.9, "top_k": 20, "max_length": 5},
            {},
            {"temperature": 0.6, "top_p": 0.9, "top_k": 20},
        ),
        ({"do_sample": True}, {}, {"temperature": 1.0}),
        ({"do_sample": True, "temperature": 0.3}, {}, {"temperature": 0.3}),
        ({"do_sample": False, "temperature": 0.3}, {}, {"temperature": 0.0}),
        ({"temperature": 0.6}, {"temperature": 0.1, "top_p": None}, {"temperature": 0.1}),
        ({"do_sample": False}, {"temperature": 0.7}, {"temperature": 0.7}),
        ({"temperature": None}, {}, {}),
        ({"min_p": 0.1, "repetition_penalty": 1.1}, {}, {"min_p": 0.1, "repetition_penalty": 1.1}),
    ],
)
def test_defaults_are_the_flags_over_the_models(generation, flags, expected):
    assert sampling_defaults(generation, flags) == expected


@pytest.mark.parametrize("bad", [{"top_p": 7}, {"temperature": "hot"}, {"top_k": True}])
def test_a_generation_config_that_makes_no_sense_is_a_model_error(bad):
    with pytest.raises(ModelError, match="generation_config"):
        sampling_defaults(bad, {})


def test_a_seed_that_is_made_here_survives_a_client_that_counts_in_doubles():
    assert all(int(float(seed)) == seed for seed in (fresh_seed() + 1 for _ in range(200)))


CLIENT_LINE = ({"role": "system", "content": "x-anthropic-billing-header: cch=1;\nBe brief."}, *HI)


def test_what_changes_nothing_with_this_template_is_declared():
    found = preparer().prepare(asks(messages=CLIENT_LINE, template_kwargs={"tone": "warm"}))
    assert found.ignored == ("chat_template_kwargs.tone", "x-anthropic-billing-header")
    assert "billing" not in BYTES.decode(found.prompt.ids)


def test_and_refused_where_the_request_must_be_applied_whole():
    refused(
        "reasoning_effort", messages=HI, template_kwargs={"reasoning_effort": "low"}, strict=True
    )
    refused("chat_template_kwargs.tone", messages=HI, template_kwargs={"tone": "x"}, strict=True)
    refused("x-anthropic-billing-header", messages=CLIENT_LINE, strict=True)
    preparer().prepare(asks(messages=HI, strict=True))


def test_a_client_line_that_is_kept_is_nothing_to_declare():
    kept = preparer(keep_volatile_line=True).prepare(asks(messages=CLIENT_LINE, strict=True))
    assert kept.ignored == ()
    assert "billing" in BYTES.decode(kept.prompt.ids)
