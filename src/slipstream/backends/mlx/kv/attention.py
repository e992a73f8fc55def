"""Attention over parts, a block of tokens at a time, so that no cache is ever expanded whole.

The softmax runs along: what was summed so far fades as larger scores come. The plain twin is
ordinary attention over decoded keys and values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from slipstream.backends.mlx.kv.cache import Coding
from slipstream.backends.mlx.kv.codec import Parts

BLOCK, LEAST = 1024, 128  # tokens of a block
SCORES = 1 << 24  # of a block, at most, where LEAST allows


@dataclass(frozen=True, slots=True)
class Sums:
    """Over the tokens seen so far, each (1, heads, m, ·) in float32: the largest score, the mass of
    the weights relative to it, and the values under these weights."""

    peak: mx.array
    mass: mx.array
    mixed: mx.array

    @classmethod
    def before(cls, q: mx.array, sinks: mx.array | None) -> Sums:
        """A sink is a score without a value; heads without one begin with no mass."""
        none = mx.zeros((1, q.shape[1], q.shape[2], 1), mx.float32)
        if sinks is None:
            return cls(none + mx.finfo(mx.float32).min, none, none)
        return cls(none + sinks.astype(mx.float32).reshape(1, -1, 1, 1), none + 1, none)

    def over(self, scores: mx.array, coding: Coding, values: Parts, dtype: mx.Dtype) -> Sums:
        peak = mx.maximum(self.peak, scores.max(axis=-1, keepdims=True))
        weights = mx.exp(scores - peak)
        faded = mx.exp(self.peak - peak)
        return Sums(
            peak,
            self.mass * faded + weights.sum(axis=-1, keepdims=True),
            self.mixed * faded + coding.values.mix(weights.astype(dtype), values),
        )


def attend(
    q: mx.array,
    keys: Parts,
    values: Parts,
    coding: Coding,
    *,
    scale: float,
    mask: Any = None,
    sinks: mx.array | None = None,
) -> mx.array:
    """q (1, heads, m, size) -> (1, heads, m, size of a value).

    `mask` is None, "causal" (the queries are the last tokens), or an array that broadcasts to
    (1, heads, m, n), of booleans or to be added; `sinks` (heads,)."""
    queries, tokens = q.shape[2], keys[0].shape[2]
    prepared = coding.keys.query(q * scale)
    block = min(BLOCK, max(LEAST, SCORES // (q.shape[1] * queries)))
    sums = Sums.before(q, sinks)
    for start in range(0, tokens, block):
        stop = min(tokens, start + block)
        scores = coding.keys.scores(prepared, cut(keys, start, stop)).astype(mx.float32)
        seen = masked(scores, mask, start, tokens)
        sums = sums.over(seen, coding, cut(values, start, stop), q.dtype)
    return coding.values.finish(sums.mixed / sums.mass).astype(q.dtype)


def masked(scores: mx.array, mask: Any, start: int, tokens: int) -> mx.array:
    """`scores` (1, heads, m, block) of the tokens from `start` on, of `tokens`."""
    if mask is None:
        return scores
    queries, stop = scores.shape[2], start + scores.shape[3]
    if isinstance(mask, str):
        if stop <= tokens - queries + 1:
            return scores  # every query comes after all of them
        mask = mx.arange(tokens - queries, tokens)[:, None] >= mx.arange(start, stop)
    else:
        mask = mask[..., start:stop]
    if mask.dtype == mx.bool_:
        return mx.where(mask, scores, mx.finfo(mx.float32).min)
    return scores + mask


def cut(parts: Parts, start: int, stop: int) -> Parts:
    if start == 0 and stop == parts[0].shape[2]:
        return parts
    return tuple(part[..., start:stop, :] for part in parts)
