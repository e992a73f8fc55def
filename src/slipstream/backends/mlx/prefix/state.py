"""What the prefix tree holds: keys and values by layer, and states that cannot be cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import KVCache

from slipstream.backends.mlx.kv.cache import CodedCache
from slipstream.backends.mlx.packed import Slot
from slipstream.backends.mlx.paths import Path, replaced, spread
from slipstream.backends.mlx.row import forked

Arrays = Mapping[Path, tuple[mx.array, ...]]
"""Keys and values by cache, or the parts that they are written as: each (1, heads, tokens, ·)."""


@dataclass(frozen=True, slots=True)
class KeyValues:
    """Keys and values of consecutive tokens. A view counts the bytes of all it keeps alive."""

    arrays: Arrays
    nbytes: int

    def cut(self, tokens: int) -> tuple[KeyValues, KeyValues]:
        """Two copies, so that each can be dropped without the other."""
        return owned(part(self.arrays, 0, tokens)), owned(part(self.arrays, tokens, None))


@dataclass(frozen=True, slots=True)
class Rest:
    """Caches that cannot be cut, as they stood after some tokens; never written."""

    caches: Mapping[Path, Any]
    nbytes: int


def part(arrays: Arrays, start: int, stop: int | None) -> Arrays:
    """Views of the tokens from `start` to `stop`."""
    return {path: tuple(a[..., start:stop, :] for a in held) for path, held in arrays.items()}


def owned(arrays: Arrays) -> KeyValues:
    """Copies that keep nothing else alive, evaluated. Raises what the device raises."""
    copies = {path: tuple(mx.contiguous(a) for a in held) for path, held in arrays.items()}
    mx.eval(list(copies.values()))
    return KeyValues(copies, nbytes(copies))


def viewed(arrays: Arrays, tokens: int) -> KeyValues:
    """The first `tokens` tokens of whole buffers, taken over without a copy."""
    views = part(arrays, 0, tokens)
    mx.eval(list(views.values()))
    return KeyValues(views, nbytes(arrays))


def nbytes(arrays: Arrays) -> int:
    return sum(a.nbytes for held in arrays.values() for a in held)


def cuttable(cache: Any) -> bool:
    return isinstance(cache, KVCache | Slot) or (isinstance(cache, CodedCache) and cache.cuttable)


def buffers(caches: Mapping[Path, Any]) -> Arrays:
    """What the caches that can be cut hold, with whatever room follows it."""
    return {
        path: cache.buffers()
        if isinstance(cache, Slot | CodedCache)
        else (cache.keys, cache.values)
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
    filled: dict[Path, Any] = {}
    for path, cache in spread(fresh).items():
        if snapshot is not None and path in snapshot.caches:
            filled[path] = forked(snapshot.caches[path])
            continue
        sides = zip(*(piece.arrays[path] for piece in pieces), strict=True)
        arrays = tuple(
            (mx.concatenate(list(side), axis=-2) if len(side) > 1 else side[0])[..., :length, :]
            for side in sides
        )
        filled[path] = holding(cache, arrays, length)
    return replaced(fresh, filled)


def holding(kind: Any, arrays: tuple[mx.array, ...], length: int) -> Any:
    """A cache of the kind of `kind` that holds `arrays`, which are of `length` tokens."""
    if isinstance(kind, CodedCache):
        return kind.holding(arrays)
    return KVCache.from_state((*arrays, length))
