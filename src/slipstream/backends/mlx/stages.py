"""What each stage of the logits pipeline costs here, for `bench sampler`: measured, not guessed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import mlx.core as mx

from slipstream.backends.mlx.row import DeviceRow, Tail
from slipstream.backends.mlx.sampler import Sampler
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import Prompt, RowSpec
from slipstream.contracts.sampling import Sampling

REPEATS = 9
HISTORY = 200  # tokens that a row has behind it

STAGES: tuple[tuple[str, Sampling, int | None, bool], ...] = (
    ("greedy", Sampling(), None, False),
    ("logit bias", Sampling(logit_bias={5: 1.0, 9: -2.0}), None, False),
    ("repetition", Sampling(repetition_penalty=1.1), None, False),
    ("presence and frequency", Sampling(presence_penalty=0.5, frequency_penalty=0.5), None, False),
    ("grammar mask", Sampling(), None, True),
    ("log-probabilities, top 5", Sampling(), 5, False),
    ("temperature", Sampling(temperature=0.8, seed=1), None, False),
    ("top-k 40", Sampling(temperature=0.8, top_k=40, seed=1), None, False),
    ("top-p 0.9", Sampling(temperature=0.8, top_p=0.9, seed=1), None, False),
    ("min-p 0.05", Sampling(temperature=0.8, min_p=0.05, seed=1), None, False),
    ("XTC", Sampling(temperature=0.8, min_p=0.05, xtc_probability=0.5, seed=1), None, False),
)
"""(name, what every row asks, log-probabilities, whether each row has a grammar)."""


def stage_seconds(rows: int, vocabulary: int, *, can_wait: bool) -> dict[str, float]:
    """Median seconds of one step's sampling over `rows` rows of each stage."""
    # As peaked as a language model's: a few likely tokens over a long tail.
    logits = 3 * mx.random.normal((rows, vocabulary)) + 12 * (
        mx.random.uniform(shape=(rows, vocabulary)) > 0.9995
    )
    mx.eval(logits)
    found = {}
    for name, sampling, logprobs, masked in STAGES:
        live = [_row(key, sampling, logprobs) for key in range(rows)]
        bits = b"\xff" * (4 * -(-vocabulary // 32))
        masks = [bits if masked else None] * rows
        found[name] = _median(_step(Sampler(can_wait=can_wait), logits, live, masks))
    return found


def _step(
    sampler: Sampler, logits: mx.array, rows: list[DeviceRow], masks: list[bytes | None]
) -> Callable[[], None]:
    def step() -> None:
        picked = sampler(logits, rows, masks)
        mx.eval(picked.tokens, picked.ranks.arrays if picked.ranks else [])
        tokens = picked.tokens.tolist()
        for place, row in enumerate(rows):
            row.draw(Tail(picked.tokens, place))
            row.read(tokens[place])
            row.computed += 1

    return step


def _row(key: int, sampling: Sampling, logprobs: int | None) -> DeviceRow:
    ids = tuple(range(HISTORY))
    prompt = Prompt(ids=ids, max_tokens=1 << 20, sampling=sampling, logprobs=logprobs)
    row = DeviceRow(RowSpec(key=key, lane=Lane.GROUP, prompt=prompt, deadline=0.0), [])
    row.computed = row.known
    return row


def _median(step: Callable[[], None]) -> float:
    times = []
    for repeat in range(REPEATS + 1):
        start = time.perf_counter()
        step()
        if repeat:
            times.append(time.perf_counter() - start)
    return statistics.median(times)
