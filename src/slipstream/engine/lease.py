"""Whose turn it is beside the rows: exclusive jobs, and jobs for idle moments.

Data of the device thread, not a lock: the driver asks it once a turn. Knows no rows.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

Job = Callable[[], T] | Generator[object, None, T]
"""A callable is one unit of work; of a generator, every step is one, and its return the result."""


def units(job: Job[T]) -> Generator[object, None, T]:
    """Any job as steps. Nothing runs before the first one."""
    if isinstance(job, Generator):
        return (yield from job)
    return job()


@dataclass(slots=True, eq=False)
class Work:
    """One job on its way. `future` belongs to the event loop, the rest to the device thread."""

    name: str
    steps: Generator[object, None, Any]
    future: asyncio.Future[Any]
    idle: bool = False
    begun: bool = field(default=False, init=False)


class Lease:
    """FIFO queues of jobs, and the one exclusive job that holds the device, if any.

    Between two exclusive jobs one ordinary turn is owed to the rows, so neither starves.
    """

    def __init__(self) -> None:
        self.held: Work | None = None
        self._exclusive: deque[Work] = deque()
        self._idle: deque[Work] = deque()
        self._owed = False

    def ask(self, work: Work) -> None:
        (self._idle if work.idle else self._exclusive).append(work)

    def take(self, busy: bool) -> Work | None:
        """The exclusive job to advance in this turn, or None: the turn belongs to the rows.

        Called once a turn. `busy`: rows run, or wait for a place."""
        if self.held is None:
            owed, self._owed = self._owed and busy, False
            if self._exclusive and not owed:
                self.held = self._exclusive.popleft()
        return self.held

    def next_idle(self) -> Work | None:
        """The job for an idle moment. It keeps its place at the head until it is finished."""
        return None if self._exclusive or not self._idle else self._idle[0]

    def remove(self, work: Work) -> bool:
        """Forgets `work` wherever it stands. False when it had left before."""
        if work is self.held:
            self.held = None
            self._owed = True
            return True
        queue = self._idle if work.idle else self._exclusive
        if work not in queue:
            return False
        queue.remove(work)
        return True

    @property
    def queued(self) -> list[Work]:
        """All jobs that do not hold the device, suspended idle ones too."""
        return [*self._exclusive, *self._idle]
