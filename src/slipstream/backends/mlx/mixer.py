"""The seam of the batch: a token mixer that serves many rows, each on its own caches.

A forward lays the tokens of all rows end to end, shape (1, tokens, width). Whatever is per token
sees them as one array; a mixer sees each row alone. Knows no model by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from slipstream.backends.mlx.even import filled
from slipstream.backends.mlx.packed import Segment
from slipstream.backends.mlx.rotary import Rotary, Table
from slipstream.backends.mlx.row import DeviceRow


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens start..stop of the forward belong to `row`."""

    row: DeviceRow
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


@dataclass(slots=True)
class Forward:
    """One pass over the tokens of some rows.

    The rows of `segments` come first, in the segments' order, one token each; `spans` covers every
    row.
    """

    spans: Sequence[Span]
    segments: Sequence[Segment]
    positions: mx.array  # (tokens,) int32: each token's place in its row
    _tables: dict[Rotary, Table] = field(default_factory=dict)

    def table(self, rotary: Rotary, dtype: mx.Dtype) -> Table:
        """Made for the first layer that asks."""
        if rotary not in self._tables:
            self._tables[rotary] = rotary.table(self.positions, dtype)
        return self._tables[rotary]

    @property
    def packed(self) -> int:
        """How many rows are in segments."""
        return sum(len(segment.rows) for segment in self.segments)


class Stage:
    """Holds the forward that runs now, for the parts of a model that hear of it no other way."""

    def __init__(self) -> None:
        self.forward: Forward | None = None
        self.heads: Sequence[int] | None = None  # tokens whose logits are wanted; None: all
        self.blend: Any = None  # the adapters of its tokens, adapters.blend.Blend, if any
        self.place: Span | None = None  # the tokens that a mixer serves alone now; None: all
        self.routes: mx.array | None = None  # the experts of each token, below a Router
        self.heard: list[mx.array] | None = None  # what the head was given; None: do not keep it

    def wanted(self, x: mx.array) -> mx.array:
        """(1, tokens, width) -> (1, heads, width)."""
        if self.heard is not None:
            self.heard.append(x)
        if self.heads is None or len(self.heads) == x.shape[1]:
            return x
        return x[:, mx.array(self.heads)]


class LayerCaches:
    """What a model takes for one layer's cache: that layer's caches of every row.

    `path` leads from a row's list of caches to the cache meant: the layer, then places in lists of
    caches.
    """

    def __init__(self, forward: Forward, path: tuple[int, ...]) -> None:
        self.forward = forward
        self.path = path

    def of(self, span: Span) -> Any:
        cache: Any = span.row.caches
        for index in self.path:
            cache = cache[index]
        return cache

    def __getitem__(self, index: int) -> LayerCaches:
        return LayerCaches(self.forward, (*self.path, index))

    def make_mask(self, tokens: int, **options: Any) -> Bundle:
        """Each row's own mask, made now: the caches still stand where the forward begins."""
        return Bundle(
            tuple(self.of(span).make_mask(span.size, **options) for span in self.forward.spans)
        )


@dataclass(frozen=True, slots=True)
class Bundle:
    """Masks, and what mixers hand on beside activations: an item a row, in the spans' order."""

    items: tuple[Any, ...]


class Holder(nn.Module):
    """Stands in a model where `held` stood. Whoever reads sizes off it finds those of `held`."""

    def __init__(self, held: nn.Module, stage: Stage) -> None:
        super().__init__()
        self.held = held
        self._stage = stage

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("held"), name)


class Mixer(Holder):
    """Level 1, generic: the held mixer is called on each row's slice with the row's caches.

    Outside of a group's forward it is the held mixer, unchanged.
    """

    def __call__(self, x: mx.array, *args: Any, **kwargs: Any) -> Any:
        forward = self._stage.forward
        if forward is None:
            return self.held(x, *args, **kwargs)
        tokens = x.shape[1]
        results = []
        try:
            for index, span in enumerate(forward.spans):
                self._stage.place = span
                own = [narrow(a, index, span, tokens) for a in (x, *args)]
                named = {k: narrow(a, index, span, tokens) for k, a in kwargs.items()}
                results.append(self.held(*own, **named))
        finally:
            self._stage.place = None
        return join(results, forward.spans, tokens)


def narrow(value: Any, index: int, span: Span, tokens: int) -> Any:
    """The part of one argument that row `index` may see."""
    if isinstance(value, LayerCaches):
        return value.of(span)
    if isinstance(value, Bundle):
        return value.items[index]
    if isinstance(value, mx.array) and value.ndim >= 3 and value.shape[:2] == (1, tokens):
        return value[:, span.start : span.stop]
    return value


def join(results: Sequence[Any], spans: Sequence[Span], tokens: int) -> Any:
    """Rows' results as one: activations end to end, `tokens` of them, anything else as a Bundle."""
    if isinstance(results[0], tuple):
        parts = zip(*results, strict=True)
        return tuple(
            Bundle(part) if isinstance(part[0], tuple) else join(part, spans, tokens)
            for part in parts
        )
    activations = all(
        isinstance(r, mx.array) and r.ndim == 3 and r.shape[:2] == (1, span.size)
        for r, span in zip(results, spans, strict=True)
    )
    if not activations:
        return Bundle(tuple(results))
    whole = results[0] if len(results) == 1 else mx.concatenate(list(results), axis=1)
    return filled(whole, tokens, axis=1)
