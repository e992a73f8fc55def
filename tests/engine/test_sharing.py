"""Requests that arrive together and begin alike fill what they share once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.contracts.adapters import AdapterUse
from slipstream.contracts.placement import Abilities, Needs
from slipstream.contracts.row import CancelReason
from slipstream.engine.prefixes import SHARE_LEAST, common_prefix, shared
from slipstream.testing.backend import FakeBackend, solo_run

from .rig import Faults, Rig, choices, prompt, solo

SYSTEM = tuple(range(200))


def sharing(snapshots=False, fault=None, adapters=(), **limits):
    can = Abilities(prefixes=True, snapshots=snapshots, adapters=frozenset(adapters))
    backend = FakeBackend(abilities=can, **({"fault": fault} if fault else {}))
    return Rig(backend, **limits)


def asking(rig, *tail, begin=SYSTEM, ask=prompt, **fields):
    return rig.read(rig.submit(ask(*begin, *tail, **fields)))


def assert_alone(*readers):
    for reader in readers:
        assert reader.tokens == solo_run(reader.session.spec.prompt)


def key(reader):
    return reader.session.spec.key


def kept(rig, *readers):
    """What was kept of rows on their way; the ends of long prompts are kept as well."""
    ends = {(key(reader), len(reader.session.spec.prompt.ids) - 1) for reader in readers}
    return [each for each in rig.backend.kept if each not in ends]


def cached(*readers):
    return [reader.session.report.cached_tokens for reader in readers]


@pytest.mark.parametrize("chunk", [7, 64, 2048])
def test_what_is_shared_is_filled_once(chunk):
    rig = sharing(prefill_chunk=chunk, prefill_floor=7)
    readers = [asking(rig, 300 + n, 400 + n) for n in range(4)]
    rig.finish()
    assert_alone(*readers)
    assert cached(*readers) == [0, 200, 200, 200]
    assert rig.backend.kept == [(key(readers[0]), 200)]
    assert rig.desk.stats().cached_tokens == 600


def test_the_chunk_of_the_row_that_fills_ends_where_the_others_part():
    rig = sharing()
    readers = [asking(rig, *range(300, 500)), asking(rig, 7)]
    rig.turn()
    assert rig.backend.plans == [{key(readers[0]): 200}]
    rig.finish()


def test_an_equal_prompt_computes_its_last_token_only():
    rig = sharing()
    readers = [asking(rig, seed=seed) for seed in range(2)]
    rig.finish()
    assert_alone(*readers)
    assert cached(*readers) == [0, 199]


def test_a_newcomer_during_the_fill_waits_for_what_is_shared():
    rig = sharing(prefill_chunk=50)
    first = asking(rig, *range(300, 500))
    rig.turn(2)
    second = asking(rig, 7)
    rig.turn(2)
    assert rig.backend.opened == [key(first)]
    rig.finish()
    assert_alone(first, second)
    assert cached(second) == [200]


def test_a_row_that_has_passed_what_is_shared_rests_once_and_is_kept():
    rig = sharing(prefill_chunk=120)
    first = asking(rig, *range(300, 900))
    rig.turn(3)
    second = asking(rig, 7)
    rig.finish()
    assert_alone(first, second)
    assert cached(second) == [200]
    assert kept(rig, first, second) == [(key(first), 360)]


def test_snapshots_of_a_row_that_has_passed_do_not_help():
    rig = sharing(snapshots=True, prefill_chunk=120)
    first = asking(rig, *range(300, 900))
    rig.turn(3)
    second = asking(rig, 7)
    rig.turn()
    assert rig.backend.opened == [key(first), key(second)]
    rig.finish()
    assert_alone(first, second)


def test_snapshots_are_kept_exactly_where_prompts_part():
    rig = sharing(snapshots=True)
    readers = [asking(rig, *range(300, 310)), asking(rig, 7)]
    rig.finish()
    assert_alone(*readers)
    assert cached(*readers) == [0, 200]
    assert rig.backend.kept[0] == (key(readers[0]), 200)


@pytest.mark.parametrize(("length", "opened"), [(SHARE_LEAST - 1, 2), (SHARE_LEAST, 1)])
def test_too_little_to_share_is_not_waited_for(length, opened):
    rig = sharing(prefill_chunk=16)
    for tail in (500, 600):
        asking(rig, tail, begin=SYSTEM[:length])
    rig.turn()
    assert len(rig.backend.opened) == opened
    rig.finish()


def test_what_was_kept_before_is_not_waited_for():
    rig = sharing(prefill_chunk=300)
    first = asking(rig, *range(300, 2000))
    second = asking(rig, 5)
    rig.turn(3)
    third = asking(rig, 6)
    rig.turn()
    assert rig.backend.opened[-1] == key(third)
    rig.finish()
    assert kept(rig, first, second, third) == [(key(first), 200)]


def test_without_a_prefix_cache_nobody_waits():
    rig = Rig()
    readers = [asking(rig, n) for n in range(2)]
    rig.turn()
    assert rig.backend.opened == [key(reader) for reader in readers]
    rig.finish()
    assert rig.backend.kept == []


@pytest.mark.parametrize(
    "other",
    [
        {"cache_salt": "another tenant"},
        {"needs": Needs(adapters=(AdapterUse("a"),))},
        {"logprobs": 1, "prompt_logprobs": True},
        {"ask": solo},
    ],
)
def test_rows_that_cannot_share_do_not_wait_for_each_other(other):
    rig = sharing(adapters=("a",))
    readers = [asking(rig), asking(rig, **other)]
    rig.turn()
    assert rig.backend.opened == [key(reader) for reader in readers]
    rig.finish()
    assert_alone(*readers)
    assert cached(*readers) == [0, 0]


def test_chains_of_prompts_wait_for_one_stretch_after_the_other():
    rig = sharing(prefill_chunk=100)
    stem, branch = tuple(range(1000)), tuple(range(2000, 2200))
    first = asking(rig, *range(3000, 3500), begin=stem)
    second = asking(rig, *range(4000, 4100), begin=stem + branch)
    third = asking(rig, 9, begin=stem + branch)
    rig.finish()
    assert_alone(first, second, third)
    assert cached(first, second, third) == [0, 1000, 1200]
    assert kept(rig, first, second, third) == [(key(first), 1000), (key(second), 1200)]


def test_a_row_is_kept_at_each_length_where_others_part_from_it():
    rig = sharing(prefill_chunk=64)
    first = asking(rig, *range(300, 400))
    readers = [asking(rig, 7, begin=SYSTEM[:length]) for length in (80, 180)]
    rig.finish()
    assert cached(*readers) == [80, 180]
    assert kept(rig, first, *readers) == [(key(first), 80), (key(first), 180)]
    assert_alone(first, *readers)


def test_waiting_holds_up_nobody_else():
    rig = sharing(prefill_chunk=20)
    runner = asking(rig, begin=(7,), max_tokens=60)
    rig.turn(3)
    asking(rig, 1), asking(rig, 2)
    short = asking(rig, begin=(8, 9))
    before = len(runner.tokens)
    rig.turn(8)
    assert len(runner.tokens) == before + 8
    assert len(short.tokens) == 4
    assert len(rig.backend.opened) == 3
    rig.finish()


@pytest.mark.parametrize("turns", range(8))
@pytest.mark.parametrize("left", range(3))
def test_cancelling_one_does_not_touch_the_others(left, turns):
    rig = sharing(prefill_chunk=60)
    readers = [asking(rig, 300 + n) for n in range(3)]
    rig.turn(turns)
    readers.pop(left).session.cancel(CancelReason.DISCONNECT)
    rig.finish()
    assert_alone(*readers)


def test_when_the_row_that_fills_is_cancelled_the_next_takes_over():
    rig = sharing(prefill_chunk=60)
    first, second, third = (asking(rig, 300 + n) for n in range(3))
    rig.turn(2)
    first.session.cancel(CancelReason.DISCONNECT)
    rig.turn()
    assert rig.backend.opened == [key(first), key(second)]
    rig.finish()
    assert cached(third) == [200]
    assert_alone(second, third)


@pytest.mark.parametrize("moment", ["launch", "collect"])
@pytest.mark.parametrize("nth", range(1, 9))
def test_a_passing_fault_costs_nobody_a_token(moment, nth):
    rig = sharing(fault=Faults().at(moment, nth), prefill_chunk=60)
    readers = [asking(rig, 300 + n) for n in range(3)]
    rig.finish()
    assert_alone(*readers)


def test_a_row_that_must_start_over_is_not_waited_for():
    rig = sharing(fault=Faults().at("launch", 2), prefill_chunk=60)
    first, second = (asking(rig, 300 + n) for n in range(2))
    rig.turn(3)
    assert rig.backend.opened == [key(first), key(second)]
    rig.finish()


def test_a_prefix_that_cannot_be_kept_is_filled_again():
    rig = sharing(fault=Faults().always("keep", lambda prompts: True))
    readers = [asking(rig, 300 + n) for n in range(2)]
    rig.finish()
    assert_alone(*readers)
    assert cached(*readers) == [0, 0]


def test_choices_of_two_requests_share_what_both_begin_with():
    rig = sharing()
    first, second = (rig.submit_all(choices(3, *SYSTEM, 300 + n, 400 + n)) for n in range(2))
    rig.finish()
    assert_alone(*first, *second)
    assert cached(*first, *second) == [0, 201, 201, 200, 201, 201]
    assert rig.backend.opened == [key(first[0]), key(second[0])]


def test_exclusive_work_may_come_between():
    rig = sharing(prefill_chunk=60)
    readers = [asking(rig, 300 + n) for n in range(3)]
    rig.turn(2)
    job = rig.exclusive(lambda: rig.backend.live_rows)
    rig.finish()
    assert job.result() == 1
    assert_alone(*readers)


@given(st.lists(st.integers(0, 2), max_size=40), st.lists(st.integers(0, 2), max_size=40))
def test_the_common_prefix_is_what_a_plain_loop_finds(one, two):
    plain = 0
    while plain < min(len(one), len(two)) and one[plain] == two[plain]:
        plain += 1
    assert shared(tuple(one), tuple(two)) == plain


BLOCKS = st.lists(st.integers(0, 1), max_size=5)  # of 70 tokens: prompts that part at many places


@settings(max_examples=60, deadline=None)
@given(
    asked=st.lists(st.tuples(BLOCKS, st.integers(1, 90)), min_size=2, max_size=8),
    chunk=st.sampled_from([10, 100, 2048]),
    snapshots=st.booleans(),
)
def test_no_row_computes_what_one_before_it_computes(asked, chunk, snapshots):
    rig = sharing(snapshots=snapshots, prefill_chunk=chunk, prefill_floor=1)
    readers = []
    for number, (blocks, tail) in enumerate(asked):
        stem = [token for n, block in enumerate(blocks) for token in [2 * n + block] * 70]
        readers.append(asking(rig, *[100 + number] * tail, begin=stem))
    rig.finish()
    assert_alone(*readers)
    for place, reader in enumerate(readers):
        mine = reader.session.spec.prompt
        most = max(
            (common_prefix(mine, other.session.spec.prompt) for other in readers[:place]), default=0
        )
        assert reader.session.report.cached_tokens > most - SHARE_LEAST
