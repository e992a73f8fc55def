"""What one forward consists of: its rows' tokens end to end, and whose logits are wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import mlx.core as mx

from slipstream.backends.mlx.mixer import Forward, Span
from slipstream.backends.mlx.packed import Segment
from slipstream.backends.mlx.row import DeviceRow, Tail


@dataclass(frozen=True, slots=True)
class Score:
    """Lines first..first + len(targets) of the logits are about `targets`, tokens of `row`."""

    row: DeviceRow
    first: int
    targets: tuple[int, ...]
    epoch: int  # the row's, when its forward was built


@dataclass(frozen=True, slots=True)
class Heads:
    """Which tokens of a forward reach the head, ascending, and what their lines are for.

    `lines[i]` is the line from which `drawing[i]` draws; when no row draws, one line is there to be
    waited for."""

    tokens: tuple[int, ...]
    drawing: tuple[DeviceRow, ...]
    lines: tuple[int, ...]
    scores: tuple[Score, ...]


def forward_over(
    rows: Sequence[DeviceRow], sizes: Mapping[DeviceRow, int], segments: Sequence[Segment]
) -> Forward:
    """The rows' newest tokens, `sizes[row]` each, already counted as computed."""
    spans: list[Span] = []
    positions: list[int] = []
    for row in rows:
        start = len(positions)
        positions.extend(range(row.computed - sizes[row], row.computed))
        spans.append(Span(row, start, len(positions)))
    return Forward(spans, segments, mx.array(positions, mx.int32))


def heads_over(rows: Sequence[DeviceRow], sizes: Mapping[DeviceRow, int]) -> Heads:
    """As `forward_over`; a row draws when it has caught up, and is scored where its prompt says."""
    tokens: list[int] = []
    drawing: list[DeviceRow] = []
    lines: list[int] = []
    scores: list[Score] = []
    start = 0
    for row in rows:
        size = sizes[row]
        targets = _targets(row, size)
        if targets:
            scores.append(Score(row, len(tokens), targets, row.epoch))
            tokens.extend(range(start, start + len(targets)))
        if row.pending == 0 and row.spec.prompt.pooling is None:
            drawing.append(row)
            lines.append(len(tokens))
            tokens.append(start + size - 1)
        start += size
    return Heads(tuple(tokens or [start - 1]), tuple(drawing), tuple(lines), tuple(scores))


def _targets(row: DeviceRow, size: int) -> tuple[int, ...]:
    """The prompt tokens that the row's newest `size` tokens foretell, where they are wanted."""
    prompt = row.spec.prompt
    if not prompt.prompt_logprobs or row.drawn:
        return ()
    first = row.computed - size + 1
    return prompt.ids[first : row.computed + 1]


def joined(pieces: Sequence[list[int] | Tail]) -> mx.array:
    """(tokens,) int32: ids of the host and lazy draws, end to end."""
    parts: list[mx.array] = []
    index = 0
    while index < len(pieces):
        piece, stop = pieces[index], index + 1
        if isinstance(piece, Tail):
            while stop < len(pieces) and _follows(pieces[stop], piece, stop - index):
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


def _follows(piece: list[int] | Tail, first: Tail, distance: int) -> bool:
    return (
        isinstance(piece, Tail)
        and piece.tokens is first.tokens
        and piece.place == first.place + distance
    )
