"""Drawing one token a row from processed logits, without sorting the vocabulary if it can be.

Order: temperature, top-k, top-p, min-p, XTC, draw. A draw inverts the cumulative distribution at a
uniform of (seed, position), over candidates from likely to unlikely, ties by token id; where
nothing is filtered, in the order of the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from slipstream.backends.mlx.exponential import exponentials
from slipstream.backends.mlx.noise import uniform
from slipstream.contracts.sampling import Sampling

NEVER = -float("inf")
BLOCK = 16  # tokens whose maximum stands for them in the search for the likeliest
NARROW = 64  # likeliest tokens that are sorted before all are
XTC_STREAM = 1  # of the noise: whether XTC happens, apart from what is drawn


@dataclass(frozen=True, slots=True)
class Draw:
    """One row's draw: its sampling, the place of the drawn token in the row, and its ends."""

    sampling: Sampling
    position: int
    ends: frozenset[int] = frozenset()


def draw(logits: mx.array, draws: Sequence[Draw], *, can_wait: bool) -> mx.array:
    """logits (rows, vocabulary) -> tokens (rows,) int32, lazy. A greedy row is only an argmax.

    `can_wait`: reading one flag of the logits now costs little (a CPU), and spares the sort of
    the whole vocabulary wherever the likeliest tokens are enough. The tokens are the same."""
    kinds = [kind(d.sampling) for d in draws]
    ways = {
        GREEDY: lambda part, _: mx.argmax(part, axis=-1).astype(mx.int32),
        WHOLE: lambda part, own: draw_whole(heated(part, own), own, can_wait=can_wait),
        CUT: lambda part, own: draw_cut(heated(part, own), own, can_wait=can_wait),
    }
    present = [k for k in ways if k in kinds]
    if len(present) == 1:
        return ways[present[0]](logits, draws)
    tokens = mx.zeros((len(draws),), mx.int32)
    for k in present:
        places = [i for i, own in enumerate(kinds) if own == k]
        where = mx.array(places)
        tokens[where] = ways[k](logits[where], [draws[i] for i in places])
    return tokens


GREEDY, WHOLE, CUT = "greedy", "whole", "cut"


def kind(sampling: Sampling) -> str:
    """GREEDY; WHOLE: the whole distribution is drawn from; CUT: some of it is cut away first."""
    if sampling.greedy:
        return GREEDY
    whole = sampling.top_p >= 1.0 and sampling.top_k <= 0 and sampling.min_p == 0.0
    return WHOLE if whole and sampling.xtc_probability == 0.0 else CUT


def heated(logits: mx.array, draws: Sequence[Draw]) -> mx.array:
    return logits.astype(mx.float32) / column([d.sampling.temperature for d in draws])


def draw_whole(scaled: mx.array, draws: Sequence[Draw], *, can_wait: bool) -> mx.array:
    return invert(exponentials(scaled, can_wait=can_wait)[0], draws)


def draw_cut(scaled: mx.array, draws: Sequence[Draw], *, can_wait: bool) -> mx.array:
    _, total = exponentials(scaled, can_wait=can_wait)
    if not can_wait or scaled.shape[-1] <= 4 * NARROW * BLOCK:
        values, ids = ranked(scaled)
        return pick(values - total, ids, draws)
    values, ids = likeliest(scaled, NARROW)
    logprobs = values - total
    tokens = pick(logprobs, ids, draws)
    wide = [i for i, fits in enumerate(enough(logprobs, draws)) if not fits]
    if wide:
        where = mx.array(wide)
        values, ids = ranked(scaled[where])
        tokens[where] = pick(values - total[where], ids, [draws[i] for i in wide])
    return tokens


def ranked(scaled: mx.array) -> tuple[mx.array, mx.array]:
    """All values from high to low, with their token ids; ties by id."""
    ids = mx.argsort(-scaled, axis=-1)
    return mx.take_along_axis(scaled, ids, axis=-1), ids


def likeliest(scaled: mx.array, count: int) -> tuple[mx.array, mx.array]:
    """The `count` highest values from high to low, as `ranked` has them, without a full sort.

    They lie in the `count` blocks with the highest maxima, whatever the order inside."""
    rows, vocabulary = scaled.shape
    if vocabulary <= count * BLOCK:
        values, ids = ranked(scaled)
        return values[:, :count], ids[:, :count]
    short = -vocabulary % BLOCK
    if short:
        scaled = mx.pad(scaled, [(0, 0), (0, short)], constant_values=NEVER)
    blocks = scaled.reshape(rows, -1, BLOCK)
    best = mx.argpartition(-mx.max(blocks, axis=-1), kth=count - 1, axis=-1)[:, :count]
    best = mx.sort(best, axis=-1)  # candidates in the order of ids, so that ties stay as ranked
    candidates = mx.take_along_axis(blocks, best[..., None], axis=1).reshape(rows, -1)
    ids = (best[..., None] * BLOCK + mx.arange(BLOCK)).reshape(rows, -1)
    order = mx.argsort(-candidates, axis=-1)[:, :count]
    return (
        mx.take_along_axis(candidates, order, axis=-1),
        mx.take_along_axis(ids, order, axis=-1),
    )


def enough(logprobs: mx.array, draws: Sequence[Draw]) -> list[bool]:
    """Whether each row's filters leave nothing beyond these candidates. Reads the device."""
    width = logprobs.shape[-1]
    mass = mx.exp(logprobs).sum(axis=-1).tolist()
    first, last = logprobs[:, 0].tolist(), logprobs[:, -1].tolist()
    return [
        _enough(d.sampling, width, m, hi, lo)
        for d, m, hi, lo in zip(draws, mass, first, last, strict=True)
    ]


def _enough(sampling: Sampling, width: int, mass: float, first: float, last: float) -> bool:
    if 0 < sampling.top_k <= width:
        return True
    if last == NEVER or (sampling.top_p < 1.0 and mass >= sampling.top_p + 1e-6):
        return True
    return sampling.min_p > 0 and last < first + math.log(sampling.min_p)


def pick(logprobs: mx.array, ids: mx.array, draws: Sequence[Draw]) -> mx.array:
    """Filters candidates, sorted from high to low, and draws one. Shapes (rows, candidates).

    Top-k comes first and the rest sees what it leaves, renormalised: top-p keeps the likeliest
    that reach its mass, min-p what has at least its share of the likeliest."""
    samplings = [d.sampling for d in draws]
    count = logprobs.shape[-1]
    place = mx.arange(count)[None]
    weights = mx.exp(logprobs)
    if any(0 < s.top_k < count for s in samplings):
        weights = mx.where(
            place < column([s.top_k if s.top_k > 0 else count for s in samplings]), weights, 0
        )
    if any(s.top_p < 1.0 for s in samplings):
        # Without a top-k the mass is that of the whole vocabulary, not of these candidates.
        limited = mx.array([s.top_k > 0 for s in samplings])[:, None]
        total = mx.where(limited, weights.sum(axis=-1, keepdims=True), 1.0)
        before = mx.cumsum(weights, axis=-1) - weights
        bound = column([s.top_p if s.top_p < 1.0 else 2.0 for s in samplings])
        weights = mx.where((before < bound * total) | (place == 0), weights, 0)
    if any(s.min_p > 0 for s in samplings):
        floor = column([math.log(s.min_p) if s.min_p > 0 else NEVER for s in samplings])
        weights = mx.where(logprobs >= logprobs[:, :1] + floor, weights, 0)
    if any(s.xtc_probability > 0 for s in samplings):
        weights = without_top_choices(weights, ids, draws)
    chosen = invert(weights, draws)[:, None]
    return mx.take_along_axis(ids, chosen, axis=-1)[:, 0].astype(mx.int32)


def without_top_choices(weights: mx.array, ids: mx.array, draws: Sequence[Draw]) -> mx.array:
    """XTC: with its probability, all choices above the threshold go but the least likely of them.

    Tokens that end the row stay. Shapes (rows, candidates), sorted from high to low."""
    happens = mx.array(
        [
            uniform(d.sampling.seed, d.position, XTC_STREAM) < d.sampling.xtc_probability
            for d in draws
        ]
    )[:, None]
    share = weights / weights.sum(axis=-1, keepdims=True)
    above = share > column([d.sampling.xtc_threshold for d in draws])
    last = above.sum(axis=-1, keepdims=True) - 1
    gone = above & (mx.arange(weights.shape[-1])[None] < last) & happens
    longest = max(len(d.ends) for d in draws)
    if longest:
        ends = mx.array([[*d.ends, *[-1] * (longest - len(d.ends))] for d in draws])
        gone = gone & ~(ids[:, :, None] == ends[:, None]).any(axis=-1)
    return mx.where(gone, 0, weights)


def invert(weights: mx.array, draws: Sequence[Draw]) -> mx.array:
    """weights (rows, n), not normalised -> the place where each row's uniform falls, (rows,)."""
    mass = mx.cumsum(weights, axis=-1)
    total = mass[:, -1:]
    uniforms = column([uniform(d.sampling.seed, d.position) for d in draws])
    # Strictly below the total after rounding, so that the place has a weight above zero.
    target = mx.minimum(uniforms * total, total * (1 - 2**-23))
    place = (mass <= target).sum(axis=-1)
    return mx.minimum(place, weights.shape[-1] - 1).astype(mx.int32)


def column(values: Sequence[float]) -> mx.array:
    """(rows, 1) float32."""
    return mx.array(list(values), mx.float32)[:, None]
