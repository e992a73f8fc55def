"""What the prefix tree holds: keys and values by layer, and states that cannot be cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import CacheList, KVCache

from slipstream.backends.mlx.packed import Slot
from slipstream.backends.mlx.row import forked

Path = tuple[int, ...]  # of a cache in a row's list: the layer, then places in lists of caches


@dataclass(frozen=True, slots=True)
class KeyValues:
    """Keys and values of consecutive tokens, each (1, heads, tokens, size), by cache.

    A view counts the bytes of all that it keeps alive."""

    arrays: Mapping[Path, tuple[mx.array, mx.array]]
    nbytes: int

    def cut(self, tokens: int) -> tuple[KeyValues, KeyValues]:
        """Two copies, so that each can be dropped without the other."""
        head = owned(
            {p: (k[..., :tokens, :], v[..., :tokens, :]) for p, (k, v) in self.arrays.items()}
        )
        tail = owned(
            {p: (k[..., tokens:, :], v[..., tokens:, :]) for p, (k, v) in self.arrays.items()}
        )
        return head, tail


@dataclass(frozen=True, slots=True)
class Rest:
    """Caches that cannot be cut, as they stood after some tokens; never written."""

    caches: Mapping[Path, Any]
    nbytes: int


def owned(arrays: Mapping[Path, tuple[mx.array, mx.array]]) -> KeyValues:
    """Copies that keep nothing else alive, evaluated. Raises what the device raises."""
    copies = {path: (mx.contiguous(k), mx.contiguous(v)) for path, (k, v) in arrays.items()}
    mx.eval(list(copies.values()))
    return KeyValues(copies, sum(k.nbytes + v.nbytes for k, v in copies.values()))


def viewed(arrays: Mapping[Path, tuple[mx.array, mx.array]], tokens: int) -> KeyValues:
    """The first `tokens` tokens of whole buffers, taken over without a copy."""
    views = {path: (k[..., :tokens, :], v[..., :tokens, :]) for path, (k, v) in arrays.items()}
    mx.eval(list(views.values()))
    return KeyValues(views, sum(k.nbytes + v.nbytes for k, v in arrays.values()))


def spread(caches: Sequence[Any], path: Path = ()) -> dict[Path, Any]:
    """A row's caches by path, lists of caches opened."""
    found: dict[Path, Any] = {}
    for index, cache in enumerate(caches):
        if isinstance(cache, CacheList):
            found.update(spread(cache.caches, (*path, index)))
        else:
            found[(*path, index)] = cache
    return found


def cuttable(cache: Any) -> bool:
    return isinstance(cache, KVCache | Slot)


def buffers(caches: Mapping[Path, Any]) -> dict[Path, tuple[mx.array, mx.array]]:
    """Keys and values of the caches that can be cut, with whatever room follows them."""
    return {
        path: cache.buffers() if isinstance(cache, Slot) else (cache.keys, cache.values)
        for path, cache in caches.items()
        if cuttable(cache)
    }


def rest(caches: Mapping[Path, Any]) -> Rest | None:
    """The other caches, evaluated, or None when there are none."""
    others = {path: forked(cache) for path, cache in caches.items() if not cuttable(cache)}
    if not others:
        return None
    arrays = [
        a for _, a in tree_flatten([c.state for c in others.values()]) if isinstance(a, mx.array)
    ]
    mx.eval(arrays)
    return Rest(others, sum(a.nbytes for a in arrays))


def resume(
    fresh: Sequence[Any], pieces: Sequence[KeyValues], snapshot: Rest | None, length: int
) -> list[Any]:
    """`fresh` caches of a row, filled with `length` tokens. The first write copies, none before."""
    filled = [list_of(cache) for cache in fresh]
    for path in spread(fresh):
        if snapshot is not None and path in snapshot.caches:
            put(filled, path, forked(snapshot.caches[path]))
            continue
        cache = KVCache()
        parts = [piece.arrays[path] for piece in pieces]
        cache.keys, cache.values = (
            mx.concatenate(list(side), axis=-2)[..., :length, :]
            if len(parts) > 1
            else side[0][..., :length, :]
            for side in zip(*parts, strict=True)
        )
        cache.offset = length
        put(filled, path, cache)
    return [packed_list(cache) for cache in filled]


def list_of(cache: Any) -> Any:
    return [list_of(c) for c in cache.caches] if isinstance(cache, CacheList) else cache


def packed_list(cache: Any) -> Any:
    return CacheList(*map(packed_list, cache)) if isinstance(cache, list) else cache


def put(caches: list[Any], path: Path, cache: Any) -> None:
    for index in path[:-1]:
        caches = caches[index]
    caches[path[-1]] = cache
