"""What rows have said so far, on the device, for the penalties that look back at it.

One buffer for all penalised rows of a step, (rows, columns) int32, right-padded; a draw is appended
without being read. Rebuilt from the host's ids when the set of rows changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from slipstream.backends.mlx.row import DeviceRow
from slipstream.contracts.sampling import Sampling

SLACK = 128  # columns to append to before the buffer is built anew


class History:
    """Tokens of `rows`, as far back as any of their penalties looks."""

    def __init__(self, rows: Sequence[DeviceRow]) -> None:
        kept = [_tokens(row) for row in rows]
        self._rows = mx.arange(len(rows))
        self._counts = [
            len(ids) + (row.unread is not None) for ids, row in zip(kept, rows, strict=True)
        ]
        # The first column of the row's own tokens: what it drew, not what it was asked.
        self._own = [count - row.drawn for count, row in zip(self._counts, rows, strict=True)]
        width = max(self._counts) + SLACK
        self._left = SLACK
        self.ids = mx.array([ids + [0] * (width - len(ids)) for ids in kept], mx.int32)
        unread = [(i, row.unread) for i, row in enumerate(rows) if row.unread is not None]
        for i, tail in unread:
            self.ids[i, self._counts[i] - 1] = tail.tokens[tail.place]

    @property
    def full(self) -> bool:
        """Has to be built anew before the next `append`."""
        return self._left == 0

    def append(self, tokens: mx.array) -> None:
        """One draw a row, shape (rows,)."""
        self.ids[self._rows, mx.array(self._counts)] = tokens
        self._counts = [count + 1 for count in self._counts]
        self._left -= 1

    def window(self, sizes: Sequence[int], *, own: bool) -> tuple[mx.array, mx.array]:
        """(ids, inside), both (rows, columns): the last `sizes` tokens of each row, 0 for all.

        `own`: of those that the row drew itself. An id outside repeats the row's newest token, so
        that writing the same value to all ids of a row touches the inside only, if there is one."""
        ends = mx.array(self._counts)[:, None]
        floors = [max(0, own_start) if own else 0 for own_start in self._own]
        starts = [
            max(floor, count - size) if size else floor
            for floor, count, size in zip(floors, self._counts, sizes, strict=True)
        ]
        columns = mx.arange(self.ids.shape[1])[None]
        inside = (columns >= mx.array(starts)[:, None]) & (columns < ends)
        newest = mx.take_along_axis(self.ids, ends - 1, axis=1)
        return mx.where(inside, self.ids, newest), inside


def _tokens(row: DeviceRow) -> list[int]:
    """The row's tokens that the host knows, no further back than its penalties look."""
    reach = _reach(row.spec.prompt.sampling, row.drawn)
    return row.ids if reach is None else row.ids[-reach:]


def _reach(sampling: Sampling, drawn: int) -> int | None:
    """How many tokens back the penalties look; None for all. At least 1."""
    if sampling.repetition_penalty != 1.0 and sampling.repetition_context_size == 0:
        return None
    looks = [1]
    if sampling.repetition_penalty != 1.0:
        looks.append(sampling.repetition_context_size)
    if sampling.presence_penalty:
        looks.append(min(drawn, sampling.presence_context_size or drawn))
    if sampling.frequency_penalty:
        looks.append(min(drawn, sampling.frequency_context_size or drawn))
    return max(looks)
