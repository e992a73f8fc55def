"""The arithmetic of a load test, pure: percentiles, intervals, bounds, arrivals."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType

from slipstream.contracts.errors import UsageError

SHARES: Mapping[str, float] = MappingProxyType({"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99})
RESAMPLES = 2000
CONFIDENCE = 0.95
METRICS = ("ttft", "tpot", "gap", "e2e")
"""First token; time per output token; the longest gap between two pieces; the whole answer."""


def percentile(values: Sequence[float], share: float) -> float:
    """The value that a `share` of all do not exceed, interpolated between the two nearest ranks
    as numpy and most load tools do. `values` is not empty."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def spread(values: Sequence[float]) -> Mapping[str, float]:
    return {name: percentile(values, share) for name, share in SHARES.items()}


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and where it lies with 95% confidence. No interval from a single value."""

    value: float
    low: float | None
    high: float | None

    @property
    def sure_above_one(self) -> bool:
        return self.low is not None and self.low > 1

    @property
    def sure_below_one(self) -> bool:
        return self.high is not None and self.high < 1


def estimate(
    values: Sequence[float], of: Callable[[Sequence[float]], float] = statistics.fmean
) -> Estimate:
    """`of` the values of all rounds, with the percentile bootstrap's interval. Repeatable."""
    if len(values) < 2:
        return Estimate(of(values), None, None)
    chance = random.Random(0)
    drawn = [of(chance.choices(values, k=len(values))) for _ in range(RESAMPLES)]
    tail = (1 - CONFIDENCE) / 2
    return Estimate(of(values), percentile(drawn, tail), percentile(drawn, 1 - tail))


def ratio(firsts: Sequence[float], seconds: Sequence[float]) -> Estimate:
    """First over second, round by round: the geometric mean, so that A/B is one over B/A."""
    pairs = zip(firsts, seconds, strict=True)
    return estimate([one / two for one, two in pairs], statistics.geometric_mean)


@dataclass(frozen=True, slots=True)
class Bound:
    """A request is good while its `metric` is at most `limit` milliseconds."""

    metric: str
    limit: float


def bounds(texts: Sequence[str]) -> tuple[Bound, ...]:
    """From `ttft:500`, `ttft:500,tpot:50` and the like. Raises UsageError."""
    words = [word for text in texts for word in text.replace(",", " ").split()]
    return tuple(_bound(word) for word in words)


def _bound(word: str) -> Bound:
    metric, _, number = word.partition(":")
    try:
        limit = float(number)
    except ValueError:
        limit = math.nan
    if metric not in METRICS or not 0 < limit < math.inf:
        raise UsageError(
            f"--goodput {word}: write METRIC:MILLISECONDS, METRIC one of {', '.join(METRICS)}."
        )
    return Bound(metric, limit)


def meets(times: Mapping[str, float], limits: Sequence[Bound]) -> bool:
    """Whether `times` (milliseconds) keep all bounds. What a short answer has none of is kept."""
    return all(times.get(bound.metric, 0.0) <= bound.limit for bound in limits)


def arrivals(rate: float, seed: str) -> Iterator[float]:
    """Seconds from the start at which requests come: a Poisson process of `rate` a second."""
    chance = random.Random(seed)
    yield from accumulate(iter(lambda: chance.expovariate(rate), None))
