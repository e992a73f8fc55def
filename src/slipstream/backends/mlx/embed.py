"""Embeddings: the states that a model would give its head, pooled over the tokens of a row.

The rows are rows like others: they share forwards with those that draw, in chunks where they are
long, and a state never sees a token of another row. There is no padding to leave out.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import mlx.core as mx

from slipstream.backends.mlx.mixer import Stage
from slipstream.backends.mlx.opening import OpenModel
from slipstream.backends.mlx.row import DeviceRow
from slipstream.contracts.backend import Drawn
from slipstream.contracts.errors import RowFault
from slipstream.contracts.pooling import Pooling, PoolMode

SMALLEST_LENGTH = 1e-12  # of a vector that is divided by its length


@dataclass(frozen=True, slots=True)
class Pooled:
    """A row's vector, lazy; `epoch` is the row's when its forward was built."""

    row: DeviceRow
    vector: mx.array
    epoch: int

    def read(self) -> Drawn | None:
        """Waits for the forward; None where the row is gone or was restarted."""
        if self.row.released or self.row.epoch != self.epoch:
            return None
        values = array("f", self.vector.tolist())
        if not all(map(math.isfinite, values)):
            fault = RowFault("embedding", "it is not finite, as after an overflow")
            return Drawn(self.row, 0, fault=fault)
        return Drawn(self.row, 0, vector=values.tobytes())


@contextmanager
def hearing(stage: Stage, wanted: bool) -> Iterator[list[mx.array]]:
    """Gathers what the head is given, (1, tokens, width), while it is open and `wanted`."""
    heard: list[mx.array] = []
    stage.heard = heard if wanted else None
    try:
        yield heard
    finally:
        stage.heard = None


def has_states(model: OpenModel) -> bool:
    """Whether what goes into the head of `model` can be had. Nothing is computed."""
    with hearing(model.stage, wanted=True) as heard:
        model.plain(mx.zeros((1, 2), mx.int32), model.new_caches(), [1])
    return len(heard) == 1 and heard[0].ndim == 3 and heard[0].shape[:2] == (1, 2)


def pools(rows: Sequence[DeviceRow]) -> bool:
    return any(row.spec.prompt.pooling is not None for row in rows)


def pool(
    rows: Sequence[DeviceRow], sizes: Mapping[DeviceRow, int], heard: Sequence[mx.array]
) -> list[Pooled]:
    """Takes each pooling row's states of a forward, and gives the vectors of those that are done.

    `rows` in the order of their tokens, `sizes[row]` each, already counted as computed."""
    found: list[Pooled] = []
    start = 0
    for row in rows:
        stop = start + sizes[row]
        pooling = row.spec.prompt.pooling
        if pooling is not None:
            (states,) = heard
            gather(row, pooling.mode, states[0, start:stop])
            if row.pending == 0:
                found.append(Pooled(row, vector(row, pooling), row.epoch))
        start = stop
    return found


def gather(row: DeviceRow, mode: PoolMode, states: mx.array) -> None:
    """Adds the `states` (tokens, width) of a row's newest tokens to what it has `pooled`."""
    match mode:
        case PoolMode.MEAN:
            total = states.astype(mx.float32).sum(axis=0)
            row.pooled = total if row.pooled is None else row.pooled + total
        case PoolMode.FIRST:
            row.pooled = states[0] if row.pooled is None else row.pooled
        case PoolMode.LAST:
            row.pooled = states[-1]


def vector(row: DeviceRow, pooling: Pooling) -> mx.array:
    """(size,) float32."""
    assert row.pooled is not None
    whole = row.pooled.astype(mx.float32)
    if pooling.mode is PoolMode.MEAN:
        whole = whole / len(row.spec.prompt.ids)
    cut = whole[: pooling.size]
    if not pooling.normalized:
        return cut
    return cut / mx.maximum(mx.linalg.norm(cut), SMALLEST_LENGTH)
