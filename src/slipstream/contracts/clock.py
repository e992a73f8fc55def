"""Time as the engine reads it, so that tests can turn the hands."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds; monotonic."""
        ...


class MonotonicClock:
    def now(self) -> float:
        return time.monotonic()
