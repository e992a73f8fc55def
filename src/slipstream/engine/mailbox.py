"""The one crossing between the event loop and the device thread, in both directions.

Inward: messages that the device thread takes at the start of a turn, and sleeps on.
Outward: once per turn, what happened to all rows. Does not know what the messages do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from slipstream.contracts.placement import Abilities
from slipstream.contracts.report import EngineStats
from slipstream.contracts.row import CancelReason, Outcome, TokenEvent
from slipstream.engine.lease import Work


@dataclass(frozen=True, slots=True)
class Wake:
    """A request waits in the admission."""


@dataclass(frozen=True, slots=True)
class Cancel:
    key: int
    reason: CancelReason


@dataclass(frozen=True, slots=True)
class Ask:
    work: Work


@dataclass(frozen=True, slots=True)
class Abandon:
    """Nobody awaits the job any more."""

    work: Work


@dataclass(frozen=True, slots=True)
class Close:
    """Rows may run until `deadline` (engine's clock); the rest ends at once."""

    deadline: float


Message = Wake | Cancel | Ask | Abandon | Close


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a row is: moments on the engine's clock in seconds, None where not reached."""

    admitted: float | None = None
    first: float | None = None  # token
    last: float | None = None
    parked: tuple[float, ...] = ()  # when exclusive work made it rest
    cached: int = 0
    computed: int = 0  # tokens of its prompt, cached ones included
    generated: int = 0
    rows_peak: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What one turn did for one row. `outcome` is set once, on the row's last update."""

    key: int
    progress: Progress
    events: tuple[TokenEvent, ...] = ()
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A job's end: its value, or the error of its own."""

    work: Work
    value: Any = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    updates: Sequence[Update]
    settled: Sequence[Settled]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the device thread knows of itself after a turn."""

    stats: EngineStats = field(default_factory=EngineStats)
    abilities: Abilities = field(default_factory=Abilities)


class Mailbox:
    """`outward` is called on the device thread and must hand the delivery to the loop."""

    def __init__(self, outward: Callable[[Delivery], None]) -> None:
        self._outward = outward
        self._filled = threading.Condition()
        self._inbox: list[Message] = []
        self.snapshot = Snapshot()

    def post(self, message: Message) -> None:
        with self._filled:
            self._inbox.append(message)
            self._filled.notify()

    def drain(self) -> Sequence[Message]:
        """All messages, in the order in which they were posted."""
        with self._filled:
            taken, self._inbox = self._inbox, []
            return taken

    def wait(self, most: float | None = None) -> None:
        """Sleeps until there is a message, or for `most` seconds."""
        with self._filled:
            self._filled.wait_for(lambda: self._inbox, most)

    def publish(self, snapshot: Snapshot, delivery: Delivery) -> None:
        """The snapshot first: who sees a session's end sees the counts after it."""
        self.snapshot = snapshot
        if delivery.updates or delivery.settled:
            self._outward(delivery)
