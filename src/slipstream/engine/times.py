"""Where the time of the device thread goes: laps of a turn, and their sums over all turns."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path

from slipstream.contracts.clock import Clock
from slipstream.contracts.report import TurnTimes

log = logging.getLogger(__name__)
Tell = Callable[[int, TurnTimes], None]
"""Takes the number of a turn and its times, on the device thread. Never raises."""


class Phase(StrEnum):
    """The fields of TurnTimes."""

    ADMIT = "admit"
    PREFILL = "prefill"
    STEP = "step"
    JOB = "job"
    PUBLISH = "publish"
    IDLE = "idle"


class Times:
    """Every moment since it was made belongs to one lap."""

    def __init__(self, clock: Clock, tell: Tell | None) -> None:
        self._clock = clock
        self._tell = tell
        self._since = clock.now()
        self._turn = dict.fromkeys(Phase, 0.0)
        self._sum = dict.fromkeys(Phase, 0.0)
        self._turns = 0

    def lap(self, phase: Phase) -> None:
        """Books all time since the last lap."""
        now = self._clock.now()
        self._turn[phase] += now - self._since
        self._sum[phase] += now - self._since
        self._since = now

    def end(self) -> None:
        """Of a turn."""
        self._turns += 1
        if self._tell is not None:
            self._tell(self._turns, TurnTimes(**self._turn))
        self._turn = dict.fromkeys(Phase, 0.0)

    @property
    def total(self) -> TurnTimes:
        return TurnTimes(**self._sum)


class TurnLog:
    """A Tell that writes one line of JSON a turn, times in milliseconds.

    A disk that does not take it ends the log and nothing else. Raises OSError when the file
    cannot be made."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def __call__(self, turn: int, times: TurnTimes) -> None:
        if self._file.closed:
            return
        spent = {f"{name}_ms": round(value * 1000, 4) for name, value in asdict(times).items()}
        try:
            self._file.write(json.dumps({"turn": turn, **spent}) + "\n")
        except OSError as error:
            log.warning("the log of turns ends: %s", error)
            self.close()

    def close(self) -> None:
        """Writes out what is held back. Idempotent."""
        try:
            self._file.close()
        except OSError as error:
            log.warning("the log of turns lacks its end: %s", error)
