"""What sharing a rectangle costs and saves here, measured at load on one layer.

Three timings of the same attention: rows one by one, rows packed, rows packed and wide.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import mlx.core as mx

from slipstream.backends.mlx.opening import OpenModel
from slipstream.backends.mlx.packed import Segment
from slipstream.backends.mlx.row import DeviceRow
from slipstream.backends.mlx.segments import Costs
from slipstream.backends.mlx.step import forward_over
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import Prompt, RowSpec

ROWS = 8
SHORT, WIDE = 64, 1024
REPEATS = 5
SEGMENT_ROWS = 1.5  # a segment's own operations, in those of a row
FLOOR = 1e-7  # seconds: below it a timing is noise


def measure(model: OpenModel) -> Costs:
    """Reads the device; takes some tens of milliseconds. All zero where nothing can be packed."""
    layers = len(model.packable)
    if not layers:
        return Costs(0.0, 0.0, 0.0)
    single = _time(model, packed=False, length=SHORT)
    packed = _time(model, packed=True, length=SHORT)
    wide = _time(model, packed=True, length=WIDE)
    row = max((single - packed) / (ROWS - SEGMENT_ROWS), FLOOR)
    column = max((wide - packed) / (ROWS * (WIDE - SHORT)), FLOOR / WIDE)
    return Costs(layers * row, layers * row * SEGMENT_ROWS, layers * column)


def _time(model: OpenModel, *, packed: bool, length: int) -> float:
    """Seconds of one layer's attention over ROWS rows of `length`, one token each."""
    layer = model.packable[0]
    hidden = model.hidden(ROWS)
    rows = [_row(model, key, layer, length) for key in range(ROWS)]
    segments = [Segment([layer], rows)] if packed else []
    mx.eval([[s.keys, s.values] for s in segments])

    def step() -> mx.array:
        for row in rows:
            row.known += 1
            row.computed += 1
        for segment in segments:
            segment.begin()
        forward = forward_over(rows, dict.fromkeys(rows, 1), segments)
        return model.attention(layer, hidden, forward)

    return _median(step)


def _median(step: Callable[[], mx.array]) -> float:
    mx.eval(step())
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        mx.eval(step())
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _row(model: OpenModel, key: int, layer: int, length: int) -> DeviceRow:
    spec = RowSpec(
        key=key, lane=Lane.GROUP, prompt=Prompt(ids=(0,) * length, max_tokens=1), deadline=0.0
    )
    row = DeviceRow(spec, model.new_caches())
    row.computed = length
    cache = row.caches[layer]
    cache.update_and_fetch(*model.blank(layer, length))
    mx.eval(cache.keys, cache.values)
    return row
