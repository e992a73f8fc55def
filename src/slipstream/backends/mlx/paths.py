"""Where a cache stands in a row: the layer, then places in lists of caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlx_lm.models.cache import CacheList

Path = tuple[int, ...]


def spread(caches: Sequence[Any], path: Path = ()) -> dict[Path, Any]:
    """A row's caches by path, lists of caches opened."""
    found: dict[Path, Any] = {}
    for index, cache in enumerate(caches):
        if isinstance(cache, CacheList):
            found.update(spread(cache.caches, (*path, index)))
        else:
            found[(*path, index)] = cache
    return found


def replaced(caches: Sequence[Any], by: Mapping[Path, Any], path: Path = ()) -> list[Any]:
    """A row's caches with those of `by` in their places; the others are the same objects."""
    return [
        CacheList(*replaced(cache.caches, by, (*path, index)))
        if isinstance(cache, CacheList)
        else by.get((*path, index), cache)
        for index, cache in enumerate(caches)
    ]
