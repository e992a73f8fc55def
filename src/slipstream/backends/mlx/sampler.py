"""From logits to tokens, for all rows at once.

Order: temperature, top-k, top-p, min-p, draw. Every number is the row's own; a row that is greedy
costs its neighbours nothing and is only an argmax. A draw inverts the cumulative distribution at a
uniform of (seed, position), over candidates from likely to unlikely, ties by token id.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from slipstream.backends.mlx.noise import uniform
from slipstream.contracts.sampling import Sampling

NEVER = -float("inf")
BLOCK = 16  # tokens whose maximum stands for them in the search for the likeliest
NARROW = 64  # likeliest tokens that are sorted before all are


@dataclass(frozen=True, slots=True)
class Draw:
    """One row's draw: its sampling, and the position of the token to be drawn in the row."""

    sampling: Sampling
    position: int


def sample(logits: mx.array, draws: Sequence[Draw], *, can_wait: bool) -> mx.array:
    """logits (rows, vocabulary) -> tokens (rows,) int32, lazy.

    `can_wait`: reading one flag of the logits now costs little (a CPU), and spares the sort of
    the whole vocabulary wherever the likeliest tokens are enough. The tokens are the same."""
    hot = [i for i, draw in enumerate(draws) if not draw.sampling.greedy]
    if not hot:
        return mx.argmax(logits, axis=-1).astype(mx.int32)
    chosen = logits if len(hot) == len(draws) else logits[mx.array(hot)]
    drawn = _draw(chosen, [draws[i] for i in hot], can_wait)
    if len(hot) == len(draws):
        return drawn
    tokens = mx.argmax(logits, axis=-1).astype(mx.int32)
    tokens[mx.array(hot)] = drawn
    return tokens


def _draw(logits: mx.array, draws: Sequence[Draw], can_wait: bool) -> mx.array:
    scaled = logits.astype(mx.float32) / column([draw.sampling.temperature for draw in draws])
    plain = [i for i, draw in enumerate(draws) if _unfiltered(draw.sampling)]
    cut = [i for i in range(len(draws)) if i not in set(plain)]
    if not cut:
        return draw_any(scaled, draws)
    if not plain:
        return draw_filtered(scaled, draws, can_wait)
    tokens = mx.zeros((len(draws),), mx.int32)
    tokens[mx.array(plain)] = draw_any(scaled[mx.array(plain)], [draws[i] for i in plain])
    tokens[mx.array(cut)] = draw_filtered(scaled[mx.array(cut)], [draws[i] for i in cut], can_wait)
    return tokens


def _unfiltered(sampling: Sampling) -> bool:
    return sampling.top_p >= 1.0 and sampling.top_k <= 0 and sampling.min_p == 0.0


def draw_any(scaled: mx.array, draws: Sequence[Draw]) -> mx.array:
    """Nothing is filtered: the distribution is inverted in the order of the vocabulary."""
    weights = mx.exp(scaled - mx.max(scaled, axis=-1, keepdims=True))
    return invert(weights, draws)


def draw_filtered(scaled: mx.array, draws: Sequence[Draw], can_wait: bool) -> mx.array:
    total = mx.logsumexp(scaled, axis=-1, keepdims=True)
    vocabulary = scaled.shape[-1]
    if can_wait and vocabulary > 4 * NARROW * BLOCK:
        values, ids = likeliest(scaled, NARROW)
        enough = _enough(values - total, draws)
        if all(enough):
            return _pick(values - total, ids, draws)
        wide = [i for i, fits in enumerate(enough) if not fits]
        tokens = _pick(values - total, ids, draws)
        chosen = mx.array(wide)
        all_values, all_ids = ranked(scaled[chosen])
        tokens[chosen] = _pick(all_values - total[chosen], all_ids, [draws[i] for i in wide])
        return tokens
    values, ids = ranked(scaled)
    return _pick(values - total, ids, draws)


def ranked(scaled: mx.array) -> tuple[mx.array, mx.array]:
    """All values from high to low, with their token ids; ties by id."""
    ids = mx.argsort(-scaled, axis=-1)
    return mx.take_along_axis(scaled, ids, axis=-1), ids


def likeliest(scaled: mx.array, count: int) -> tuple[mx.array, mx.array]:
    """The `count` highest values from high to low, as `ranked` has them, without a full sort.

    They lie in the `count` blocks with the highest maxima, whatever the order inside."""
    rows, vocabulary = scaled.shape
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


def _enough(logprobs: mx.array, draws: Sequence[Draw]) -> list[bool]:
    """Whether each row's filters leave nothing beyond the candidates. Reads the device."""
    mass = mx.exp(logprobs).sum(axis=-1)
    last, first = logprobs[:, -1], logprobs[:, 0]
    covered: list[bool] = (
        (mass >= column([d.sampling.top_p for d in draws])[:, 0] + 1e-6)
        | (last < first + column([_log(d.sampling.min_p) for d in draws])[:, 0])
    ).tolist()
    width = logprobs.shape[-1]
    return [fits or 0 < d.sampling.top_k <= width for fits, d in zip(covered, draws, strict=True)]


def _pick(logprobs: mx.array, ids: mx.array, draws: Sequence[Draw]) -> mx.array:
    """Filters candidates, sorted from high to low, and draws one. Shapes (rows, candidates).

    Top-k comes first and the rest sees what it leaves, renormalised: top-p keeps the likeliest
    that reach its mass, min-p what has at least its share of the likeliest."""
    count = logprobs.shape[-1]
    place = mx.arange(count)[None]
    weights = mx.exp(logprobs)
    tops = [d.sampling.top_k if d.sampling.top_k > 0 else count for d in draws]
    if min(tops) < count:
        weights = mx.where(place < column(tops), weights, 0)
    # Only a top-k row is renormalised: for the others the total is that of the whole vocabulary.
    limited = [0 < d.sampling.top_k for d in draws]
    if any(d.sampling.top_p < 1.0 for d in draws):
        total = mx.where(mx.array(limited)[:, None], weights.sum(axis=-1, keepdims=True), 1.0)
        before = mx.cumsum(weights, axis=-1) - weights
        bound = column([d.sampling.top_p if d.sampling.top_p < 1.0 else 2.0 for d in draws])
        keep = (before < bound * total) | (place == 0)
        weights = mx.where(keep, weights, 0)
    if any(d.sampling.min_p > 0 for d in draws):
        keep = logprobs >= logprobs[:, :1] + column([_log(d.sampling.min_p) for d in draws])
        weights = mx.where(keep, weights, 0)
    chosen = invert(weights, draws)
    return mx.take_along_axis(ids, chosen[:, None].astype(mx.int32), axis=-1)[:, 0].astype(mx.int32)


def invert(weights: mx.array, draws: Sequence[Draw]) -> mx.array:
    """weights (rows, n), not normalised -> the place where each row's uniform falls, (rows,)."""
    mass = mx.cumsum(weights, axis=-1)
    total = mass[:, -1:]
    uniforms = column([uniform(d.sampling.seed, d.position) for d in draws])
    # Strictly below the total after rounding, so that the place has a weight above zero.
    target = mx.minimum(uniforms * total, total * (1 - 2**-23))
    return (mass <= target).sum(axis=-1).astype(mx.int32)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else NEVER


def column(values: Sequence[float]) -> mx.array:
    """(rows, 1) float32."""
    return mx.array(list(values), mx.float32)[:, None]
