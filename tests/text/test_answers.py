"""From a request with tools to the reading of its answer: offered, chosen, bound, told apart."""

import json
from pathlib import Path

import pytest

from slipstream.contracts.completion import Completion, GrammarText, ToolChoice, ToolMode
from slipstream.contracts.errors import InvalidRequest
from slipstream.contracts.model import ModelInfo
from slipstream.contracts.row import FinishReason, TokenEvent
from slipstream.text.prepare import Preparer
from slipstream.text.sink import fold
from slipstream.text.template import ChatTemplate
from slipstream.text.tokenizer import Tokenizer

from .tools.transcripts import COLOGNE, HARMONY, TOOLS, TRANSCRIPTS
from .vocabularies import NAMED, byte_level, tokenizer

pytestmark = pytest.mark.anyio

BYTES = tokenizer("byte_level")
HERE = Path(__file__).parent / "templates"
CHATML = (HERE / "chatml.jinja").read_text("utf-8")
QWEN3 = (HERE / "qwen3_thinking.jinja").read_text("utf-8")
GPT_OSS = (HERE / "gpt_oss.jinja").read_text("utf-8")
MISTRAL = (HERE / "mistral_v3.jinja").read_text("utf-8")
HI = ({"role": "user", "content": "hello"},)
PLAIN_TOOLS = (TOOLS[0], TOOLS[3])
REQUIRED = ToolChoice(mode=ToolMode.REQUIRED)
SIGNS = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"]
DIGITS = GrammarText("regex", "[0-9]", "guided_regex")


@pytest.fixture
def anyio_backend():
    return "asyncio"


def harmonic():
    made = byte_level()
    made.add_special_tokens([*SIGNS, "<|constrain|>"])
    return Tokenizer(made, NAMED)


def preparer(template=QWEN3, made=BYTES):
    info = ModelInfo(
        id="m", path=None, context=9000, vocab_size=made.vocab_size, eos_ids=(), config={}
    )
    chat = ChatTemplate({"default": template}, special=made.named)
    return Preparer(info, made, chat, {}, 9000)


def asks(**fields):
    return Completion(request_id="r", model="m", **{"messages": HI, "tools": TOOLS, **fields})


async def prepared(made, completion):
    return made.prepare(completion, await made.grammar(completion))


def answered(ready, text, made=BYTES, finish=FinishReason.STOP):
    ids = made.encode(text)
    if finish is FinishReason.STOP:
        ids.append(made.eos_id)
    sink = ready.sink()
    deltas = [d for token in ids[:-1] for d in sink.push([TokenEvent(token)])]
    return fold([*deltas, *sink.push([TokenEvent(ids[-1], finish=finish)])])


def calls(folded):
    return [(call.name, json.loads(call.arguments)) for call in folded.calls]


def prompt(ready, made=BYTES):
    return made.decode(ready.prompt.ids)


HERMES = TRANSCRIPTS[0]


async def test_an_answer_with_calls_finishes_as_one():
    folded = answered(await prepared(preparer(), asks()), HERMES.text)
    assert calls(folded) == list(HERMES.calls)
    assert (folded.text, folded.finish) == (HERMES.shown, FinishReason.TOOL_CALLS)


async def test_an_answer_that_is_cut_off_says_so_whatever_it_holds():
    folded = answered(await prepared(preparer(), asks()), HERMES.text[:-3], finish="length")
    assert calls(folded) == list(HERMES.calls) and folded.finish == FinishReason.LENGTH


async def test_a_call_of_which_nothing_is_out_is_text_where_it_is_cut_off():
    text = "So.\n<tool_call>\n{"
    folded = answered(await prepared(preparer(), asks()), text, finish=FinishReason.LENGTH)
    assert (folded.text, folded.calls, folded.finish) == (text, (), FinishReason.LENGTH)


async def test_reasoning_comes_ahead_of_calls_and_has_its_tokens():
    ready = await prepared(preparer(), asks())
    folded = answered(ready, "<think>\nHm.\n</think>\n\n" + HERMES.text)
    assert (folded.reasoning, folded.text) == ("Hm.", HERMES.shown)
    assert 0 < folded.reasoning_tokens < folded.tokens
    assert calls(folded) == list(HERMES.calls)


async def test_how_tokens_are_batched_changes_no_count():
    text = "<think>\nHm.\n</think>\n\n" + HERMES.text
    ready = await prepared(preparer(), asks())
    events = [TokenEvent(token) for token in BYTES.encode(text)]
    events.append(TokenEvent(BYTES.eos_id, finish=FinishReason.STOP))
    whole = fold(ready.sink().push(events))
    sink = ready.sink()
    single = fold([delta for event in events for delta in sink.push([event])])
    ids = [call.id for call in single.calls]
    assert [call.name for call in whole.calls] == [call.name for call in single.calls]
    assert len(set(ids)) == len(ids) and all(one.startswith("call_") for one in ids)
    for name in ("text", "reasoning", "tokens", "reasoning_tokens", "finish"):
        assert getattr(whole, name) == getattr(single, name)


async def test_text_behind_a_call_keeps_its_place():
    ready = await prepared(preparer(), asks())
    first, rest = HERMES.text.split("</tool_call>\n", 1)
    text = f"{first}</tool_call>\nand {rest}"
    events = [TokenEvent(token) for token in BYTES.encode(text)]
    deltas = ready.sink().push(events)
    kinds = ["call" if delta.calls else "text" for delta in deltas for _ in delta.calls or "t"]
    assert [bool(delta.text) for delta in deltas][:2] == [True, True] and "call" in kinds


async def test_stop_strings_do_not_look_into_calls():
    ready = await prepared(preparer(), asks(stop=("Köln", "look.")))
    folded = answered(ready, HERMES.text.removeprefix("Let me look.\n\n"))
    assert calls(folded) == list(HERMES.calls)
    folded = answered(ready, HERMES.text)
    assert (folded.text, folded.calls, folded.finish) == ("Let me ", (), FinishReason.STOP)


async def test_one_call_is_enough_where_several_may_not_be():
    ready = await prepared(preparer(), asks(tool_choice=ToolChoice(parallel=False)))
    sink = ready.sink()
    for token in BYTES.encode(HERMES.text):
        if sink.finish is not None:
            break
        sink.push([TokenEvent(token)])
    assert sink.stopped and sink.finish is FinishReason.TOOL_CALLS


async def test_tools_that_may_not_be_called_are_not_offered():
    ready = await prepared(preparer(), asks(tool_choice=ToolChoice(mode=ToolMode.NONE)))
    assert "get_weather" not in prompt(ready)
    assert answered(ready, HERMES.text).text == HERMES.text


async def test_tools_are_refused_where_the_template_drops_them():
    with pytest.raises(InvalidRequest) as refusal:
        await prepared(preparer(CHATML), asks())
    assert refusal.value.param == "tools"


async def test_a_demanded_call_is_made_where_the_template_drops_the_tools():
    ready = await prepared(preparer(CHATML), asks(tool_choice=REQUIRED))
    matcher = ready.for_choice(0).matcher
    text = '{"name": "get_weather", "arguments": {"city": "Köln 🌧", "days": 3}}'
    for token in BYTES.encode(text):
        matcher.accept(token)
    assert calls(answered(ready, text)) == [COLOGNE]


async def test_a_choice_that_names_no_tool_is_refused():
    with pytest.raises(InvalidRequest) as refusal:
        await preparer().grammar(asks(tool_choice=ToolChoice(mode=ToolMode.NAMED, name="x")))
    assert refusal.value.param == "tool_choice"


async def test_a_grammar_holds_behind_reasoning_that_the_prompt_opened():
    template = CHATML + "{{ '<think>\n' }}{# </think> #}"
    ready = await prepared(preparer(template), asks(tools=(), grammar=DIGITS))
    matcher = ready.for_choice(0).matcher
    for token in BYTES.encode("any thought</think>5"):
        matcher.accept(token)
    assert matcher.stopped
    folded = answered(ready, "any thought</think>5")
    assert (folded.reasoning, folded.text) == ("any thought", "5")


async def test_a_grammar_holds_at_once_where_reasoning_is_turned_off():
    kwargs = {"enable_thinking": False}
    ready = await prepared(preparer(), asks(tools=(), grammar=DIGITS, template_kwargs=kwargs))
    assert prompt(ready).endswith("</think>\n\n")
    ready.for_choice(0).matcher.accept(BYTES.id_of("5"))


async def test_harmony_is_read_by_its_signs_and_ends_with_them():
    made = harmonic()
    ready = await prepared(preparer(GPT_OSS, made), asks(tools=PLAIN_TOOLS))
    assert {made.id_of("<|call|>"), made.id_of("<|return|>")} <= ready.prompt.stop_ids
    folded = answered(ready, HARMONY.removesuffix("<|call|>"), made)
    assert (folded.reasoning, folded.text) == ("The user asks\nabout rain.", "I look.")
    assert calls(folded) == [COLOGNE] and folded.finish is FinishReason.TOOL_CALLS


@pytest.mark.parametrize("choice", [ToolChoice(), REQUIRED])
async def test_a_bound_answer_of_harmony_thinks_first(choice):
    made = harmonic()
    grammar = DIGITS if choice.mode is ToolMode.AUTO else None
    tools = PLAIN_TOOLS if grammar is None else ()
    ready = await prepared(
        preparer(GPT_OSS, made), asks(tools=tools, tool_choice=choice, grammar=grammar)
    )
    matcher = ready.for_choice(0).matcher
    assert made.decode(matcher.forced()) == "<|channel|>analysis<|message|>"
    answer = "<|start|>assistant<|channel|>final<|message|>5"
    if grammar is None:
        header = "commentary to=functions.now <|constrain|>json"
        answer = f"<|start|>assistant<|channel|>{header}<|message|>{{}}"
    text = "<|channel|>analysis<|message|>hm<|end|>" + answer
    for token in made.encode(text):
        matcher.accept(token)
    assert answered(ready, text, made).reasoning == "hm"


async def test_ids_of_calls_are_as_short_as_a_template_wants_them():
    call = {"id": "call_" + "a" * 32, "function": {"name": "now", "arguments": {}}}
    messages = (
        *HI,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "5", "tool_call_id": call["id"]},
    )
    text = prompt(await prepared(preparer(MISTRAL), asks(messages=messages)))
    assert call["id"] not in text
    short = text.split('"call_id": "')[1][:9]
    assert f'"id": "{short}"' in text


async def test_what_changes_nothing_with_this_template_is_declared():
    kwargs = {"reasoning_effort": "low", "colour": "red"}
    ready = await prepared(preparer(CHATML), asks(tools=(), template_kwargs=kwargs))
    assert ready.ignored == ("reasoning_effort", "chat_template_kwargs.colour")
    kwargs = {"reasoning_effort": "none"}
    ready = await prepared(preparer(), asks(tools=(), template_kwargs=kwargs))
    assert ready.ignored == () and prompt(ready).endswith("</think>\n\n")


async def test_logprobs_cover_every_token_of_an_answer_with_calls():
    ready = await prepared(preparer(), asks(logprobs=0))
    text = "<think>Hm.</think>" + HERMES.text
    ids = BYTES.encode(text)
    sink = ready.sink()
    deltas = [d for token in ids for d in sink.push([TokenEvent(token, -1.0)])]
    last = TokenEvent(BYTES.eos_id, -1.0, finish=FinishReason.STOP)
    folded = fold([*deltas, *sink.push([last])])
    assert b"".join(entry.raw for entry in folded.logprobs) == text.encode()
