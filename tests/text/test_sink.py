"""The sink: one session's tokens to deltas, and the back-edge to the session."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.contracts.delta import Delta
from slipstream.contracts.errors import ForwardFault, RowFault
from slipstream.contracts.row import CancelReason, FinishReason, Ranked, Scored, TokenEvent
from slipstream.text.detokenize import Detokenizer
from slipstream.text.echo import Echo
from slipstream.text.sink import Folded, Sink, deltas, fold, merged
from slipstream.text.stops import Stops

from .vocabularies import NAMED, tokenizer

BYTES = tokenizer("byte_level")
EOS = BYTES.eos_id


def sink(*stops, kind="byte_level", **options):
    made = tokenizer(kind)
    return Sink(Detokenizer(made), Stops(stops), stop_ids={made.eos_id}, **options)


def events(text, finish=FinishReason.STOP, logprobs=False):
    """One event for each token of `text`; then, for a stop, one for the end token."""
    ids = BYTES.encode(text) + ([EOS] if finish is FinishReason.STOP else [])
    scored = [-0.5 - n for n in range(len(ids))] if logprobs else [None] * len(ids)
    made = [TokenEvent(token, logprob) for token, logprob in zip(ids, scored, strict=True)]
    last = made.pop()
    return [*made, TokenEvent(last.token, last.logprob, finish=finish)]


class Source:
    """A scripted session."""

    def __init__(self, batches, ending=None):
        self.script = batches
        self.ending = ending
        self.read = 0
        self.cancelled = []

    async def batches(self):
        for batch in self.script:
            self.read += 1
            yield batch
        if self.ending is not None:
            raise self.ending

    def cancel(self, reason):
        self.cancelled.append(reason)


def run(source, sink):
    async def collect():
        return [delta async for delta in deltas(source, sink)]

    return asyncio.run(collect())


def one_by_one(made):
    return [[event] for event in made]


def test_text_arrives_with_its_finish_and_count():
    made = events("hello world")
    folded = fold(run(Source(one_by_one(made)), sink()))
    assert folded == Folded(text="hello world", tokens=len(made), finish=FinishReason.STOP)


def test_only_the_last_delta_has_the_finish():
    pieces = run(Source(one_by_one(events("hello world"))), sink())
    assert [piece.finish for piece in pieces[:-1]] == [None] * (len(pieces) - 1)
    assert pieces[-1].finish is FinishReason.STOP


def test_a_good_end_cancels_nothing():
    source = Source(one_by_one(events("hello")))
    run(source, sink())
    assert source.cancelled == []


def test_the_last_token_before_the_limit_is_text():
    folded = fold(run(Source([events("hello", FinishReason.LENGTH)]), sink()))
    assert (folded.text, folded.finish) == ("hello", FinishReason.LENGTH)


def test_an_end_that_is_no_stop_token_is_text():
    made = events("hello", FinishReason.LENGTH)
    made[-1] = TokenEvent(made[-1].token, finish=FinishReason.STOP)
    assert fold(run(Source([made]), sink())).text == "hello"


@given(
    text=st.text("ab日🙂 ", max_size=20),
    stops=st.lists(st.text("ab日 ", min_size=1, max_size=3), max_size=3),
    finish=st.sampled_from([FinishReason.STOP, FinishReason.LENGTH]),
    data=st.data(),
)
def test_how_tokens_are_batched_changes_nothing(text, stops, finish, data):
    made = events(text or "a", finish, logprobs=True)
    batches = []
    rest = made
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        batches.append(rest[:size])
        rest = rest[size:]
    whole = fold(run(Source([made]), sink(*stops)))
    assert fold(run(Source(batches), sink(*stops))) == whole


@given(st.text("ab日🙂 ", min_size=1, max_size=20), st.text("ab日 ", min_size=1, max_size=3))
def test_the_answer_ends_where_a_plain_search_ends_it(text, stop):
    folded = fold(run(Source([events(text, logprobs=True)]), sink(stop)))
    assert folded.text == text.split(stop)[0]
    assert b"".join(entry.raw for entry in folded.logprobs).startswith(folded.text.encode())


def test_a_matched_stop_string_cancels_the_source_and_reads_no_more():
    source = Source(one_by_one(events("hello stop string here")))
    folded = fold(run(source, sink(" stop")))
    assert folded.text == "hello" and folded.finish is FinishReason.STOP
    assert source.cancelled == [CancelReason.STOP_STRING]
    assert folded.tokens == source.read < len(source.script)


def test_tokens_after_the_match_are_not_counted():
    made = events("a.b.c.d", FinishReason.LENGTH)
    folded = fold(run(Source([made]), sink(".")))
    assert folded.text == "a" and folded.tokens == 2


def test_a_stop_that_is_decided_by_the_end_is_a_stop():
    folded = fold(run(Source([events("abc", FinishReason.LENGTH)]), sink("bcd", "c")))
    assert (folded.text, folded.finish) == ("ab", FinishReason.STOP)


def test_held_text_is_released_at_the_end():
    folded = fold(run(Source(one_by_one(events("go on st"))), sink("stop")))
    assert folded.text == "go on st"


def test_logprobs_have_exact_bytes_and_none_for_the_end_token():
    made = events("日 a", logprobs=True)
    entries = fold(run(Source(one_by_one(made)), sink())).logprobs
    assert len(entries) == len(made) - 1
    assert b"".join(entry.raw for entry in entries) == "日 a".encode()
    assert [entry.logprob for entry in entries] == [event.logprob for event in made[:-1]]


def test_logprobs_name_the_alternatives():
    hello, world = BYTES.id_of("h"), BYTES.id_of("w")
    event = TokenEvent(hello, -0.1, (Ranked(hello, -0.1), Ranked(world, -2.5)), FinishReason.LENGTH)
    (entry,) = fold(run(Source([[event]]), sink())).logprobs
    assert [(top.text, top.raw, top.logprob) for top in entry.top] == [
        ("h", b"h", -0.1),
        ("w", b"w", -2.5),
    ]


def test_a_logprob_comes_with_its_text_not_before():
    made = sink("xyz")
    x, a = BYTES.id_of("x"), BYTES.id_of("a")
    assert made.push([TokenEvent(x, -1.0)]) == []
    (delta,) = made.push([TokenEvent(a, -2.0)])
    assert delta.text == "xa" and [entry.text for entry in delta.logprobs] == ["x", "a"]


def test_the_first_words_entry_has_the_bytes_that_show():
    made = tokenizer("sentencepiece")
    event = TokenEvent(made.id_of("▁hello"), -1.0, finish=FinishReason.LENGTH)
    folded = fold(sink(kind="sentencepiece").push([event]))
    assert folded.text == "hello" and folded.logprobs[0].raw == b"hello"


def test_half_a_character_at_the_limit_is_dropped_but_counted():
    made = events("a🙂", FinishReason.LENGTH, logprobs=True)
    cut = [*made[:-2], TokenEvent(made[-2].token, -1.0, finish=FinishReason.LENGTH)]
    folded = fold(run(Source(one_by_one(cut)), sink()))
    assert folded.text == "a" and folded.tokens == len(cut) == len(folded.logprobs)


def test_the_echo_comes_first_and_is_not_searched_for_stops():
    folded = fold(run(Source([events("b.c")]), sink(".", echo=Echo("a.b.", BYTES))))
    assert folded.text == "a.b.b"


def scored(ids):
    """As the device scores a prompt: nothing comes before its first token."""
    top = (Ranked(BYTES.id_of("h"), -0.1),)
    return tuple(Scored(t, -1.0 - n, top) if n else Scored(t, None) for n, t in enumerate(ids))


def echoed(text, answer, ids=None, finish=FinishReason.STOP):
    """What becomes of a scored prompt (`ids`, or those of `text`) and its answer."""
    first, *rest = events(answer, finish, logprobs=True)
    first = replace(first, scored=scored(ids or BYTES.encode(text)))
    return fold(run(Source(one_by_one([first, *rest])), sink(echo=Echo(text, BYTES))))


def test_a_scored_prompt_has_entries_before_the_answers():
    folded = echoed("日 a", "b", finish=FinishReason.LENGTH)
    assert folded.text == "日 ab"
    assert b"".join(entry.raw for entry in folded.logprobs) == "日 ab".encode()
    values = [entry.logprob for entry in folded.logprobs]
    assert values == [None, *(-1.0 - n for n in range(1, len(values) - 1)), -0.5]
    assert [top.text for top in folded.logprobs[1].top] == ["h"]
    assert folded.tokens == 1


def test_where_the_prompt_is_scored_the_end_is_too():
    folded = echoed("a", "")
    assert [entry.raw for entry in folded.logprobs] == [b"a", b"</s>"]
    assert folded.text == "a" and folded.logprobs[-1].silent


def test_a_special_token_of_the_prompt_is_silent_unless_the_text_has_it():
    ids = [BYTES.bos_id, *BYTES.encode("a")]
    assert [entry.silent for entry in echoed("a", "b", ids).logprobs[:2]] == [True, False]
    assert [entry.silent for entry in echoed("<s>a", "b", ids).logprobs[:2]] == [False, False]


def test_a_special_token_within_an_answer_is_silent():
    made = [TokenEvent(BYTES.bos_id, -1.0), TokenEvent(BYTES.id_of("a"), -2.0)]
    made[-1] = replace(made[-1], finish=FinishReason.LENGTH)
    folded = fold(run(Source([made]), sink()))
    assert folded.text == "a" and [entry.silent for entry in folded.logprobs] == [True, False]


@pytest.mark.parametrize("text", ["hello world", "hello  hello", "héllo"])
@pytest.mark.parametrize("kind", ["byte_level", "sentencepiece", "metaspace"])
def test_the_prompts_entries_spell_its_text(kind, text):
    made = tokenizer(kind)
    entries = Echo(text, made).entries(scored(made.encode(text)))
    assert b"".join(entry.raw for entry in entries) == text.encode()


def test_every_delta_has_the_choice():
    pieces = run(Source(one_by_one(events("hello"))), sink(choice=3))
    assert {piece.choice for piece in pieces} == {3}


def test_a_fault_of_the_source_passes_through():
    source = Source([[TokenEvent(BYTES.id_of("a"))]], ForwardFault("lost"))
    with pytest.raises(ForwardFault):
        run(source, sink())


def test_tokens_that_end_without_a_finish_are_a_fault():
    with pytest.raises(RowFault, match="without a finish"):
        run(Source([[TokenEvent(BYTES.id_of("a"))]]), sink())


class Broken(Stops):
    def push(self, text):
        raise ZeroDivisionError("a stage failed")


def test_a_failing_stage_ends_this_request_only():
    source = Source(one_by_one(events("hello")))
    broken = Sink(Detokenizer(BYTES), Broken([]))
    with pytest.raises(RowFault, match=r"sink.*a stage failed") as raised:
        run(source, broken)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert source.cancelled == [CancelReason.SINK_FAULT]


def test_a_reader_who_leaves_cancels_the_source():
    source = Source(one_by_one(events("hello world")))

    async def leave():
        stream = deltas(source, sink())
        await anext(stream)
        await stream.aclose()

    asyncio.run(leave())
    assert source.cancelled == [CancelReason.DISCONNECT]


def test_a_cancelled_task_cancels_the_source():
    class Silent(Source):
        async def batches(self):
            self.waiting.set()
            await asyncio.Event().wait()
            yield []

    async def cancel():
        source = Silent([])
        source.waiting = asyncio.Event()
        task = asyncio.ensure_future(anext(deltas(source, sink())))
        await source.waiting.wait()
        task.cancel()
        await asyncio.wait([task])
        return source.cancelled

    assert asyncio.run(cancel()) == [CancelReason.DISCONNECT]


def join(sources):
    """The deltas of all `sources`, merged, one choice each."""
    streams = [deltas(source, sink(choice=n)) for n, source in enumerate(sources)]

    async def collect():
        return [delta async for delta in merged(streams)]

    return asyncio.run(collect())


def test_merged_choices_are_what_each_is_alone():
    texts = ("hello world", "a", "日本 🙂")
    found = join([Source(one_by_one(events(text))) for text in texts])
    for choice, text in enumerate(texts):
        assert fold(d for d in found if d.choice == choice).text == text


def test_merged_choices_come_side_by_side():
    found = join([Source(one_by_one(events("hello world"))) for _ in range(2)])
    assert [delta.choice for delta in found[:4]] == [0, 1, 0, 1]


def test_one_choice_that_fails_ends_the_others():
    sources = [Source(one_by_one(events("hello world"))), Source([], ForwardFault("lost"))]
    with pytest.raises(ForwardFault):
        join(sources)
    assert sources[0].cancelled == [CancelReason.DISCONNECT]


def test_a_reader_who_leaves_cancels_every_choice():
    sources = [Source(one_by_one(events("hello world"))) for _ in range(3)]

    async def leave():
        stream = merged([deltas(source, sink()) for source in sources])
        await anext(stream)
        await stream.aclose()

    asyncio.run(leave())
    assert [source.cancelled for source in sources] == [[CancelReason.DISCONNECT]] * 3


def test_a_choice_that_stops_by_a_string_leaves_the_others_running():
    sources = [Source(one_by_one(events(text))) for text in ("a.b.c", "abc")]
    streams = [deltas(source, sink(".", choice=n)) for n, source in enumerate(sources)]

    async def collect():
        return [delta async for delta in merged(streams)]

    found = asyncio.run(collect())
    assert [fold(d for d in found if d.choice == n).text for n in range(2)] == ["a", "abc"]
    assert [source.cancelled for source in sources] == [[CancelReason.STOP_STRING], []]


def test_the_fold_of_nothing_is_empty():
    assert fold([]) == Folded()


def test_the_fold_joins_text_and_reasoning():
    parts = [Delta(text="a", reasoning="x", tokens=1), Delta(text="b", reasoning="y", tokens=2)]
    assert fold(parts) == Folded(text="ab", reasoning="xy", tokens=3)


def test_the_last_delta_names_the_stop_string_that_matched():
    *others, last = run(Source(one_by_one(events("go on stop here"))), sink("here", " stop"))
    assert (last.finish, last.stop) == (FinishReason.STOP, " stop")
    assert not any(other.stop for other in others)


def test_an_end_token_is_named_where_it_was_asked_for_as_a_stop():
    *_, last = run(Source([events("go on")]), sink(NAMED["eos_token"]))
    assert last.stop == "</s>"
    *_, last = run(Source([events("go on")]), sink("x"))
    assert last.stop == ""
