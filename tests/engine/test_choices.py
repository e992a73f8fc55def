"""Choices of one request: one prefill for all, and after it each is a row of its own."""

from dataclasses import replace

import pytest

from slipstream.contracts.errors import InvalidRequest, QueueFull, RowFault
from slipstream.contracts.placement import Abilities, Needs
from slipstream.contracts.report import Report
from slipstream.contracts.row import CancelReason, Failed, Stopped
from slipstream.contracts.sampling import Sampling
from slipstream.engine.placement import place
from slipstream.testing.backend import FakeBackend, solo_run

from .rig import Faults, Rig, choices, prompt, solo

PROMPT = range(1, 11)


def asked(count, **fields):
    return choices(count, *PROMPT, **{"max_tokens": 5, **fields})


def assert_alone(readers):
    assert [reader.tokens for reader in readers] == [
        solo_run(reader.session.spec.prompt) for reader in readers
    ]


@pytest.mark.parametrize("chunk", [1, 3, 9, 64])
@pytest.mark.parametrize("count", [2, 3, 8])
def test_each_choice_draws_what_it_draws_alone(count, chunk):
    rig = Rig(prefill_chunk=chunk)
    readers = rig.submit_all(asked(count))
    rig.finish()
    assert_alone(readers)
    assert len({tuple(reader.tokens) for reader in readers}) == count


def test_all_choices_share_one_prefill():
    rig = Rig()
    readers = rig.submit_all(asked(4))
    rig.finish()
    leader, *others = [reader.session.spec.key for reader in readers]
    assert rig.backend.opened == [leader]
    assert rig.backend.forks == dict.fromkeys(others, leader)
    assert rig.backend.plans[0] == {leader: 9}
    assert [sorted(plan.values()) for plan in rig.backend.plans[1:]] == [[1] * 4] * 5
    assert rig.desk.stats().cached_tokens == 3 * 9


def test_a_choice_reports_what_it_took_from_its_leader():
    rig = Rig()
    readers = rig.submit_all(asked(3))
    rig.finish()
    assert [reader.session.report.cached_tokens for reader in readers] == [0, 9, 9]
    assert [reader.session.report.seed for reader in readers] == [0, 1, 2]


def test_reports_of_choices_join_by_their_longest_phases():
    eight, nine = Sampling(seed=8), Sampling(seed=9)
    first, second = (
        Report(placement=place(Needs(), Abilities()), **numbers)
        for numbers in (
            {"queue_ms": 1, "prefill_ms": 5, "decode_ms": 2, "rows_peak": 3, "sampling": eight},
            {"queue_ms": 4, "prefill_ms": 2, "decode_ms": 6, "rows_peak": 2, "sampling": nine},
        )
    )
    joined = replace(first, queue_ms=4, prefill_ms=5, decode_ms=6, rows_peak=3)
    assert Report.overlapping([first, second]) == joined


def test_choices_count_as_rows():
    rig = Rig(batch=3, queue=2)
    rig.submit_all(asked(4))
    with pytest.raises(QueueFull):
        rig.submit_all(asked(2))
    rig.submit()
    rig.turn()
    stats = rig.desk.stats()
    assert (stats.group.active, stats.waiting, stats.group.submitted) == (3, 2, 5)
    assert (stats.rejected, stats.placements) == (1, {"none": 2})
    rig.finish()


def test_more_choices_than_can_ever_wait_are_refused_for_good():
    rig = Rig(batch=2, queue=1)
    with pytest.raises(InvalidRequest) as refusal:
        rig.submit_all(asked(4))
    assert refusal.value.param == "n"
    assert rig.desk.stats().rejected == 0
    rig.submit_all(asked(3))
    rig.finish()


def test_waiting_for_the_prefill_blocks_nobody():
    rig = Rig(prefill_chunk=2, prefill_floor=2)
    others = [rig.read(rig.submit(prompt(7, max_tokens=9)))]
    rig.turn()
    readers = rig.submit_all(asked(3))
    others.append(rig.read(rig.submit(prompt(8, max_tokens=3))))
    before = len(others[0].tokens)
    rig.turn(3)
    assert len(others[0].tokens) == before + 3
    rig.finish()
    assert_alone(readers + others)
    assert len(rig.backend.opened) == 3


def test_a_choice_without_a_place_does_not_hold_up_the_leader():
    rig = Rig(batch=1)
    readers = rig.submit_all(asked(3))
    rig.finish()
    assert_alone(readers)
    assert rig.backend.forks == {}


def test_a_late_choice_fills_by_itself():
    rig = Rig(batch=2)
    readers = rig.submit_all(asked(3, max_tokens=2))
    rig.finish()
    assert_alone(readers)
    assert len(rig.backend.opened) == 2


def test_a_prompt_of_one_token_leaves_nothing_to_share():
    rig = Rig()
    readers = rig.submit_all(choices(3, 4))
    rig.finish()
    assert_alone(readers)
    assert rig.backend.forks == {}


def test_scored_prompts_are_filled_by_each_choice():
    rig = Rig()
    readers = rig.submit_all(asked(3, logprobs=1, prompt_logprobs=True))
    rig.finish()
    assert_alone(readers)
    assert rig.backend.forks == {}


def test_choices_on_the_solo_lane_take_turns():
    rig = Rig()
    readers = rig.submit_all([solo(*PROMPT, seed=seed) for seed in range(3)])
    rig.finish()
    assert_alone(readers)
    assert rig.backend.forks == {}


def test_a_cancelled_leader_hands_over_to_the_next_choice():
    rig = Rig(prefill_chunk=3)
    first, second, third = rig.submit_all(asked(3))
    rig.turn(2)
    first.session.cancel(CancelReason.DISCONNECT)
    rig.finish()
    assert_alone([second, third])
    assert rig.backend.forks == {third.session.spec.key: second.session.spec.key}


def test_a_leader_cancelled_in_the_queue_hands_over_too():
    rig = Rig()
    first, second, third = rig.submit_all(asked(3))
    first.session.cancel(CancelReason.DISCONNECT)
    rig.finish()
    assert_alone([second, third])
    assert len(rig.backend.opened) == len(rig.backend.forks) == 1


@pytest.mark.parametrize("turns", range(7))
@pytest.mark.parametrize("left", range(3))
def test_cancelling_one_choice_does_not_touch_the_others(left, turns):
    rig = Rig(prefill_chunk=4)
    readers = rig.submit_all(asked(3))
    rig.turn(turns)
    readers[left].session.cancel(CancelReason.DISCONNECT)
    rig.finish()
    assert readers.pop(left).session.outcome == Stopped(CancelReason.DISCONNECT)
    assert_alone(readers)


def test_a_choice_that_waits_ends_at_its_deadline():
    rig = Rig(prefill_chunk=1, request_timeout=5.0)
    readers = rig.submit_all(asked(2))
    rig.turn(2)
    rig.clock.advance(5.0)
    rig.finish()
    assert {reader.session.outcome for reader in readers} == {Stopped(CancelReason.DEADLINE)}


@pytest.mark.parametrize("moment", ["launch", "collect"])
@pytest.mark.parametrize("nth", range(1, 9))
def test_a_passing_fault_costs_no_choice_a_token(moment, nth):
    rig = Rig(FakeBackend(fault=Faults().at(moment, nth)), prefill_chunk=4)
    readers = rig.submit_all(asked(3))
    rig.finish()
    assert_alone(readers)


def test_a_leader_that_must_start_over_is_not_waited_for():
    rig = Rig(FakeBackend(fault=Faults().at("collect", 1)), prefill_chunk=4)
    readers = rig.submit_all(asked(3))
    rig.finish()
    leader, second, third = [reader.session.spec.key for reader in readers]
    assert rig.backend.opened == [leader, second]
    assert rig.backend.forks == {third: second}


@pytest.mark.parametrize("moment", ["open", "fork", "draw"])
def test_a_choice_that_fails_fails_alone(moment):
    rig = Rig(FakeBackend(fault=Faults().at(moment, 1)))
    readers = rig.submit_all(asked(3))
    rig.finish()
    failed = [reader for reader in readers if isinstance(reader.session.outcome, Failed)]
    assert [type(reader.error) for reader in failed] == [RowFault]
    assert_alone([reader for reader in readers if reader not in failed])


def test_exclusive_work_finds_no_choice_half_made():
    rig = Rig(prefill_chunk=3)
    readers = rig.submit_all(asked(3))
    rig.turn(2)
    job = rig.exclusive(lambda: rig.backend.live_rows)
    rig.finish()
    assert job.result() == 1
    assert_alone(readers)
