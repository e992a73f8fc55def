"""I2: a session ends exactly once, and says how."""

import asyncio

import pytest

from slipstream.contracts.errors import Cancelled, RowFault
from slipstream.contracts.placement import Lane, Placement
from slipstream.contracts.row import (
    CancelReason,
    Failed,
    Finished,
    FinishReason,
    RowSpec,
    Stopped,
    TokenEvent,
)
from slipstream.engine.mailbox import Progress, Update
from slipstream.engine.session import Session

from .rig import Rig, prompt

DONE = Finished(FinishReason.LENGTH)


def session(outbox=100, stopped=None):
    spec = RowSpec(key=0, lane=Lane.GROUP, prompt=prompt(), deadline=600.0)
    placement = Placement(lane=Lane.GROUP, method="autoregressive", reasons=())
    note = (lambda session, reason: None) if stopped is None else stopped
    return Session(spec, placement, submitted=0.0, outbox=outbox, stop=note)


def update(*tokens, outcome=None):
    events = tuple(TokenEvent(token) for token in tokens)
    return Update(key=0, progress=Progress(admitted=1.0), events=events, outcome=outcome)


def read(made, seen=None):
    """The tokens of all events; also into `seen`, which stays when this raises."""
    seen = [] if seen is None else seen

    async def collect():
        async for batch in made.batches():
            seen.extend(event.token for event in batch)

    asyncio.run(collect())
    return seen


def test_a_reader_gets_all_events_in_order():
    made = session()
    made.push(update(1, 2))
    made.push(update(3, outcome=DONE))
    assert read(made) == [1, 2, 3]


def test_a_reader_gets_as_many_at_a_time_as_are_there():
    async def first():
        made = session()
        made.push(update(1, 2))
        made.push(update(3))
        return await anext(made.batches())

    assert [event.token for event in asyncio.run(first())] == [1, 2, 3]


def test_a_waiting_reader_is_woken():
    async def both():
        made = session()
        reader = asyncio.create_task(anext(made.batches()))
        await asyncio.sleep(0)
        made.push(update(5))
        return await reader

    assert [event.token for event in asyncio.run(both())] == [5]


def test_a_second_end_is_an_error_of_ours():
    made = session()
    made.push(update(outcome=DONE))
    with pytest.raises(AssertionError):
        made.push(update(outcome=DONE))
    assert made.outcome == DONE


def test_a_cancel_after_the_end_is_void():
    asked = []
    made = session(stopped=lambda session, reason: asked.append(reason))
    made.push(update(outcome=DONE))
    made.cancel(CancelReason.DISCONNECT)
    assert (asked, made.outcome) == ([], DONE)


def test_the_first_reason_to_cancel_stays():
    asked = []
    made = session(stopped=lambda session, reason: asked.append(reason))
    made.cancel(CancelReason.STOP_STRING)
    made.cancel(CancelReason.DISCONNECT)
    made.push(update(outcome=Stopped(CancelReason.STOP_STRING)))
    assert asked == [CancelReason.STOP_STRING]
    assert made.outcome == Stopped(CancelReason.STOP_STRING)


def test_a_cancel_stays_the_cause_when_the_row_ends_on_its_own_meanwhile():
    made = session()
    made.cancel(CancelReason.DISCONNECT)
    made.push(update(1, outcome=DONE))
    assert made.outcome == Stopped(CancelReason.DISCONNECT)


def test_a_matched_stop_string_is_a_good_end():
    made = session()
    made.push(update(1))
    made.cancel(CancelReason.STOP_STRING)
    made.push(update(2, outcome=Stopped(CancelReason.STOP_STRING)))
    assert read(made) == [1]


@pytest.mark.parametrize("reason", [r for r in CancelReason if r is not CancelReason.STOP_STRING])
def test_every_other_end_from_outside_is_raised_with_its_reason(reason):
    made = session()
    made.cancel(reason)
    made.push(update(outcome=Stopped(reason)))
    with pytest.raises(Cancelled) as cancelled:
        read(made)
    assert cancelled.value.reason is reason


def test_a_failed_row_raises_its_fault_after_its_events():
    fault = RowFault("sampler", "no")
    made = session()
    made.push(update(1, outcome=Failed(fault)))
    seen = []
    with pytest.raises(RowFault) as raised:
        read(made, seen)
    assert raised.value is fault
    assert seen == [1]


def test_a_reader_that_is_too_slow_is_cut_off():
    asked = []
    made = session(outbox=2, stopped=lambda session, reason: asked.append(reason))
    made.push(update(1, 2))
    assert asked == []
    made.push(update(3))
    made.push(update(4))
    assert asked == [CancelReason.SLOW_READER]


def test_an_answer_that_was_cut_off_never_looks_whole():
    asked = []
    made = session(outbox=1, stopped=lambda session, reason: asked.append(reason))
    made.push(update(1, 2, outcome=DONE))
    assert made.outcome == Stopped(CancelReason.SLOW_READER)
    assert asked == [], "there is nothing left to stop"
    with pytest.raises(Cancelled, match="faster"):
        read(made)


def test_no_more_events_are_kept_than_the_outbox_holds():
    made = session(outbox=2)
    for token in range(9):
        made.push(update(token, token))
    made.push(update(outcome=Stopped(CancelReason.SLOW_READER)))
    seen = []
    with pytest.raises(Cancelled):
        read(made, seen)
    assert seen == [0, 0]


def test_a_slow_reader_makes_nobody_else_wait():
    rig = Rig(outbox=3)
    slow = rig.submit(prompt(max_tokens=50))
    quick = rig.read(rig.submit(prompt(max_tokens=20)))
    rig.finish()
    assert slow.outcome == Stopped(CancelReason.SLOW_READER)
    assert len(quick.tokens) == 20


def test_a_report_has_nothing_for_phases_that_were_not_reached():
    report = session().report
    assert (report.queue_ms, report.prefill_ms, report.decode_ms) == (0, 0, 0)
