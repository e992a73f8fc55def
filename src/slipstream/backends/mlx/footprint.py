"""How many bytes a row will hold, from the shapes of one lazy forward: nothing is computed or read.

What a cache holds per token, at most, and whatever its length follows from its class and arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import CacheList, ChunkedKVCache, KVCache, RotatingKVCache

from slipstream.backends.mlx.kv.cache import CodedCache, Coding
from slipstream.backends.mlx.kv.plan import Codings, codings
from slipstream.backends.mlx.opening import OpenModel
from slipstream.contracts.kv import KvScheme

PROBE = 3  # tokens: enough to fill every state


@dataclass(frozen=True, slots=True)
class Footprint:
    """One row's bytes. `windows` are (most tokens kept, bytes per token) of bounded caches."""

    per_token: int
    fixed: int
    windows: tuple[tuple[int, int], ...] = ()
    expanded: int = 0  # bytes a token that come and go in a forward, where codes are read decoded

    @property
    def widest(self) -> int:
        """Bytes a token, before codes where there are such."""
        return self.per_token

    def most(self, tokens: int, chunk: int = 0) -> int:
        """Bytes on the way to `tokens` tokens, what comes and goes included."""
        return self.at(tokens, chunk) + tokens * self.expanded

    def at(self, tokens: int, chunk: int = 0) -> int:
        """Bytes at `tokens` tokens; a window keeps up to `chunk` more while a prompt fills.

        Caches grow by steps of KVCache.step tokens, which is counted."""
        step = KVCache.step
        rounded = -(-tokens // step) * step
        total = self.per_token * rounded + self.fixed
        return total + sum(min(rounded, most + chunk) * each for most, each in self.windows)

    def longest(self, budget: int, chunk: int = 0) -> int | None:
        """Most tokens of a row for which `most` stays within `budget` bytes; None when length does
        not matter."""
        if not self.per_token:
            return None
        bounded = self.fixed + sum((most + chunk) * each for most, each in self.windows)
        step = KVCache.step
        return max(0, (budget - bounded) // ((self.per_token + self.expanded) * step) * step)


@dataclass(frozen=True, slots=True)
class TurningFootprint:
    """Of a row whose caches turn to codes once it has computed `start` tokens: `before` and
    `after` that. They turn one by one; `turning` is a token's bytes in the largest of them."""

    before: Footprint
    after: Footprint
    start: int
    turning: int

    @property
    def per_token(self) -> int:
        return self.after.per_token

    @property
    def widest(self) -> int:
        """See Footprint.widest."""
        return self.before.per_token

    @property
    def fixed(self) -> int:
        return self.after.fixed

    @property
    def windows(self) -> tuple[tuple[int, int], ...]:
        return self.after.windows

    def at(self, tokens: int, chunk: int = 0) -> int:
        """See Footprint.at."""
        return (self.before if tokens <= self.start else self.after).at(tokens, chunk)

    def most(self, tokens: int, chunk: int = 0) -> int:
        """See Footprint.most; one cache is there in both forms while it turns."""
        if tokens <= self.start:
            return self.before.most(tokens, chunk)
        step = KVCache.step
        rounded = -(-self.start // step) * step
        turning = self.before.at(self.start, chunk) + rounded * self.turning
        return max(turning, self.after.most(tokens, chunk))

    def longest(self, budget: int, chunk: int = 0) -> int | None:
        """See Footprint.longest."""
        longest = self.after.longest(budget, chunk)
        if longest is None or (longest > self.start and self.most(longest, chunk) <= budget):
            return longest
        early = self.before.longest(budget, chunk)
        return self.start if early is None else min(self.start, early)


def footprint(model: OpenModel) -> Footprint | TurningFootprint:
    """Of a row of `model`, by forwards that are built and never evaluated."""
    found = _footprint(model, model.coded_caches(), model.expanding)
    if model.codings is None or not model.turns_at:
        return found
    before = _footprint(model, model.plain_caches())
    turning = max(coding.token_bytes for coding in model.codings.by_path.values())
    return TurningFootprint(before, found, model.turns_at, turning)


def coded(
    model: OpenModel, scheme: KvScheme, layers: Mapping[int, KvScheme] | None = None
) -> Codings | None:
    """How rows of `model` are written; see kv.plan.codings."""
    return codings(probed(model, model.plain_caches()), scheme, layers)


def probed(model: OpenModel, caches: list[Any]) -> list[Any]:
    """`caches` after a few tokens that nobody computes: they have shapes."""
    model.plain(mx.zeros((1, PROBE), mx.int32), caches, [PROBE - 1])
    return caches


def _footprint(model: OpenModel, caches: list[Any], expanding: Sequence[Coding] = ()) -> Footprint:
    probed(model, caches)
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
    # One layer's at a time.
    expanded = max((coding.expanded_bytes for coding in expanding), default=0)
    return Footprint(per_token, fixed, tuple(windows), expanded)


def leaves(caches: Sequence[Any]) -> list[Any]:
    """The caches of a row, lists of caches and coded caches opened."""
    found: list[Any] = []
    for cache in caches:
        if isinstance(cache, CacheList):
            found += leaves(cache.caches)
        elif isinstance(cache, CodedCache):
            found += cache.pairs
        else:
            found.append(cache)
    return found


def _length(cache: Any) -> int | None:
    """How many tokens its arrays have room for; None where a state does not grow."""
    keys = getattr(cache, "keys", None)
    if isinstance(keys, tuple | list):
        keys = keys[0]
    return int(keys.shape[-2]) if isinstance(keys, mx.array) else None
