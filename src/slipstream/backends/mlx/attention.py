"""Attention of one query a row, chosen once for the device; both forms give the same numbers.

q (rows, heads, 1, size), k and v (rows, kv heads, columns, size) -> like q. `mask` is additive,
(rows, 1, 1, columns), or None; `sinks` (heads,) or None.
"""

from __future__ import annotations

from typing import Protocol

import mlx.core as mx


class Attend(Protocol):
    def __call__(
        self,
        q: mx.array,
        k: mx.array,
        v: mx.array,
        *,
        scale: float,
        mask: mx.array | None,
        sinks: mx.array | None,
    ) -> mx.array: ...


def kernel(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    *,
    scale: float,
    mask: mx.array | None,
    sinks: mx.array | None,
) -> mx.array:
    """MLX's own kernel: the form for a GPU, and the plain twin of `folded`."""
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask, sinks=sinks)


def folded(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    *,
    scale: float,
    mask: mx.array | None,
    sinks: mx.array | None,
) -> mx.array:
    """For a CPU: the query heads of one key head are one matrix, so there are fewer products."""
    rows, heads, _, size = q.shape
    groups = k.shape[1]
    scores = (q.reshape(rows, groups, heads // groups, size) * scale) @ k.swapaxes(-1, -2)
    if mask is not None:
        scores = scores + mask
    if sinks is None:
        weights = mx.softmax(scores, axis=-1, precise=True)
    else:
        sink = mx.broadcast_to(sinks.reshape(1, groups, -1, 1), (*scores.shape[:-1], 1)).astype(
            scores.dtype
        )
        joined = mx.concatenate([sink, scores], axis=-1)
        weights = mx.softmax(joined, axis=-1, precise=True)[..., 1:]
    return (weights @ v).reshape(rows, heads, 1, v.shape[-1])
