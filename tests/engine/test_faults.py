"""P5: a fault ends the row that is guilty of it, and nothing else."""

import pytest

from slipstream.contracts.errors import Fault, ForwardFault, RowFault
from slipstream.contracts.row import Failed
from slipstream.testing.backend import FakeBackend, solo_run

from .rig import Faults, Rig, prompt, solo


def three(faults, **limits):
    """Three rows among which faults happen, each with its reader."""
    rig = Rig(FakeBackend(fault=faults), **limits)
    asked = [prompt(n, n + 1, n + 2, max_tokens=8, seed=n) for n in (10, 20, 30)]
    return rig, [rig.read(rig.submit(each)) for each in asked]


def assert_whole(reader):
    assert reader.error is None
    assert reader.tokens == solo_run(reader.session.spec.prompt)


@pytest.mark.parametrize("moment", ["launch", "collect"])
@pytest.mark.parametrize("nth", range(1, 9))
def test_a_passing_fault_of_a_forward_costs_nobody_a_token(moment, nth):
    rig, readers = three(Faults().at(moment, nth))
    rig.finish()
    for reader in readers:
        assert_whole(reader)


@pytest.mark.parametrize("moment", ["launch", "collect"])
def test_the_guilty_row_of_a_forward_fails_and_the_others_go_on(moment):
    guilty = lambda prompts: any(each.ids[0] == 20 for each in prompts)  # noqa: E731
    rig, (first, second, third) = three(Faults().always(moment, guilty))
    rig.finish()
    assert isinstance(second.error, ForwardFault)
    assert isinstance(second.session.outcome, Failed)
    assert_whole(first)
    assert_whole(third)


def test_rows_that_fail_only_together_are_still_served():
    rig, readers = three(Faults().always("launch", lambda prompts: len(prompts) > 1))
    rig.finish()
    for reader in readers:
        assert_whole(reader)


def test_a_device_that_always_fails_fails_every_row_and_then_the_driver_rests():
    rig, readers = three(Faults().always("collect", lambda prompts: True))
    rig.finish()
    assert all(isinstance(reader.error, Fault) for reader in readers)
    assert rig.desk.stats().finish == {"forward_fault": 3}


def test_a_row_that_failed_leaves_nothing_in_flight():
    rig = Rig(FakeBackend(fault=Faults().at("collect", 1).at("rewind", 1)))
    rig.submit()
    assert rig.turn() is True
    assert rig.turn() is False
    rig.finish()


def test_rows_step_together_again_once_they_are_cleared():
    rig, _ = three(Faults().at("launch", 3))
    rig.finish()
    assert max(len(plan) for plan in rig.backend.plans[6:]) == 3


def test_a_faulty_draw_ends_its_row_only():
    rig, (first, second, third) = three(
        Faults().always("draw", lambda prompts: prompts[0].ids[0] == 20)
    )
    rig.finish()
    assert isinstance(second.error, RowFault)
    assert second.error.part == "sampler"
    assert_whole(first)
    assert_whole(third)


def test_a_row_that_does_not_open_fails_alone_and_gives_its_place_back():
    rig, (first, second, third) = three(Faults().at("open", 1), batch=1)
    rig.finish()
    assert isinstance(first.error, RowFault)
    assert_whole(second)
    assert_whole(third)


def test_a_row_that_cannot_be_rewound_fails_alone():
    rig, readers = three(Faults().at("launch", 4).at("rewind", 2))
    rig.finish()
    assert isinstance(readers[1].error, ForwardFault)
    assert_whole(readers[0])
    assert_whole(readers[2])


def test_a_fault_in_parking_is_a_fault_of_a_forward():
    rig, readers = three(Faults().at("park", 1))
    rig.turn(3)
    task = rig.exclusive(lambda: "done")
    rig.finish()
    assert task.result() == "done"
    for reader in readers:
        assert_whole(reader)


def test_a_newcomer_joins_while_suspects_are_retried():
    faults = Faults().at("collect", 3)
    rig, readers = three(faults, prefill_chunk=2)
    rig.until(lambda: "rewind" in faults.counts)
    readers.append(rig.read(rig.submit(prompt(40, 41, max_tokens=5))))
    rig.finish()
    for reader in readers:
        assert_whole(reader)


def test_a_fault_on_the_solo_lane_leaves_the_group_alone():
    faults = Faults().always("launch", lambda prompts: prompts[0].ids[0] == 9)
    rig = Rig(FakeBackend(fault=faults))
    alone = rig.read(rig.submit(solo(9, max_tokens=5)))
    other = rig.read(rig.submit(prompt(4, 5, max_tokens=9)))
    rig.finish()
    assert isinstance(alone.error, Fault)
    assert_whole(other)


@pytest.mark.parametrize("nth", range(1, 12))
def test_a_solo_row_may_end_in_the_turn_in_which_the_group_fails(nth):
    rig = Rig(FakeBackend(fault=Faults().at("launch", nth)))
    group = rig.read(rig.submit(prompt(4, 5, max_tokens=9)))
    third = solo_run(prompt(9, max_tokens=3))[2]
    alone = rig.read(rig.submit(solo(9, max_tokens=50, stop_ids=frozenset({third}))))
    rig.finish()
    assert_whole(group)
    assert_whole(alone)


def test_a_row_is_rewound_once_when_its_launches_fail_one_after_the_other():
    faults = Faults().at("launch", 3).at("collect", 2)
    rig, readers = three(faults)
    rig.finish()
    assert faults.counts["rewind"] == 3
    for reader in readers:
        assert_whole(reader)


def test_after_any_fault_the_next_request_works():
    rig, _ = three(Faults().at("collect", 1).at("launch", 2).at("launch", 3).at("collect", 2))
    rig.run()
    later = rig.read(rig.submit())
    rig.finish()
    assert_whole(later)


class Forgetful(FakeBackend):
    """Cannot say how much memory it uses, a few times."""

    failures = 0

    def memory(self):
        if self.failures:
            self.failures -= 1
            raise OSError("no such counter")
        return super().memory()


def test_an_exception_from_nowhere_is_survived():
    rig = Rig(Forgetful())
    reader = rig.read(rig.submit(prompt(max_tokens=9)))
    rig.turn(3)
    rig.backend.failures = 1
    rig.finish()
    assert_whole(reader)


def test_an_exception_from_nowhere_and_then_a_fault_are_survived():
    rig = Rig(Forgetful(fault=Faults().at("collect", 4)))
    reader = rig.read(rig.submit(prompt(max_tokens=9)))
    rig.turn(3)
    rig.backend.failures = 1
    rig.finish()
    assert_whole(reader)


def test_an_exception_that_comes_again_and_again_ends_the_rows_it_meets():
    rig = Rig(Forgetful(), prefill_chunk=1)
    reader = rig.read(rig.submit(prompt(*range(1, 30), max_tokens=9)))
    rig.turn(3)
    rig.backend.failures = 2
    rig.finish()
    assert isinstance(reader.error, ForwardFault)


class Clinging(FakeBackend):
    """Frees the row, and then complains about it."""

    def release(self, row):
        super().release(row)
        raise OSError("it stuck")


def test_a_release_that_raises_does_not_hurt_the_next_row():
    rig = Rig(Clinging(), batch=1)
    readers = [rig.read(rig.submit()) for _ in range(2)]
    rig.finish()
    for reader in readers:
        assert_whole(reader)
