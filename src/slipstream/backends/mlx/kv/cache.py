"""A cache of keys and values as parts, in the place of one of mlx-lm's.

Each two parts live in a cache of mlx-lm's own, so that what it keeps, where it writes and how it
masks is what the plain cache does; a window's rules are written nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import mlx.core as mx
from mlx_lm.models.cache import KVCache, RotatingKVCache

from slipstream.backends.mlx.kv.codec import Codec, Parts

KINDS = (KVCache, RotatingKVCache)  # whose state is keys, values and numbers


@dataclass(frozen=True, slots=True)
class Coding:
    """How one cache is written: a token's vectors, `heads` keys and as many values of `dtype`, as
    `key_parts` and `value_parts` arrays."""

    keys: Codec
    values: Codec
    heads: int
    dtype: mx.Dtype
    key_parts: int
    value_parts: int

    @classmethod
    def of(cls, keys: Codec, values: Codec, heads: int, dtype: mx.Dtype) -> Self:
        counts = (
            len(codec.encode(mx.zeros((1, 1, 1, codec.size), dtype))) for codec in (keys, values)
        )
        return cls(keys, values, heads, dtype, *counts)

    @property
    def token_bytes(self) -> int:
        return self.heads * (self.keys.bytes_per_vector + self.values.bytes_per_vector)

    @property
    def expanded_bytes(self) -> int:
        """A token's, decoded."""
        return self.heads * (self.keys.size + self.values.size) * int(self.dtype.size)

    def encode(self, keys: mx.array, values: mx.array) -> Parts:
        return (*self.keys.encode(keys), *self.values.encode(values))

    def decode(self, parts: Parts) -> tuple[mx.array, mx.array]:
        keys, values = self.sides(parts)
        return self.keys.decode(keys, self.dtype), self.values.decode(values, self.dtype)

    def sides(self, parts: Parts) -> tuple[Parts, Parts]:
        """The keys' parts and the values'."""
        return parts[: self.key_parts], parts[self.key_parts :]

    @property
    def count(self) -> int:
        return self.key_parts + self.value_parts


class CodedCache:
    """Speaks what mlx-lm's models ask of a cache: they get keys and values decoded. `append` gives
    the parts to whoever can attend to those."""

    def __init__(self, coding: Coding, plain: Any) -> None:
        """Holds what `plain`, one of KINDS, holds; borrows it."""
        self.coding = coding
        keys, values, *rest = plain.state
        self._blank = type(plain).from_state((None, None, *rest))
        self._pairs: list[Any] = []
        if keys is not None:
            pairs = paired(coding.encode(keys, values))
            self._pairs = [type(plain).from_state((*pair, *rest)) for pair in pairs]

    @property
    def _lead(self) -> Any:
        return self._pairs[0] if self._pairs else self._blank

    def _fresh(self) -> Any:
        return type(self._blank).from_state(self._blank.state)

    def append(self, keys: mx.array, values: mx.array) -> tuple[Parts, Parts]:
        """Writes (1, heads, n, size) each; the parts of all keys and of all values it now holds."""
        pairs = list(paired(self.coding.encode(keys, values)))
        self._pairs = self._pairs or [self._fresh() for _ in pairs]
        return self._sides(
            [cache.update_and_fetch(*p) for cache, p in zip(self._pairs, pairs, strict=True)]
        )

    def _sides(self, pairs: Sequence[tuple[mx.array, mx.array]]) -> tuple[Parts, Parts]:
        arrays = tuple(array for pair in pairs for array in pair)
        return self.coding.sides(arrays[: self.coding.count])

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        key_parts, value_parts = self.append(keys, values)
        return self.coding.decode((*key_parts, *value_parts))

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        keys, values = self._sides([cache.keys_and_values() for cache in self._pairs])
        return self.coding.decode((*keys, *values))

    # Models tie the evaluation of other arrays to that of these two, and read nothing from them.

    @property
    def keys(self) -> mx.array:
        return self._pairs[0].keys

    @keys.setter
    def keys(self, array: mx.array) -> None:
        self._pairs[0].keys = array

    @property
    def values(self) -> mx.array:
        return self._pairs[-1].values

    @values.setter
    def values(self, array: mx.array) -> None:
        self._pairs[-1].values = array

    def make_mask(self, *args: Any, **options: Any) -> Any:
        return self._lead.make_mask(*args, **options)

    @property
    def offset(self) -> int:
        return int(self._lead.offset)

    def size(self) -> int:
        return int(self._lead.size())

    def empty(self) -> bool:
        return not self._pairs

    @property
    def nbytes(self) -> int:
        return sum(cache.nbytes for cache in self._pairs)

    def is_trimmable(self) -> bool:
        return bool(self._lead.is_trimmable())

    def trim(self, tokens: int) -> int:
        return min((cache.trim(tokens) for cache in self._pairs), default=0)

    # What rows, the prefix cache and its disk ask

    @property
    def pairs(self) -> Sequence[Any]:
        """The caches of mlx-lm that hold the parts."""
        return self._pairs

    @property
    def cuttable(self) -> bool:
        """Whether its first tokens alone are what it held after so many."""
        return isinstance(self._blank, KVCache)

    @property
    def state(self) -> list[Any]:
        return [cache.state for cache in self._pairs]

    def at(self, state: Sequence[Any]) -> CodedCache:
        """A cache of the same coding that stands at `state`, which is taken."""
        made = CodedCache(self.coding, self._blank)
        made._pairs = [type(self._blank).from_state(each) for each in state]
        return made

    def buffers(self) -> Parts:
        """The parts, with whatever room follows them."""
        arrays = tuple(array for cache in self._pairs for array in (cache.keys, cache.values))
        return arrays[: self.coding.count]

    def holding(self, parts: Parts) -> CodedCache:
        """A cache of the same coding that can be cut and holds `parts`, which are taken."""
        return self.at([(*pair, pair[0].shape[2]) for pair in paired(parts)])


def paired(parts: Parts) -> Iterator[tuple[mx.array, mx.array]]:
    """Parts two by two; a last one alone gets an array without width."""
    if len(parts) % 2:
        parts = (*parts, parts[-1][..., :0])
    return zip(parts[::2], parts[1::2], strict=True)
