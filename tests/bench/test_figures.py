"""The arithmetic of load tests against slow and plain twins."""

from __future__ import annotations

import statistics
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.bench.figures import (
    Bound,
    arrivals,
    bounds,
    estimate,
    meets,
    percentile,
    ratio,
)
from slipstream.contracts.errors import UsageError

VALUES = st.lists(st.floats(0, 1e6), min_size=1, max_size=30)


@settings(deadline=None)
@given(VALUES, st.floats(0, 1))
def test_percentiles_are_numpys(values: list[float], share: float) -> None:
    assert percentile(values, share) == pytest.approx(float(np.quantile(values, share)))


@settings(deadline=None)
@given(VALUES)
def test_an_interval_lies_within_the_values_and_is_repeatable(values: list[float]) -> None:
    made = estimate(values)
    assert made == estimate(values)
    if len(values) > 1:
        assert made.low is not None and made.high is not None
        slack = 1e-9 * max(values)
        assert min(values) - slack <= made.low <= made.high <= max(values) + slack


def test_one_round_has_no_interval() -> None:
    made = estimate([3.0])
    assert (made.value, made.low, made.high) == (3.0, None, None)
    assert not made.sure_above_one and not made.sure_below_one


def test_an_interval_holds_the_mean_about_as_often_as_it_says() -> None:
    chance = np.random.default_rng(1)
    made = [estimate(list(chance.normal(10, 2, size=20))) for _ in range(60)]
    assert sum(one.low <= 10 <= one.high for one in made) >= 50


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=1, max_size=8))
def test_a_ratio_turned_round_is_its_inverse(pairs: list[tuple[float, float]]) -> None:
    ones, twos = [one for one, _ in pairs], [two for _, two in pairs]
    assert ratio(ones, twos).value == pytest.approx(1 / ratio(twos, ones).value)


def test_a_ratio_is_sure_when_all_rounds_agree() -> None:
    assert ratio([2.0, 2.2, 1.9], [1.0, 1.0, 1.0]).sure_above_one
    assert ratio([1.0, 1.0, 1.0], [2.0, 2.2, 1.9]).sure_below_one
    even = ratio([1.0, 1.2, 0.8], [1.0, 1.0, 1.0])
    assert not even.sure_above_one and not even.sure_below_one


def test_bounds_are_read_in_every_form() -> None:
    expected = (Bound("ttft", 500.0), Bound("tpot", 50.0), Bound("e2e", 2000.0))
    assert bounds(["ttft:500,tpot:50", "e2e:2000"]) == expected
    assert bounds(["ttft:500 tpot:50 e2e:2e3"]) == expected


@pytest.mark.parametrize("text", ["ttft", "ttft:", "ttft:fast", "speed:5", "ttft:-1", "tpot:nan"])
def test_a_bound_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match="--goodput"):
        bounds([text])


def test_a_request_is_good_when_it_keeps_all_bounds() -> None:
    limits = bounds(["ttft:500,tpot:50"])
    assert meets({"ttft": 500.0, "tpot": 50.0}, limits)
    assert not meets({"ttft": 500.1, "tpot": 1.0}, limits)
    assert not meets({"ttft": 1.0, "tpot": 50.1}, limits)


def test_what_an_answer_of_one_token_has_none_of_is_kept() -> None:
    assert meets({"ttft": 5.0}, bounds(["tpot:50"]))


def test_arrivals_are_the_same_for_the_same_seed_only() -> None:
    first, again, other = (list(islice(arrivals(2.0, seed), 20)) for seed in ("a", "a", "b"))
    assert first == again != other


def test_arrivals_come_at_the_rate_with_gaps_as_varied_as_their_mean() -> None:
    gaps = [b - a for a, b in pairwise(islice(arrivals(4.0, "seed"), 5000))]
    assert statistics.fmean(gaps) == pytest.approx(0.25, rel=0.05)
    assert statistics.pstdev(gaps) == pytest.approx(0.25, rel=0.08)
    assert min(gaps) >= 0
