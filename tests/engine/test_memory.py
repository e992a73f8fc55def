"""P4: bytes are promised in order; what does not fit now waits, what never fits is told so."""

import pytest

from slipstream.contracts.errors import ContextExceeded, InvalidRequest, OverBudget, RowFault
from slipstream.contracts.placement import Abilities
from slipstream.contracts.row import CancelReason, Failed, Finished, Stopped
from slipstream.testing.backend import FakeBackend, solo_run

from .rig import Faults, Rig, choices, prompt, solo


def held_to(budget, **fields):
    """An engine whose rows may hold `budget` bytes, one for each token."""
    return Rig(FakeBackend(kv_budget=budget, **fields))


def sized(tokens, ask=prompt, **fields):
    """Asks for a row of `tokens` bytes."""
    return ask(1, 2, 3, max_tokens=tokens - 3, **fields)


def active(rig):
    stats = rig.desk.stats()
    return stats.group.active, stats.solo.active, stats.waiting


def test_rows_run_together_up_to_the_budget():
    rig = held_to(100)
    readers = [rig.read(rig.submit(sized(40))) for _ in range(3)]
    rig.turn()
    assert active(rig) == (2, 0, 1)
    rig.finish()
    assert [len(reader.tokens) for reader in readers] == [37] * 3


def test_without_a_budget_bytes_are_no_bound():
    rig = held_to(0)
    for _ in range(3):
        rig.submit(sized(40))
    rig.turn()
    assert active(rig) == (3, 0, 0)
    rig.finish()


def test_both_lanes_draw_on_one_budget():
    rig = held_to(100)
    rig.submit(sized(60))
    rig.submit(sized(60, solo))
    rig.turn()
    assert active(rig) == (1, 0, 1)
    rig.finish()


@pytest.mark.parametrize("big", [prompt, solo])
@pytest.mark.parametrize("small", [prompt, solo])
def test_a_small_newcomer_does_not_overtake_a_big_one_that_waits_for_bytes(big, small):
    rig = held_to(100)
    rig.submit(sized(50))
    rig.turn()
    first, second = rig.submit(sized(90, big)), rig.submit(sized(20, small))
    rig.turn()
    assert active(rig) == (1, 0, 2)
    rig.finish()
    assert first.progress.admitted <= second.progress.admitted


def test_a_stream_of_small_rows_does_not_starve_a_big_one():
    rig = held_to(100)
    rig.submit(sized(30))
    rig.turn()
    big = rig.submit(sized(100))
    turns = 0
    while big.progress.admitted is None:
        rig.submit(sized(30))
        rig.turn()
        turns += 1
    assert turns <= 30
    rig.finish()


def test_a_waiter_of_higher_priority_goes_before_one_that_waits_for_bytes():
    rig = held_to(100)
    rig.submit(sized(50))
    rig.turn()
    rig.submit(sized(90))
    urgent = rig.submit(sized(20, priority=2))
    rig.turn()
    assert urgent.progress.admitted is not None
    rig.finish()


def test_a_lane_without_a_place_does_not_hold_up_the_other():
    rig = held_to(100)
    rig.submit(sized(30, solo))
    rig.turn()
    rig.submit(sized(90, solo))
    beside = rig.submit(sized(20))
    rig.turn()
    assert beside.progress.admitted is not None
    rig.finish()


def test_a_row_that_ends_gives_its_bytes_to_the_next_in_the_same_turn():
    rig = held_to(100)
    first = rig.submit(sized(80))
    rig.turn(3)
    second = rig.submit(sized(80))
    rig.turn()
    first.cancel(CancelReason.DISCONNECT)
    rig.turn()
    assert second.progress.admitted is not None
    rig.finish()


@pytest.mark.parametrize("moment", ["open", "draw"])
def test_a_row_that_fails_gives_its_bytes_back(moment):
    rig = held_to(100, fault=Faults().at(moment, 1))
    failed, after = (rig.read(rig.submit(sized(90))) for _ in range(2))
    rig.finish()
    assert isinstance(failed.session.outcome, Failed)
    assert after.tokens == solo_run(after.session.spec.prompt)


def test_one_that_waits_for_bytes_can_be_cancelled():
    rig = held_to(100)
    rig.submit(sized(60))
    waiting, behind = rig.submit(sized(90)), rig.submit(sized(30))
    rig.turn()
    waiting.cancel(CancelReason.DISCONNECT)
    rig.turn()
    assert waiting.outcome == Stopped(CancelReason.DISCONNECT)
    assert behind.progress.admitted is not None
    rig.finish()


def test_one_that_waits_for_bytes_ends_at_its_deadline():
    rig = Rig(FakeBackend(kv_budget=100), request_timeout=5.0)
    rig.submit(sized(60))
    rig.turn()
    waiting = rig.submit(sized(90))
    rig.turn()
    rig.clock.advance(5.0)
    rig.finish()
    assert waiting.outcome == Stopped(CancelReason.DEADLINE)


def test_what_an_empty_device_cannot_hold_fails_at_once_and_alone():
    rig = held_to(100)
    rig.submit(sized(50))
    rig.turn()
    huge, after = rig.read(rig.submit(sized(101))), rig.submit(sized(40))
    rig.turn()
    assert type(huge.error) is OverBudget
    assert huge.error.code == "context_length_exceeded"
    assert after.progress.admitted is not None
    rig.finish()


def test_a_projection_that_raises_fails_its_request_only():
    rig = held_to(100, fault=Faults().at("project", 1))
    failed, after = (rig.read(rig.submit(sized(20))) for _ in range(2))
    rig.finish()
    assert isinstance(failed.error, RowFault)
    assert isinstance(after.session.outcome, Finished)


def test_choices_are_promised_their_bytes_one_by_one():
    rig = held_to(100)
    readers = rig.submit_all(choices(3, 1, 2, 3, max_tokens=40))
    rig.turn()
    assert active(rig) == (2, 0, 1)
    rig.finish()
    assert [len(reader.tokens) for reader in readers] == [40] * 3


def test_an_answer_longer_than_memory_is_refused_with_the_numbers():
    rig = Rig(FakeBackend(abilities=Abilities(context=100)))
    with pytest.raises(InvalidRequest, match=r"3 tokens .* 98, .* 100 .* at most 97") as refusal:
        rig.submit(sized(101))
    assert (refusal.value.param, refusal.value.code) == ("max_tokens", "context_length_exceeded")
    rig.submit(sized(100))
    rig.finish()


def test_a_prompt_longer_than_memory_is_refused_with_the_numbers():
    rig = Rig(FakeBackend(abilities=Abilities(context=100)))
    with pytest.raises(ContextExceeded, match=r"100 tokens.*holds 100.*--kv-budget") as refusal:
        rig.submit(prompt(*range(100), max_tokens=1))
    assert refusal.value.param == "prompt"
    rig.finish()
