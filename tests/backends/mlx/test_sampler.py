"""The pipeline over a whole group equals the one-row reference, row by row."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.backends.mlx.draw import NARROW, Draw, draw, likeliest, ranked
from slipstream.backends.mlx.row import DeviceRow, Tail
from slipstream.backends.mlx.sampler import Sampler
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import Prompt, RowSpec
from slipstream.contracts.sampling import Sampling

from . import reference

VOCABULARY = 61
BIG = 5000  # large enough for the search that avoids a full sort
ENDS = frozenset({2, 7})
NEAR = 1e-4  # shares this near to the uniform may round either way


def maybe(strategy: st.SearchStrategy[float], neutral: float) -> st.SearchStrategy[float]:
    return st.one_of(strategy, strategy, st.just(neutral))


samplings = st.builds(
    Sampling,
    temperature=maybe(st.floats(0.2, 2.0), 0.0),
    top_p=maybe(st.floats(0.05, 0.99), 1.0),
    top_k=maybe(st.integers(1, 80), 0),
    min_p=maybe(st.floats(0.01, 0.9), 0.0),
    xtc_probability=maybe(st.floats(0.1, 1.0), 0.0),
    xtc_threshold=st.floats(0.01, 0.3),
    repetition_penalty=maybe(st.floats(0.5, 2.0), 1.0),
    repetition_context_size=st.sampled_from([0, 1, 3, 20]),
    presence_penalty=maybe(st.floats(-2, 2), 0.0),
    presence_context_size=st.sampled_from([0, 1, 3]),
    frequency_penalty=maybe(st.floats(-2, 2), 0.0),
    frequency_context_size=st.sampled_from([0, 1, 3]),
    logit_bias=st.dictionaries(st.integers(0, VOCABULARY - 1), st.floats(-5, 5), max_size=3),
    seed=st.integers(0, 2**63 - 1),
    min_tokens=st.sampled_from([0, 0, 2, 5]),
)


class OneMask:
    """A matcher that always allows the same tokens."""

    def __init__(self, allowed: np.ndarray) -> None:
        self.bits = np.packbits(np.pad(allowed, (0, -len(allowed) % 32)), bitorder="little")


def row_of(key: int, sampling: Sampling, prompt: list[int], logprobs: int | None) -> DeviceRow:
    made = Prompt(
        ids=tuple(prompt), max_tokens=50, sampling=sampling, stop_ids=ENDS, logprobs=logprobs
    )
    row = DeviceRow(RowSpec(key=key, lane=Lane.GROUP, prompt=made, deadline=0.0), [])
    row.computed = row.known
    return row


rows = st.lists(
    st.tuples(
        samplings,
        st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=12),
        st.sampled_from([None, 0, 3, 20]),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=150, deadline=None)
@given(setups=rows, noise=st.integers(0, 2**31), steps=st.integers(1, 5), wait=st.booleans())
def test_a_group_draws_and_ranks_what_each_row_would_alone(
    setups: list[tuple[Sampling, list[int], int | None, bool]], noise: int, steps: int, wait: bool
) -> None:
    random = np.random.default_rng(noise)
    live = [row_of(i, s, ids, top) for i, (s, ids, top, _) in enumerate(setups)]
    said: list[list[int]] = [[] for _ in live]
    sampler = Sampler(can_wait=wait)
    for _ in range(steps):
        logits = random.normal(0, 3, (len(live), VOCABULARY)).astype(np.float32)
        bound = random.random((len(live), VOCABULARY)) < 0.5
        bound[:, 11] = True
        masks = [
            OneMask(bound[i]).bits.tobytes() if setup[3] else None for i, setup in enumerate(setups)
        ]
        picked = sampler(mx.array(logits), live, masks)
        tokens = picked.tokens.tolist()
        lines = (
            dict(zip(picked.ranks.lines, picked.ranks.read(), strict=True)) if picked.ranks else {}
        )
        for i, row in enumerate(live):
            sampling, prompt, top, masked = setups[i]
            x = reference.processed(
                logits[i], sampling, prompt, said[i], ENDS, bound[i] if masked else None
            )
            expected, gap = reference.drawn(x, sampling, row.known, ENDS)
            assert tokens[i] == expected or gap < NEAR
            if top is not None:
                check_ranks(lines[i], reference.log_softmax(x), tokens[i], top)
            said[i].append(tokens[i])
        for i, row in enumerate(live):
            row.draw(Tail(picked.tokens, i))
            row.computed += 1
        for row, own in zip(live, said, strict=True):
            # At most one draw stays unread, as in a real run.
            late = int(random.random() < 0.5)
            while row.known > len(row.ids) + late:
                row.read(own[len(row.ids) - len(row.spec.prompt.ids)])


def check_ranks(line: tuple, truth: np.ndarray, token: int, top: int) -> None:
    chosen, ranks = line
    truth = np.maximum(truth, reference.FINITE)
    assert math.isclose(chosen, truth[token], abs_tol=1e-3)
    best = np.sort(truth)[::-1]
    for place, ranked_ in enumerate(ranks[:top]):
        assert math.isfinite(ranked_.logprob)
        assert math.isclose(ranked_.logprob, best[place], abs_tol=1e-3)
        assert math.isclose(truth[ranked_.token], ranked_.logprob, abs_tol=1e-3)


@settings(max_examples=20, deadline=None)
@given(
    noise=st.integers(0, 2**31), spread=st.sampled_from([0.0, 0.1, 1.0, 6.0]), sampling=samplings
)
def test_the_narrow_search_draws_what_the_full_sort_draws(
    noise: int, spread: float, sampling: Sampling
) -> None:
    logits = mx.array(
        np.random.default_rng(noise).normal(0, spread, (3, BIG)).round(3).astype(np.float32)
    )
    draws = [Draw(sampling, position, ENDS) for position in (4, 9, 200)]
    narrow, full = (draw(logits, draws, can_wait=wait).tolist() for wait in (True, False))
    assert narrow == full


@given(noise=st.integers(0, 2**31), columns=st.sampled_from([17, 1024, 5000, 5003]))
@settings(max_examples=20, deadline=None)
def test_the_likeliest_are_the_first_of_the_sorted(noise: int, columns: int) -> None:
    values = np.random.default_rng(noise).integers(0, 40, (2, columns)).astype(np.float32)
    count = min(NARROW, columns)
    some, ids = likeliest(mx.array(values), count)
    all_values, all_ids = ranked(mx.array(values))
    assert some.tolist() == all_values[:, :count].tolist()
    # Ties at the edge may fall on either side; inside they are in the order of ids.
    edge = some[:, -1:].tolist()
    for mine, theirs, (last,), v in zip(
        ids.tolist(), all_ids[:, :count].tolist(), edge, some.tolist(), strict=True
    ):
        inside = [i for i, value in enumerate(v) if value > last]
        assert [mine[i] for i in inside] == [theirs[i] for i in inside]


def test_draws_follow_the_distribution() -> None:
    weights = np.array([0.5, 0.25, 0.15, 0.1])
    logits = mx.array(np.log(np.tile(weights, (4000, 1))).astype(np.float32))
    draws = [Draw(Sampling(temperature=1.0, seed=7), position) for position in range(4000)]
    counts = np.bincount(np.array(draw(logits, draws, can_wait=True)), minlength=4) / 4000
    assert np.abs(counts - weights).max() < 0.03


@pytest.mark.parametrize("neighbours", [0, 1, 7, 15])
def test_a_seeded_row_draws_the_same_in_any_company(neighbours: int) -> None:
    random = np.random.default_rng(1)
    logits = random.normal(0, 2, (16, VOCABULARY)).astype(np.float32)
    mine = Draw(Sampling(temperature=1.0, seed=42, top_p=0.9), 33)
    others = [Draw(Sampling(temperature=0.1 * i, seed=i), i) for i in range(neighbours)]
    alone = draw(mx.array(logits[:1]), [mine], can_wait=True).tolist()
    together = draw(mx.array(logits[: neighbours + 1]), [mine, *others], can_wait=True).tolist()
    assert together[0] == alone[0]
