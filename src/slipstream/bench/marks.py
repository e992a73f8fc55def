"""When tokens came, and the rate that follows from it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Marks:
    """One stream: when it was asked for, and (time, tokens) of each piece. Seconds."""

    asked: float
    pieces: list[tuple[float, int]] = field(default_factory=list)

    @property
    def first(self) -> float:
        return self.pieces[0][0]

    @property
    def last(self) -> float:
        return self.pieces[-1][0]


def decode_rate(streams: Sequence[Marks]) -> float:
    """Tokens per second of all streams, while all of them run: after the last one's first token,
    until the first one's last."""
    start = max(stream.first for stream in streams)
    stop = min(stream.last for stream in streams)
    tokens = sum(
        count for stream in streams for when, count in stream.pieces if start < when <= stop
    )
    return tokens / (stop - start)


def first_token_ms(streams: Sequence[Marks]) -> float:
    """Median time from asking to the first token, in milliseconds."""
    return statistics.median((stream.first - stream.asked) * 1000 for stream in streams)
