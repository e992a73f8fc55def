"""I4, on the queue: FIFO within a priority, nothing starves, a cancel removes only its own."""

import math

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from slipstream.contracts.errors import InvalidRequest, QueueFull
from slipstream.contracts.limits import Limits
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import RowSpec
from slipstream.engine.admission import AGING_SECONDS, Admission
from slipstream.testing.clock import ManualClock

from .rig import prompt


def made(**limits):
    clock = ManualClock()
    return Admission(Limits(**limits), clock), clock


def spec(key, priority=0, lane=Lane.GROUP, deadline=math.inf):
    asked = prompt(priority=priority)
    return RowSpec(key=key, lane=lane, prompt=asked, deadline=deadline)


def take(admission):
    """The waiter whose turn it is, in its place."""
    waiter = admission.head()
    assert waiter is None or admission.take(waiter)
    return waiter


def taken(admission):
    """Everything in the order in which it gets the place."""
    keys = []
    while waiter := take(admission):
        keys.append(waiter.key)
        admission.leave(waiter.lane, 1.0)
    return keys


def test_equal_priorities_are_served_in_order_of_arrival():
    admission, _ = made(batch=1)
    for key in range(5):
        admission.offer([spec(key)])
    assert taken(admission) == [0, 1, 2, 3, 4]


def test_higher_priorities_are_served_sooner():
    admission, _ = made(batch=1)
    for key, priority in enumerate((0, -2, 2, 1, -1, 2)):
        admission.offer([spec(key, priority)])
    assert taken(admission) == [2, 5, 3, 0, 4, 1]


def test_the_lowest_waits_no_longer_than_its_bound_for_the_highest():
    admission, clock = made(batch=1)
    admission.offer([spec(0, -2)])
    clock.advance(4 * AGING_SECONDS - 1)
    admission.offer([spec(1, 2)])
    clock.advance(2)
    admission.offer([spec(2, 2)])
    assert taken(admission) == [1, 0, 2]


def test_no_more_are_served_at_once_than_there_are_places():
    admission, _ = made(batch=2)
    for key in range(3):
        admission.offer([spec(key)])
    assert [take(admission) is not None for _ in range(3)] == [True, True, False]
    admission.leave(Lane.GROUP, 1.0)
    assert take(admission).key == 2


def test_the_lanes_do_not_wait_for_each_other():
    admission, _ = made(batch=1)
    for key, lane in enumerate((Lane.SOLO, Lane.SOLO, Lane.GROUP)):
        admission.offer([spec(key, lane=lane)])
    assert take(admission).key == 0
    assert take(admission).key == 2
    assert take(admission) is None


def test_of_two_lanes_with_a_place_the_earlier_waiter_is_next():
    admission, _ = made(batch=1)
    for key, lane in enumerate((Lane.GROUP, Lane.SOLO)):
        admission.offer([spec(key, lane=lane)])
    admission.offer([spec(2, 2, lane=Lane.SOLO)])
    assert taken(admission) == [2, 0, 1]


def test_looking_at_the_head_takes_nothing():
    admission, _ = made(batch=1)
    admission.offer([spec(0)])
    assert admission.head() is admission.head()
    assert (admission.waiting, admission.occupancy().group.active) == (1, 0)


def test_a_waiter_that_left_after_it_was_seen_takes_no_place():
    admission, _ = made(batch=1)
    admission.offer([spec(0)])
    head = admission.head()
    admission.withdraw(head)
    assert not admission.take(head)
    assert admission.occupancy().group.active == 0


def test_a_waiter_that_a_free_place_will_take_does_not_count_as_queued():
    admission, _ = made(batch=2, queue=0)
    admission.offer([spec(0)])
    admission.offer([spec(1)])
    with pytest.raises(QueueFull):
        admission.offer([spec(2)])


def test_one_more_than_may_wait_is_refused_and_counted():
    admission, _ = made(batch=1, queue=2)
    for key in range(3):
        admission.offer([spec(key)])
    with pytest.raises(QueueFull, match="--queue 2"):
        admission.offer([spec(3)])
    assert admission.occupancy().rejected == 1
    assert taken(admission) == [0, 1, 2]


def test_the_rows_of_a_request_wait_all_or_none():
    admission, _ = made(batch=2, queue=2)
    admission.offer([spec(0)])
    with pytest.raises(QueueFull):
        admission.offer([spec(key) for key in range(1, 5)])
    assert (admission.waiting, admission.occupancy().rejected) == (1, 1)
    admission.offer([spec(key) for key in range(1, 4)])
    assert taken(admission) == [0, 1, 2, 3]


def test_more_rows_than_can_ever_wait_are_no_matter_of_patience():
    admission, _ = made(batch=2, queue=1)
    with pytest.raises(InvalidRequest, match=r"4 choices .*--batch") as refusal:
        admission.offer([spec(key) for key in range(4)])
    assert refusal.value.param == "n"
    with pytest.raises(InvalidRequest):
        admission.offer([spec(key, lane=Lane.SOLO) for key in range(3)])
    assert admission.occupancy().rejected == 0


def test_a_refusal_says_when_the_queue_should_have_passed():
    admission, _ = made(batch=2, queue=2)
    admission.offer([spec(0)])
    take(admission)
    admission.leave(Lane.GROUP, 6.0)
    for key in range(1, 3):
        admission.offer([spec(key)])
        take(admission)
    for key in range(3, 5):
        admission.offer([spec(key)])
    with pytest.raises(QueueFull) as refusal:
        admission.offer([spec(5)])
    assert refusal.value.retry_after == 9  # 3 ahead, 2 at a time, 6 s each


def test_withdrawing_takes_out_only_that_waiter():
    admission, _ = made(batch=1)
    waiters = [spec(key) for key in range(3)]
    for waiter in waiters:
        admission.offer([waiter])
    assert admission.withdraw(waiters[1])
    assert not admission.withdraw(waiters[1])
    assert taken(admission) == [0, 2]


def test_what_has_been_taken_cannot_be_withdrawn():
    admission, _ = made()
    waiter = spec(0)
    admission.offer([waiter])
    take(admission)
    assert not admission.withdraw(waiter)
    assert admission.occupancy().group.active == 1


def test_the_expired_leave_at_once():
    admission, _ = made(batch=1)
    for key, deadline in enumerate((5.0, 9.0, 7.0)):
        admission.offer([spec(key, deadline=deadline)])
    assert [waiter.key for waiter in admission.expire(7.0)] == [0, 2]
    assert taken(admission) == [1]


class Queue(RuleBasedStateMachine):
    """Against a plain list that is sorted anew each time."""

    def __init__(self):
        super().__init__()
        self.admission, self.clock = made(batch=2, queue=3)
        self.waiting: list[tuple[float, int, RowSpec]] = []
        self.active = 0
        self.key = 0

    @rule(priority=st.integers(-2, 2), rows=st.integers(1, 5))
    def offer(self, priority, rows):
        asked = [spec(self.key + n, priority) for n in range(1, rows + 1)]
        self.key += rows
        fits = len(self.waiting) + rows - (2 - self.active) <= 3
        try:
            self.admission.offer(asked)
        except QueueFull:
            assert not fits
        else:
            assert fits
            rank = self.clock.now() - priority * AGING_SECONDS
            self.waiting += [(rank, each.key, each) for each in asked]

    @rule()
    def take_one(self):
        got = take(self.admission)
        if self.active == 2 or not self.waiting:
            assert got is None
        else:
            best = min(self.waiting, key=lambda waiter: waiter[:2])
            assert got is best[2]
            self.waiting.remove(best)
            self.active += 1

    @precondition(lambda self: self.active)
    @rule()
    def leave(self):
        self.admission.leave(Lane.GROUP, 1.0)
        self.active -= 1

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def withdraw(self, data):
        waiter = data.draw(st.sampled_from(self.waiting))
        assert self.admission.withdraw(waiter[2])
        self.waiting.remove(waiter)

    @rule(seconds=st.integers(0, 40))
    def wait(self, seconds):
        self.clock.advance(seconds)

    @invariant()
    def the_counts_agree(self):
        occupancy = self.admission.occupancy()
        assert occupancy.waiting == self.admission.waiting == len(self.waiting)
        assert occupancy.group.active == self.active


TestQueue = Queue.TestCase
