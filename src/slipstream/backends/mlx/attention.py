"""Attention of many queries of one row on a CPU: the host does the softmax.

MLX exponentiates and masks a number at a time there, NumPy thirty times as fast. So the device is
waited for, and the weights are made in place, a block of queries at a time. The plain twin is
MLX's own attention.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

LEAST = 1 << 13  # scores that are worth the wait
BLOCK = 1 << 20  # scores of a block, about: they stay in the processor's cache
HIDDEN = np.float32(np.finfo(np.float32).min)  # a score that has no weight


def worth(q: mx.array, k: mx.array, mask: Any) -> bool:
    """Whether `attend` can be asked, and should: not where heads have masks of their own."""
    alike = not isinstance(mask, mx.array) or all(size == 1 for size in mask.shape[:-2])
    return alike and q.shape[2] > 1 and q.shape[1] * q.shape[2] * k.shape[2] >= LEAST


def attend(
    q: mx.array, k: mx.array, v: mx.array, *, scale: float, mask: Any, sinks: mx.array | None
) -> mx.array:
    """q (1, heads, m, size), k and v (1, kv heads, n, ·) -> (1, heads, m, size of a value).

    `mask` is None, "causal" (the queries are the last tokens), or an array that broadcasts to
    (1, 1, m, n), of booleans or to be added; `sinks` (heads,). Waits for what was asked before."""
    _, heads, queries, _ = q.shape
    groups, tokens = k.shape[1], k.shape[2]
    step = max(1, BLOCK // (heads * tokens))
    bounds = None if mask is None or isinstance(mask, str) else added(mask)
    lasting = None if sinks is None else np.array(sinks.astype(mx.float32)).reshape(groups, -1)
    turned = k.swapaxes(-1, -2)
    outputs = []
    for start in range(0, queries, step):
        stop = min(queries, start + step)
        seen = tokens - (queries - stop) if isinstance(mask, str) else tokens
        # The query heads of one key head are one matrix, so that its keys are read once.
        lines = (1, groups, heads // groups * (stop - start), -1)
        scores = (q[:, :, start:stop] * scale).reshape(*lines) @ turned[..., :seen]
        scores = scores.astype(mx.float32)
        mx.eval(scores)
        host = np.asarray(scores).reshape(groups, heads // groups, stop - start, seen)
        if bounds is not None:
            host += bounds[start:stop] if bounds.shape[0] > 1 else bounds
        elif mask is not None:
            host[..., seen - (stop - start) :] += above(stop - start)
        total = weigh(host, lasting)
        weights = scores.astype(v.dtype)
        mixed = (weights @ v[:, :, :seen]) / mx.array(total).reshape(*lines)
        outputs.append(mixed.reshape(1, heads, stop - start, -1).astype(q.dtype))
    return outputs[0] if len(outputs) == 1 else mx.concatenate(outputs, axis=2)


def weigh(scores: np.ndarray, sinks: np.ndarray | None) -> np.ndarray:
    """Turns `scores` (groups, repeats, m, n) into weights, in place; returns what they sum up to,
    (groups, repeats, m, 1), with the mass of `sinks` (groups, repeats)."""
    top = scores.max(axis=-1, keepdims=True)
    if sinks is not None:
        sunk = sinks[:, :, None, None]
        np.maximum(top, sunk, out=top)
    scores -= top
    np.exp(scores, out=scores)
    total: np.ndarray = scores.sum(axis=-1, keepdims=True)
    return total if sinks is None else total + np.exp(sunk - top)


def added(mask: mx.array) -> np.ndarray:
    """`mask` as numbers to add, (m or 1, n)."""
    flat = np.array(mask.astype(mx.float32 if mask.dtype != mx.bool_ else mx.bool_))
    flat = flat.reshape(-1, flat.shape[-1])
    return np.where(flat, np.float32(0), HIDDEN) if flat.dtype == np.bool_ else flat


def above(size: int) -> np.ndarray:
    """(size, size): hides what comes after each."""
    return np.triu(np.full((size, size), HIDDEN), 1)
