"""The group: one forward over the tokens of many rows, built before the last one is read.

Chunks of prompts, single steps and drafts are the same here: n tokens of a row. Owns the launches
in flight and the segments; the rows own the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import mlx.core as mx
from mlx.utils import tree_flatten

from slipstream.backends.mlx.mixer import Forward, Span
from slipstream.backends.mlx.opening import OpenModel
from slipstream.backends.mlx.packed import Segment, Slot
from slipstream.backends.mlx.row import DeviceRow, Tail
from slipstream.backends.mlx.sampler import Draw, sample
from slipstream.backends.mlx.segments import Packer
from slipstream.contracts.backend import Advance, Drawn
from slipstream.contracts.sampling import Sampling


@dataclass(frozen=True, slots=True)
class Launch:
    """One forward in flight. `rows` and `tokens` (rows,) are what it draws."""

    rows: tuple[DeviceRow, ...]
    epochs: tuple[int, ...]
    tokens: mx.array


class Group:
    """`can_wait`: see sampler.sample."""

    def __init__(self, model: OpenModel, packer: Packer, *, can_wait: bool) -> None:
        self._model = model
        self._packer = packer
        self._can_wait = can_wait
        self._flying: deque[Launch] = deque()

    def launch(self, plan: Sequence[Advance], *, alone: bool) -> None:
        """Starts one forward. `alone`: the plan's only row takes the model as it came."""
        sizes: dict[DeviceRow, int] = {step.row: step.tokens for step in plan}  # type: ignore[misc]
        logits, drawing = self.forward(sizes, alone=alone)
        draws = [Draw(row.spec.prompt.sampling, row.known) for row in drawing] or [UNREAD]
        drawn = sample(logits, draws, can_wait=self._can_wait)
        mx.async_eval(drawn, [states(row) for row in sizes if row.pending])
        epochs = tuple(row.epoch for row in drawing)
        self._flying.append(Launch(tuple(drawing), epochs, drawn))
        for place, row in enumerate(drawing):
            row.draw(Tail(drawn, place))
            if row.exhausted and row.segment is not None:
                row.segment.remove(row)

    def forward(
        self, sizes: Mapping[DeviceRow, int], *, alone: bool = False
    ) -> tuple[mx.array, list[DeviceRow]]:
        """Advances each row by its size; returns logits (rows drawing, vocabulary) and those rows.

        When no row has caught up, the logits are one line that belongs to no draw."""
        rows, segments = list(sizes), []
        if not alone:
            rows, segments = self._packer.arrange(rows, sizes)
        pieces = [row.take(sizes[row]) for row in rows]
        for segment in segments:
            segment.begin()
        tokens = joined(pieces)[None]
        drawing = [row for row in rows if row.pending == 0]
        if alone:
            return self._model.plain(tokens, rows[0].caches)[-1:], drawing
        return self._model.logits(tokens, forward_over(rows, sizes, segments)), drawing

    def collect(self, keep: int) -> list[Drawn]:
        """Reads launches until `keep` are in flight. On an error no launch stays in flight."""
        found: list[Drawn] = []
        while len(self._flying) > keep:
            launch = self._flying.popleft()
            try:
                tokens: list[int] = launch.tokens.tolist()
            except BaseException:
                self._flying.clear()
                raise
            for row, epoch, token in zip(launch.rows, launch.epochs, tokens, strict=False):
                if not row.released and row.epoch == epoch:
                    found.append(Drawn(row, token))
        return found


UNREAD = Draw(Sampling(), 0)  # a chunk that ends no prompt: one token is waited for, none is drawn


def forward_over(
    rows: Sequence[DeviceRow], sizes: Mapping[DeviceRow, int], segments: Sequence[Segment]
) -> Forward:
    """The rows' newest tokens, `sizes[row]` each, already counted as computed."""
    spans: list[Span] = []
    heads: list[int] = []
    positions: list[int] = []
    for row in rows:
        start = len(positions)
        positions.extend(range(row.computed - sizes[row], row.computed))
        spans.append(Span(row, start, len(positions)))
        if row.pending == 0:
            heads.append(len(positions) - 1)
    # Something must reach the head: it is what `collect` waits for.
    return Forward(spans, segments, heads or [len(positions) - 1], mx.array(positions, mx.int32))


def joined(pieces: Sequence[list[int] | Tail]) -> mx.array:
    """(tokens,) int32: ids of the host and lazy draws, end to end."""
    parts: list[mx.array] = []
    index = 0
    while index < len(pieces):
        piece, stop = pieces[index], index + 1
        if isinstance(piece, Tail):
            while stop < len(pieces) and follows(pieces[stop], piece, stop - index):
                stop += 1
            whole = piece.place == 0 and stop - index == piece.tokens.shape[0]
            run = piece.tokens[piece.place : piece.place + stop - index]
            parts.append(piece.tokens if whole else run)
        else:
            ids = list(piece)
            while stop < len(pieces) and isinstance(more := pieces[stop], list):
                ids += more
                stop += 1
            parts.append(mx.array(ids, mx.int32))
        index = stop
    return parts[0] if len(parts) == 1 else mx.concatenate(parts)


def follows(piece: list[int] | Tail, first: Tail, distance: int) -> bool:
    return (
        isinstance(piece, Tail)
        and piece.tokens is first.tokens
        and piece.place == first.place + distance
    )


def states(row: DeviceRow) -> list[mx.array]:
    """The arrays that a row rests in."""
    flat = tree_flatten([cache.state for cache in row.caches if not isinstance(cache, Slot)])
    return [value for _, value in flat if isinstance(value, mx.array)]
