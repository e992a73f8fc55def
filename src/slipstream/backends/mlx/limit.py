"""What benches compare with, on the same weights and device: the raw loop, and the rectangle.

The raw loop is the model's own forward over equal rows in one cache, plus argmax: the limit. The
rectangle is how rows of unlike lengths are batched elsewhere, with mlx-lm's own BatchKVCache.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, KVCache

from slipstream.backends.mlx.costs import measure
from slipstream.backends.mlx.device import open_device
from slipstream.backends.mlx.group import Group
from slipstream.backends.mlx.opening import OpenModel
from slipstream.backends.mlx.row import DeviceRow
from slipstream.backends.mlx.segments import Packer
from slipstream.contracts.backend import Advance
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import Prompt, RowSpec

WARM = 2  # steps before the clock is read


def raw_step(model: OpenModel, batch: int, length: int, steps: int) -> float:
    """Median seconds of one step over `batch` rows of `length` tokens, step n+1 built before n
    is read."""
    caches = model.new_caches()
    newest = _argmax(model, mx.zeros((batch, length), mx.int32), caches)
    times = []
    last = time.perf_counter()
    for step in range(steps + WARM):
        following = _argmax(model, newest[:, None], caches)
        mx.async_eval(following)
        newest.tolist()
        newest = following
        now = time.perf_counter()
        if step >= WARM:
            times.append(now - last)
        last = now
    newest.tolist()
    return statistics.median(times)


def _argmax(model: OpenModel, tokens: mx.array, caches: list[Any]) -> mx.array:
    return mx.argmax(model.model(tokens, cache=caches)[:, -1], axis=-1)


@dataclass(frozen=True, slots=True)
class Skew:
    """Seconds: a step, and what a join and a leave of a short row cost beside it."""

    step: float
    join: float
    leave: float


def ours(model: OpenModel, lengths: Sequence[int], joining: int, steps: int) -> Skew:
    """Rows of `lengths` in a group as it runs; a row of `joining` tokens joins, then leaves."""
    group = Group(model, Packer(model.packable, measure(model)), can_wait=open_device().is_cpu)
    rows = [_row(model, key, length) for key, length in enumerate(lengths)]

    def step(live: Sequence[DeviceRow]) -> None:
        group.launch([Advance(row, 1) for row in live], alone=False)
        group.collect(1)

    steady = _median(lambda: step(rows), steps)
    guest = _row(model, len(rows), joining)
    join = _once(lambda: step([*rows, guest]))
    crowd = _median(lambda: step([*rows, guest]), steps)

    def leave() -> None:
        if guest.segment is not None:
            guest.segment.remove(guest)
        guest.released = True
        step(rows)

    left = _once(leave)
    group.collect(0)
    return Skew(steady, max(0.0, join - crowd), max(0.0, left - steady))


def rectangle(model: OpenModel, lengths: Sequence[int], joining: int, steps: int) -> Skew:
    """The same with mlx-lm's left-padded rectangle. For models of full attention only."""
    caches = [BatchKVCache.merge(layer) for layer in zip(*_filled(model, lengths), strict=True)]
    guests = [BatchKVCache.merge([layer]) for layer in _filled(model, [joining])[0]]
    rows = len(lengths)

    def step(count: int) -> None:
        mx.eval(_argmax(model, mx.zeros((count, 1), mx.int32), caches))

    def join() -> None:
        for cache, guest in zip(caches, guests, strict=True):
            cache.extend(guest)
        step(rows + 1)

    def leave() -> None:
        for cache in caches:
            cache.filter(mx.arange(rows))
        step(rows)

    steady = _median(lambda: step(rows), steps)
    joined = _once(join)
    crowd = _median(lambda: step(rows + 1), steps)
    left = _once(leave)
    return Skew(steady, max(0.0, joined - crowd), max(0.0, left - steady))


def _filled(model: OpenModel, lengths: Sequence[int]) -> list[list[KVCache]]:
    return [_row(model, 0, length).caches for length in lengths]


def _row(model: OpenModel, key: int, length: int) -> DeviceRow:
    """A decoding row with `length` tokens behind it and one to go, its caches blank but real."""
    prompt = Prompt(ids=(1,), max_tokens=1 << 20)
    row = DeviceRow(
        RowSpec(key=key, lane=Lane.GROUP, prompt=prompt, deadline=0.0), model.new_caches()
    )
    for layer, cache in enumerate(row.caches):
        cache.update_and_fetch(*model.blank(layer, length))
    for _ in range(length):
        row.computed = row.known
        row.feed(1)
    mx.eval([[cache.keys, cache.values] for cache in row.caches])
    return row


def _once(action: Callable[[], None]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _median(action: Callable[[], None], steps: int) -> float:
    times = [_once(action) for _ in range(steps + WARM)]
    return statistics.median(times[WARM:])
