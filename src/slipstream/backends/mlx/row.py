"""One sequence on the device: its caches, what it knows and how much of it is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm.models.cache import CacheList

from slipstream.backends.mlx.kv.cache import CodedCache
from slipstream.contracts.row import RowSpec, Scored


class Rectangle(Protocol):
    """What holds the keys and values of a packed row in its place."""

    def remove(self, row: DeviceRow) -> None: ...
    def evict(self, row: DeviceRow) -> None: ...
    def abandon(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Tail:
    """A draw that the host has not read: entry `place` of a launch's `tokens`, (rows,)."""

    tokens: mx.array
    place: int


class DeviceRow:
    """Owns its caches, alone, until it is released. Implements contracts.backend.Row.

    Tokens known are `ids` (read by the host) and after them draws that were launched but not read:
    none or one when a forward begins. `tail` is the newest draw.
    """

    def __init__(self, spec: RowSpec, caches: list[Any], promised: int = 0) -> None:
        """`promised`: bytes that it may come to hold."""
        self._spec = spec
        self.promised = promised
        self.caches = caches
        self.ids: list[int] = list(spec.prompt.ids)
        self.known = len(self.ids)
        self.computed = 0
        self.cached = 0
        self.tail: Tail | None = None
        self.scored: list[Scored] = []  # prompt tokens, until the first draw takes them along
        self.pooled: mx.array | None = None  # states so far, where the prompt has pooling
        self.segment: Rectangle | None = None
        self.worn: tuple[Any, ...] = ()  # its adapters; see adapters.rack
        self.turned = False  # its caches have turned to the codes of a scheme that begins late
        self.released = False
        self.epoch = 0  # grows at each rewind, so that older draws are known as stale

    @property
    def spec(self) -> RowSpec:
        return self._spec

    @property
    def pending(self) -> int:
        return self.known - self.computed

    @property
    def drawn(self) -> int:
        """Draws launched so far: the place of the next one among the row's own tokens."""
        return self.known - len(self._spec.prompt.ids)

    @property
    def exhausted(self) -> bool:
        """Every draw that the row may make has been launched."""
        return self.known >= self._spec.length_limit

    @property
    def unread(self) -> Tail | None:
        """The draw that the host does not know yet, if there is one."""
        return self.tail if self.known > len(self.ids) else None

    def take(self, tokens: int) -> list[int] | Tail:
        """The next `tokens` tokens as input, and counts them as computed.

        Ids of the host, or the one unread draw; never both: a draw is launched only once
        everything before it is computed."""
        start, self.computed = self.computed, self.computed + tokens
        if self.computed > len(self.ids):
            assert tokens == 1
            assert self.tail is not None
            return self.tail
        return self.ids[start : self.computed]

    def draw(self, tail: Tail) -> None:
        """A draw was launched."""
        assert self.pending == 0
        self.known += 1
        self.tail = tail

    def read(self, token: int) -> None:
        """The host has read the oldest draw that it did not know."""
        assert self.known > len(self.ids)
        self.ids.append(token)

    def feed(self, *tokens: int) -> None:
        """The next tokens are these, decided on the host."""
        assert self.pending == 0
        assert self.known == len(self.ids)
        self.ids += tokens
        self.known += len(tokens)

    def restart(self, drawn: Sequence[int], caches: list[Any]) -> None:
        """Forgets what was computed; known are the prompt and `drawn`."""
        self.ids = [*self._spec.prompt.ids, *drawn]
        self.known = len(self.ids)
        self.computed = self.cached = 0
        self.tail = None
        self.scored = []
        self.pooled = None
        self.caches = caches
        self.turned = False
        self.epoch += 1

    def nbytes(self) -> int:
        return sum(cache.nbytes for cache in self.caches if not cache.empty())


def forked(cache: Any) -> Any:
    """A cache that begins as `cache` stands; the first write to either leaves the other alone."""
    # Caches write through the array object that they hold, so each needs an object of its own;
    # what is behind it is copied by MLX when one of them writes.
    if isinstance(cache, CacheList):
        return CacheList(*map(forked, cache.caches))
    state = tree_map(lambda leaf: leaf[...] if isinstance(leaf, mx.array) else leaf, cache.state)
    return standing(cache, state)


def standing(kind: Any, state: Any) -> Any:
    """A cache of the kind of `kind` that stands at `state`, which is taken."""
    return kind.at(state) if isinstance(kind, CodedCache) else type(kind).from_state(state)
