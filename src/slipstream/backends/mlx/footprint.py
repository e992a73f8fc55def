"""How many bytes a row will hold, from the shapes of one lazy forward: nothing is computed or read.

What a cache holds per token, at most, and whatever its length follows from its class and arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import CacheList, ChunkedKVCache, KVCache, RotatingKVCache

from slipstream.backends.mlx.opening import OpenModel

PROBE = 3  # tokens: enough to fill every state


@dataclass(frozen=True, slots=True)
class Footprint:
    """One row's bytes. `windows` are (most tokens kept, bytes per token) of bounded caches."""

    per_token: int
    fixed: int
    windows: tuple[tuple[int, int], ...] = ()

    def at(self, tokens: int, chunk: int = 0) -> int:
        """Bytes at `tokens` tokens; a window keeps up to `chunk` more while a prompt fills.

        Caches grow by steps of KVCache.step tokens, which is counted."""
        step = KVCache.step
        rounded = -(-tokens // step) * step
        total = self.per_token * rounded + self.fixed
        return total + sum(min(rounded, most + chunk) * each for most, each in self.windows)

    def longest(self, budget: int, chunk: int = 0) -> int | None:
        """Most tokens of a row for which `at` stays within `budget` bytes; None when length does
        not matter."""
        if not self.per_token:
            return None
        bounded = self.fixed + sum((most + chunk) * each for most, each in self.windows)
        step = KVCache.step
        return max(0, (budget - bounded) // (self.per_token * step) * step)


def footprint(model: OpenModel) -> Footprint:
    """Of a row of `model`, by a forward that is built and never evaluated."""
    caches = model.new_caches()
    model.plain(mx.zeros((1, PROBE), mx.int32), caches, [PROBE - 1])
    per_token = fixed = 0
    windows: list[tuple[int, int]] = []
    for cache in leaves(caches):
        held = sum(a.nbytes for _, a in tree_flatten(cache.state) if isinstance(a, mx.array))
        tokens = _length(cache)
        if tokens is None:
            fixed += held
        elif isinstance(cache, RotatingKVCache):
            windows.append((cache.max_size, held // tokens))
        elif isinstance(cache, ChunkedKVCache):
            windows.append((cache.chunk_size, held // tokens))
        else:
            per_token += held // tokens
    return Footprint(per_token, fixed, tuple(windows))


def leaves(caches: Sequence[Any]) -> list[Any]:
    """The caches of a row, lists of caches opened."""
    found: list[Any] = []
    for cache in caches:
        found += leaves(cache.caches) if isinstance(cache, CacheList) else [cache]
    return found


def _length(cache: Any) -> int | None:
    """How many tokens its arrays have room for; None where a state does not grow."""
    keys = getattr(cache, "keys", None)
    if isinstance(keys, tuple | list):
        keys = keys[0]
    return int(keys.shape[-2]) if isinstance(keys, mx.array) else None
