"""GET /admin/latency: how long clients waited in the last minute, as percentiles.

Exact over what is kept, where the histograms of /metrics are rough and count from the start.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from starlette.responses import Response
from starlette.types import Receive, Scope

from slipstream.contracts.clock import Clock
from slipstream.serve.wire import json_response

SPAN = 60.0  # seconds
MOST = 4096  # waits of one kind that are kept
RANKS = (50, 95, 99)


class Wait(NamedTuple):
    """`seconds` long, and over at `at` on the clock of whoever keeps it. Made for each token."""

    at: float
    seconds: float


class Waits:
    """The newest waits of one kind, at most `most`."""

    def __init__(self, most: int = MOST) -> None:
        self._kept: deque[Wait] = deque(maxlen=most)

    def add(self, at: float, seconds: float) -> None:
        self._kept.append(Wait(at, seconds))

    def since(self, start: float) -> Sequence[float]:
        """Seconds of those that were over after `start`, rising."""
        return sorted(wait.seconds for wait in self._kept if wait.at > start)


class Latency:
    """First tokens and gaps of all requests that generate."""

    def __init__(self, clock: Clock) -> None:
        self.first_tokens = Waits()
        self.gaps = Waits()
        self._clock = clock

    async def show(self, scope: Scope, receive: Receive) -> Response:
        start = self._clock.now() - SPAN
        return json_response(
            {
                "span_s": SPAN,
                "first_token_ms": summary(self.first_tokens.since(start)),
                "gap_ms": summary(self.gaps.since(start)),
            }
        )


def summary(waits: Sequence[float]) -> Mapping[str, Any]:
    """`waits` in seconds, rising; percentiles in milliseconds, null where there are none."""
    return {
        "count": len(waits),
        **{f"p{rank}": milliseconds(percentile(waits, rank)) for rank in RANKS},
    }


def percentile(rising: Sequence[float], rank: int) -> float | None:
    """The smallest that at least `rank` per cent do not exceed (the nearest rank)."""
    return rising[math.ceil(len(rising) * rank / 100) - 1] if rising else None


def milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 2)
