"""What a KV scheme is on the device: how one vector of keys or values is written as parts.

A cache knows no scheme, only a codec for its keys and one for its values. Attention that reads the
parts asks for products; everything else decodes, and that is the plain twin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx

from slipstream.backends.mlx.even import FEWEST, filled

Parts = tuple[mx.array, ...]
"""One encoded tensor: arrays (1, heads, n, ·), of any types, that are cut and joined along n."""


class Codec(Protocol):
    """Vectors of one length, `size`. Stateless, and equal vectors give equal bytes, whatever stands
    beside them: a row is written alike alone, in company and in any chunks."""

    @property
    def size(self) -> int: ...

    @property
    def bytes_per_vector(self) -> int: ...

    def encode(self, x: mx.array) -> Parts:
        """x (1, heads, n, size)."""
        ...

    def decode(self, parts: Sequence[mx.array], dtype: mx.Dtype) -> mx.array:
        """(1, heads, n, size) of `dtype`."""
        ...

    def query(self, q: mx.array) -> mx.array:
        """Queries (1, heads, m, size) as `scores` takes them; once a forward."""
        ...

    def scores(self, q: mx.array, parts: Sequence[mx.array]) -> mx.array:
        """Inner products, unscaled: (1, heads, m, n). `heads` is a multiple of the parts' heads,
        neighbours sharing one."""
        ...

    def mix(self, weights: mx.array, parts: Sequence[mx.array]) -> mx.array:
        """Sums of values under `weights` (1, heads, m, n): (1, heads, m, ·), for `finish`."""
        ...

    def finish(self, out: mx.array) -> mx.array:
        """What was mixed, (1, heads, m, ·), as vectors (1, heads, m, size); once a forward."""
        ...


@dataclass(frozen=True, slots=True)
class Whole:
    """The codec that changes nothing: for what a scheme leaves as it is."""

    size: int
    dtype: mx.Dtype

    @property
    def bytes_per_vector(self) -> int:
        return self.size * self.dtype.size

    def encode(self, x: mx.array) -> Parts:
        return (x,)

    def decode(self, parts: Sequence[mx.array], dtype: mx.Dtype) -> mx.array:
        return parts[0].astype(dtype)

    def query(self, q: mx.array) -> mx.array:
        return q

    def scores(self, q: mx.array, parts: Sequence[mx.array]) -> mx.array:
        flat = folded(q, parts[0].shape[1])
        return unfolded(flat @ parts[0].astype(q.dtype).swapaxes(-1, -2), q)

    def mix(self, weights: mx.array, parts: Sequence[mx.array]) -> mx.array:
        flat = folded(weights, parts[0].shape[1])
        return unfolded(flat @ parts[0].astype(weights.dtype), weights)

    def finish(self, out: mx.array) -> mx.array:
        return out


def folded(x: mx.array, kv_heads: int) -> mx.array:
    """(1, heads, m, ·) -> (1, kv heads, heads of one * m, ·): one product for each key head.

    Filled up with zeros where it has few lines, so that a line has the same bits beside others."""
    return filled(x.reshape(1, kv_heads, -1, x.shape[-1]), FEWEST, axis=2)


def unfolded(x: mx.array, like: mx.array) -> mx.array:
    """What became of `folded(like, ...)`, by the heads and queries of `like`."""
    lines = like.shape[1] * like.shape[2] // x.shape[1]
    return x[:, :, :lines].reshape(*like.shape[:3], x.shape[-1])
