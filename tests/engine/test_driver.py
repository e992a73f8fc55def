"""Turns by hand: rows join, fill, step, end and leave."""

import pytest

from slipstream.contracts.adapters import AdapterUse
from slipstream.contracts.errors import InvalidRequest, OutOfTime, QueueFull
from slipstream.contracts.placement import Lane, Needs, Reason
from slipstream.contracts.row import CancelReason, Finished, FinishReason, Stopped
from slipstream.testing.backend import FakeBackend, solo_run

from .rig import Rig, prompt, solo


def test_a_row_draws_what_it_draws_alone():
    rig = Rig()
    asked = prompt(5, 6, 7, max_tokens=9, seed=3)
    reader = rig.read(rig.submit(asked))
    rig.finish()
    assert reader.tokens == solo_run(asked)
    assert reader.session.outcome == Finished(FinishReason.LENGTH)


def test_a_row_does_not_feel_its_neighbours():
    rig = Rig(batch=3, prefill_chunk=4)
    asked = [prompt(*range(1, 2 + 3 * n), max_tokens=3 + n, seed=n) for n in range(7)]
    readers = []
    for each in asked:
        readers.append(rig.read(rig.submit(each)))
        rig.turn()
    rig.finish()
    assert [reader.tokens for reader in readers] == [solo_run(each) for each in asked]


def test_a_stop_token_ends_the_row_and_is_delivered():
    tokens = solo_run(prompt(max_tokens=8))
    rig = Rig()
    reader = rig.read(rig.submit(prompt(max_tokens=8, stop_ids=frozenset({tokens[3]}))))
    rig.finish()
    assert reader.tokens == tokens[: tokens.index(tokens[3]) + 1]
    assert reader.events[-1].finish is FinishReason.STOP


def test_only_the_last_event_carries_the_finish():
    rig = Rig()
    reader = rig.read(rig.submit(prompt(max_tokens=3)))
    rig.finish()
    assert [event.finish for event in reader.events] == [None, None, FinishReason.LENGTH]


def test_no_draw_is_launched_past_the_limit():
    rig = Rig()
    rig.submit(prompt(1, 2, 3, max_tokens=4))
    rig.finish()
    assert [sum(plan.values()) for plan in rig.backend.plans] == [3, 1, 1, 1]


def test_a_step_is_launched_before_the_one_before_it_is_read():
    rig = Rig()
    reader = rig.read(rig.submit(prompt(max_tokens=4)))
    rig.turn()
    assert (len(rig.backend.plans), len(reader.tokens)) == (1, 0)
    rig.turn()
    assert (len(rig.backend.plans), len(reader.tokens)) == (2, 1)


def test_a_row_that_ended_frees_its_place_in_the_same_turn():
    rig = Rig(batch=1)
    first, second = rig.submit(prompt(max_tokens=1)), rig.submit()
    rig.until(lambda: first.outcome is not None)
    assert rig.backend.live_rows == 0
    rig.turn()
    assert rig.backend.opened == [first.spec.key, second.spec.key]
    rig.finish()


def test_a_client_that_disappears_frees_its_row_within_one_turn():
    rig = Rig()
    session = rig.submit(prompt(max_tokens=50))
    rig.turn(5)
    session.cancel(CancelReason.DISCONNECT)
    rig.turn()
    assert session.outcome == Stopped(CancelReason.DISCONNECT)
    assert rig.backend.live_rows == 0
    rig.finish()


def test_cancelling_one_row_leaves_the_others_alone():
    rig = Rig()
    asked = [prompt(n, n, max_tokens=10) for n in range(1, 4)]
    readers = [rig.read(rig.submit(each)) for each in asked]
    rig.turn(4)
    readers[1].session.cancel(CancelReason.DISCONNECT)
    rig.finish()
    assert readers[0].tokens == solo_run(asked[0])
    assert readers[2].tokens == solo_run(asked[2])


def test_the_solo_lane_runs_one_row_at_a_time_beside_the_group():
    rig = Rig()
    asked = [solo(9, n, max_tokens=6) for n in range(2)] + [prompt(4, max_tokens=6)]
    readers = [rig.read(rig.submit(each)) for each in asked]
    rig.turn(3)
    stats = rig.desk.stats()
    assert (stats.solo.active, stats.group.active, stats.waiting) == (1, 1, 1)
    rig.finish()
    assert [reader.tokens for reader in readers] == [solo_run(each) for each in asked]


def test_a_solo_placement_says_why():
    rig = Rig()
    session = rig.submit(solo())
    assert session.placement.lane is Lane.SOLO
    assert session.report.placement.reasons == (Reason.REQUESTED,)
    rig.submit()
    assert rig.desk.stats().placements == {"lane_requested": 1, "none": 1}
    rig.finish()


def test_what_cannot_run_never_reaches_the_device():
    rig = Rig()
    with pytest.raises(InvalidRequest):
        rig.submit(prompt(needs=Needs(adapters=(AdapterUse("none"),))))
    rig.finish()
    assert rig.backend.opened == []


def test_a_full_queue_refuses_and_forgets():
    rig = Rig(batch=1, queue=1)
    rig.submit(), rig.submit()
    with pytest.raises(QueueFull):
        rig.submit()
    assert rig.desk.stats().rejected == 1
    rig.finish()
    assert len(rig.backend.opened) == 2


def test_a_cancelled_waiter_never_reaches_the_device():
    rig = Rig(batch=1)
    rig.submit()
    waiter = rig.submit()
    waiter.cancel(CancelReason.DISCONNECT)
    assert waiter.outcome == Stopped(CancelReason.DISCONNECT)
    rig.finish()
    assert rig.backend.opened == [0]


def test_a_row_past_its_deadline_ends():
    rig = Rig(request_timeout=10.0)
    reader = rig.read(rig.submit(prompt(max_tokens=500)))
    rig.turn(5)
    rig.clock.advance(10)
    rig.turn()
    assert reader.session.outcome == Stopped(CancelReason.DEADLINE)
    assert isinstance(reader.error, OutOfTime)
    assert "--request-timeout" in str(reader.error)
    assert len(reader.tokens) == 4, "what was read before stays"
    rig.finish()


def test_a_waiter_past_its_deadline_is_told_that_it_only_waited():
    rig = Rig(batch=1, request_timeout=10.0)
    rig.submit(prompt(max_tokens=500))
    waiter = rig.read(rig.submit())
    rig.turn(3)
    rig.clock.advance(10)
    rig.turn()
    assert "waited in the queue" in str(waiter.error)
    assert not isinstance(waiter.error, OutOfTime)
    rig.finish()


def test_a_row_that_came_late_out_of_the_queue_mostly_waited():
    rig = Rig(batch=1, request_timeout=10.0)
    first = rig.submit(prompt(max_tokens=500))
    waiter = rig.read(rig.submit(prompt(max_tokens=500)))
    rig.turn(3)
    rig.clock.advance(8)
    first.cancel(CancelReason.DISCONNECT)
    rig.turn(3)
    rig.clock.advance(2)
    rig.turn()
    assert "waited in the queue for 8 of its 10 s" in str(waiter.error)
    assert not isinstance(waiter.error, OutOfTime)
    rig.finish()


def test_the_report_tells_the_times_of_each_phase():
    rig = Rig(batch=1)
    first, session = rig.submit(prompt(max_tokens=1)), rig.submit(prompt(max_tokens=2, seed=7))
    rig.until(lambda: first.outcome is not None)
    rig.clock.advance(1.0)
    rig.turn()  # admitted, launched
    rig.clock.advance(0.25)
    rig.turn()  # first token
    rig.clock.advance(0.5)
    rig.turn()
    report = session.report
    assert (report.queue_ms, report.prefill_ms, report.decode_ms) == (1000, 250, 500)
    assert (report.prompt_tokens, report.rows_peak, report.seed) == (3, 1, 7)
    rig.finish()


def test_the_report_knows_the_most_rows_beside_it():
    rig = Rig()
    first = rig.submit(prompt(max_tokens=20))
    rig.turn()
    rig.submit(prompt(max_tokens=2)), rig.submit(prompt(max_tokens=2))
    rig.finish()
    assert first.report.rows_peak == 3


def test_the_counts_are_those_after_the_end_that_was_seen():
    rig = Rig()
    session = rig.submit(prompt(1, 2, max_tokens=3))
    rig.until(lambda: session.outcome is not None)
    stats = rig.desk.stats()
    assert (stats.group.active, stats.group.submitted, stats.group.max) == (0, 1, 8)
    assert (stats.prompt_tokens, stats.generated_tokens) == (2, 3)
    assert stats.finish == {"length": 1}
    rig.finish()


def test_a_launch_left_in_flight_by_a_cancelled_row_is_read():
    rig = Rig()
    session = rig.submit(prompt(max_tokens=50))
    rig.turn(3)
    session.cancel(CancelReason.STOP_STRING)
    assert rig.turn() is False
    rig.finish()


def test_the_driver_rests_when_there_is_nothing_to_do():
    rig = Rig(FakeBackend())
    assert rig.driver.turn() is False
