"""Who waits, who has a place, who is next. Shared by two threads behind one small lock.

The event loop offers and withdraws; the device thread takes, expires and gives places back.
Knows nothing of sessions or of the device.
"""

from __future__ import annotations

import itertools
import math
import threading
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from slipstream.contracts.clock import Clock
from slipstream.contracts.errors import InvalidRequest, QueueFull
from slipstream.contracts.limits import Limits
from slipstream.contracts.placement import Lane
from slipstream.contracts.report import LaneStats
from slipstream.contracts.row import RowSpec

AGING_SECONDS = 15.0  # one step of priority is worth this much waiting
SMOOTHING = 0.3  # weight of the newest row in the mean time that a place is held
LONGEST_RETRY = 60  # seconds


@dataclass(frozen=True, slots=True, order=True)
class Waiter:
    """Waiters are taken by `rank`: the arrival, moved AGING_SECONDS sooner per priority step.

    So it is FIFO within a priority, and none is passed by one that arrived more than
    AGING_SECONDS times the difference of their priorities (at most 60 s) after it.
    """

    rank: float
    order: int
    spec: RowSpec = field(compare=False)


@dataclass(slots=True)
class LanePlaces:
    places: int
    waiting: list[Waiter] = field(default_factory=list)
    active: int = 0
    submitted: int = 0

    @property
    def free(self) -> int:
        return self.places - self.active

    @property
    def unserved(self) -> int:
        """Waiters that no free place will take."""
        return max(0, len(self.waiting) - self.free)

    def stats(self) -> LaneStats:
        return LaneStats(active=self.active, max=self.places, submitted=self.submitted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Counts of one moment, consistent with each other."""

    group: LaneStats
    solo: LaneStats
    waiting: int
    rejected: int


class Admission:
    """Places on both lanes and the bounded queue before them. No method calls out of here."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._queue = limits.queue
        self._clock = clock
        self._lock = threading.Lock()
        self._orders = itertools.count()
        self._lanes = {Lane.GROUP: LanePlaces(limits.batch), Lane.SOLO: LanePlaces(1)}
        self._rejected = 0
        self._held_seconds = 0.0

    def offer(self, specs: Sequence[RowSpec]) -> None:
        """Lets the rows of one request, all on one lane, wait for places, or none of them.

        Raises QueueFull, and InvalidRequest for more than can ever wait; then holds nothing."""
        lane = self._lanes[specs[0].lane]
        if len(specs) > lane.places + self._queue:
            raise InvalidRequest(
                f"{len(specs)} choices are more than can run ({lane.places}) and wait "
                f"({self._queue}) here. Ask for fewer, or raise --batch or --queue.",
                param="n",
            )
        rank = self._clock.now() - AGING_SECONDS * specs[0].prompt.priority
        with self._lock:
            others = sum(each.unserved for each in self._lanes.values() if each is not lane)
            if others + max(0, len(lane.waiting) + len(specs) - lane.free) > self._queue:
                self._rejected += 1
                raise self._full(lane, len(specs))
            for spec in specs:
                insort(lane.waiting, Waiter(rank, next(self._orders), spec))
            lane.submitted += len(specs)

    def withdraw(self, spec: RowSpec) -> bool:
        """Takes one waiter out. False when it no longer waits: then it belongs to the device."""
        with self._lock:
            return remove(self._lanes[spec.lane].waiting, spec)

    def head(self) -> RowSpec | None:
        """The waiter whose turn it is, of all for whom their lane has a free place, or None."""
        with self._lock:
            heads = [lane.waiting[0] for lane in self._lanes.values() if lane.waiting and lane.free]
            return min(heads).spec if heads else None

    def take(self, spec: RowSpec) -> bool:
        """Gives a waiter a place, until `leave`. False when it has been withdrawn."""
        with self._lock:
            lane = self._lanes[spec.lane]
            assert lane.free > 0
            taken = remove(lane.waiting, spec)
            lane.active += taken
            return taken

    def leave(self, lane: Lane, held: float) -> None:
        """Gives a place back that was held for `held` seconds."""
        with self._lock:
            places = self._lanes[lane]
            places.active -= 1
            assert places.active >= 0
            known = self._held_seconds or held
            self._held_seconds = known + SMOOTHING * (held - known)

    def expire(self, now: float) -> list[RowSpec]:
        """Takes out, and returns, the waiters whose deadline has come."""
        return self._remove(now)

    def clear(self) -> list[RowSpec]:
        """Takes out, and returns, all waiters."""
        return self._remove(math.inf)

    def _remove(self, now: float) -> list[RowSpec]:
        with self._lock:
            removed = []
            for lane in self._lanes.values():
                removed += [w.spec for w in lane.waiting if w.spec.deadline <= now]
                lane.waiting = [w for w in lane.waiting if w.spec.deadline > now]
            return removed

    @property
    def waiting(self) -> int:
        with self._lock:
            return sum(len(lane.waiting) for lane in self._lanes.values())

    def occupancy(self) -> Occupancy:
        with self._lock:
            return Occupancy(
                group=self._lanes[Lane.GROUP].stats(),
                solo=self._lanes[Lane.SOLO].stats(),
                waiting=sum(len(lane.waiting) for lane in self._lanes.values()),
                rejected=self._rejected,
            )

    def _full(self, lane: LanePlaces, rows: int) -> QueueFull:
        """The refusal of `rows`, with the seconds in which the queue should let them in."""
        rounds = (len(lane.waiting) + rows) / lane.places
        error = QueueFull(
            f"As many requests wait as may wait (--queue {self._queue}). Try again later."
        )
        error.retry_after = min(LONGEST_RETRY, max(1, math.ceil(rounds * self._held_seconds)))
        return error


def remove(waiting: list[Waiter], spec: RowSpec) -> bool:
    """Takes the waiter with `spec` out. False when there is none."""
    for place, waiter in enumerate(waiting):
        if waiter.spec.key == spec.key:
            del waiting[place]
            return True
    return False
