"""Attention over parts, a block of tokens at a time, so that no cache is ever expanded whole.

The softmax runs along: what was summed so far fades as larger scores come. The plain twin is
ordinary attention over decoded keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from slipstream.backends.mlx.even import filled
from slipstream.backends.mlx.kv.cache import Coding
from slipstream.backends.mlx.kv.codec import Parts, folded, unfolded

BLOCK = 1024  # tokens
CPU_BLOCK = 256  # and the last block is filled up: MKL's sums depend on how many there are
SCORES = 1 << 24  # of a block, at most: so many queries at a time
WIDTH = 8  # of a product that adds up weights; MKL sums in another order where it is 1


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
            self.mass * faded + summed(weights, coding.heads),
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
    even = mx.default_device().type == mx.DeviceType.cpu
    block = CPU_BLOCK if even else BLOCK
    most = max(1, SCORES // (q.shape[1] * block))
    if q.shape[2] > most:
        parts = sliced(q, keys, values, mask, most)
        more = {"scale": scale, "sinks": sinks}
        return mx.concatenate([attend(*p, coding, mask=m, **more) for *p, m in parts], axis=2)
    tokens = keys[0].shape[2]
    prepared = coding.keys.query(q * scale)
    sums = Sums.before(q, sinks)
    for start in range(0, tokens, block):
        size = block if even else min(block, tokens - start)
        k, v = (cut(side, start, min(tokens, start + size), size) for side in (keys, values))
        scores = coding.keys.scores(prepared, k).astype(mx.float32)
        sums = sums.over(masked(scores, mask, start, tokens), coding, v, q.dtype)
    return coding.values.finish(sums.mixed / sums.mass).astype(q.dtype)


def sliced(
    q: mx.array, keys: Parts, values: Parts, mask: Any, most: int
) -> Iterator[tuple[mx.array, Parts, Parts, Any]]:
    """The same for `most` queries at a time: (q, keys, values, mask), keys that none of them sees
    left out where the mask is causal."""
    queries, tokens = q.shape[2], keys[0].shape[2]
    for start in range(0, queries, most):
        stop = min(queries, start + most)
        seen, own = tokens, mask
        if isinstance(mask, str):
            seen = tokens - (queries - stop)
        elif mask is not None and mask.shape[-2] > 1:
            own = mask[..., start:stop, :]
        yield q[:, :, start:stop], cut(keys, 0, seen, seen), cut(values, 0, seen, seen), own


def summed(weights: mx.array, kv_heads: int) -> mx.array:
    """(1, heads, m, n) -> (1, heads, m, 1). As a product: zeros behind change no bit of it."""
    ones = mx.ones((weights.shape[-1], WIDTH), weights.dtype)
    return unfolded(folded(weights, kv_heads) @ ones, weights)[..., :1]


def masked(scores: mx.array, mask: Any, start: int, tokens: int) -> mx.array:
    """`scores` (1, heads, m, block) of the tokens from `start` on, of `tokens`; none is beyond."""
    queries, stop = scores.shape[2], start + scores.shape[3]
    least = mx.finfo(mx.float32).min
    if mask is not None and not isinstance(mask, str):
        own = mask[..., start:stop]
        if own.dtype == mx.bool_:
            own = mx.where(own, 0.0, least)
        scores = scores + filled(own, scores.shape[3], axis=own.ndim - 1)
        mask = None
    oldest = tokens - 1 if mask is None else tokens - queries  # the last that all queries see
    if stop <= oldest + 1:
        return scores
    last = mx.arange(oldest, tokens)[:, None]
    return mx.where(last >= mx.arange(start, stop), scores, least)


def cut(parts: Parts, start: int, stop: int, size: int) -> Parts:
    """The tokens from `start` to `stop`, filled up to `size`."""
    if start != 0 or stop != parts[0].shape[2]:
        parts = tuple(part[..., start:stop, :] for part in parts)
    return tuple(filled(part, size, axis=2) for part in parts)
