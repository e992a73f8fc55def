"""Level 3, packed: rows of like length share one rectangle of keys and values.

Each row keeps a slot for as long as it stays and starts at column 0, so that a join writes one
slot, a leave moves at most one, and a step scatters one column a row. Attention masks what lies
beyond a row's own length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache, create_attention_mask

from slipstream.backends.mlx.row import DeviceRow

COLUMNS = 256  # widths are multiples of it


class Slot:
    """Stands in a row's list of caches while a segment holds the keys and values."""

    def __init__(self, row: DeviceRow, segment: Segment, layer: int, token_bytes: int) -> None:
        self.row = row
        self.segment = segment
        self.layer = layer
        self.token_bytes = token_bytes

    def buffers(self) -> tuple[mx.array, mx.array]:
        """The row's keys and values, (1, heads, columns, size), with room behind them."""
        place = self.segment.rows.index(self.row)
        keys, values = self.segment.keys[self.layer], self.segment.values[self.layer]
        return keys[place : place + 1], values[place : place + 1]

    @property
    def offset(self) -> int:
        return self.row.computed

    @property
    def nbytes(self) -> int:
        return self.row.computed * self.token_bytes

    def empty(self) -> bool:
        return False

    def make_mask(self, tokens: int, **options: Any) -> Any:
        # The row's tokens of this forward are already counted as computed.
        options = {"return_array": False, "window_size": None, **options}
        return create_attention_mask(tokens, offset=self.offset - tokens, **options)


class Segment:
    """Some rows, one slot each, in every layer that can be packed.

    Arrays per layer: (slots, heads, columns, head size). Slot i belongs to rows[i].
    """

    def __init__(
        self, layers: Sequence[int], rows: Sequence[DeviceRow] = (), slots: int = 0
    ) -> None:
        """`slots`: see make_room."""
        self.layers = tuple(layers)
        self.rows: list[DeviceRow] = []
        self.keys: dict[int, mx.array] = {}
        self.values: dict[int, mx.array] = {}
        self._slots = max(slots, len(rows))
        self._newest = mx.array([], mx.int32)
        self._lines: dict[tuple[int, int], mx.array] = {}
        self.width = 0
        self.mask: mx.array | None = None
        for row in rows:
            self.add(row)

    def make_room(self, slots: int) -> None:
        """The rectangles have as many slots from the next row on that needs one more; without it,
        they grow by one at a time."""
        self._slots = slots

    def add(self, row: DeviceRow) -> None:
        """Takes the row's keys and values over from its caches; it must rest at its end."""
        assert row.segment is None
        place = len(self.rows)
        length, slots = row.computed, max(self._slots, place + 1)
        for layer in self.layers:
            cache: KVCache = row.caches[layer]
            keys, values = cache.keys[..., :length, :], cache.values[..., :length, :]
            self.keys[layer] = place_in(self.keys.get(layer), keys, place, slots)
            self.values[layer] = place_in(self.values.get(layer), values, place, slots)
            size = (keys.nbytes + values.nbytes) // max(length, 1)
            row.caches[layer] = Slot(row, self, layer, size)
        self.rows.append(row)
        row.segment = self

    def remove(self, row: DeviceRow) -> None:
        """Drops the row and its slot; the last slot moves into the hole."""
        place, last = self.rows.index(row), len(self.rows) - 1
        if place != last:
            # Copied out first: while a rectangle is read, it cannot be written in place.
            moved = self._copied(last)
            for arrays, parts in ((self.keys, moved[0]), (self.values, moved[1])):
                for layer, part in parts.items():
                    arrays[layer][place, :, : part.shape[2]] = part[0]
            self.rows[place] = self.rows[last]
        self.rows.pop()
        row.segment = None

    def evict(self, row: DeviceRow) -> None:
        """Gives the row caches of its own again."""
        keys, values = self._copied(self.rows.index(row))
        for layer in self.layers:
            cache = KVCache()
            cache.keys, cache.values = keys[layer], values[layer]
            cache.offset = row.computed
            row.caches[layer] = cache
        self.remove(row)

    def _copied(self, place: int) -> tuple[dict[int, mx.array], dict[int, mx.array]]:
        """Keys and values of one slot, by layer, each (1, heads, length, size), evaluated."""
        length = self.rows[place].computed
        copies = tuple(
            {
                layer: mx.contiguous(array[place : place + 1, :, :length])
                for layer, array in arrays.items()
            }
            for arrays in (self.keys, self.values)
        )
        mx.eval(copies)
        return copies

    def begin(self) -> None:
        """Prepares one step: every row has just counted its token as computed."""
        lengths = [row.computed for row in self.rows]
        self.width = max(lengths)
        for arrays in (self.keys, self.values):
            for layer in self.layers:
                arrays[layer] = widened(arrays[layer], self.width)
        some = self.keys[self.layers[0]]
        ends = mx.array(lengths, mx.int32)[:, None]
        beyond = mx.arange(self.width)[None] >= ends
        self.mask = mx.where(beyond, mx.finfo(some.dtype).min, 0).astype(some.dtype)[:, None, None]
        self._newest = ends - 1
        self._lines.clear()

    def _written(self, rectangle: mx.array, token: mx.array) -> mx.array:
        """`token`, (rows, heads, size), in each row's newest column; in place when evaluated."""
        _, heads, columns, size = rectangle.shape
        lines = self._lines.get((heads, columns))
        if lines is None:
            # As a list of lines of one head's size, which scatters quickest.
            start = mx.arange(len(self.rows) * heads).reshape(-1, heads) * columns
            lines = self._lines[heads, columns] = (start + self._newest).reshape(-1)
        flat = rectangle.reshape(-1, size)
        flat[lines] = token.reshape(-1, size)
        return flat.reshape(rectangle.shape)

    def update(self, layer: int, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Writes one token a row, shape (rows, heads, size); returns what the rows attend to."""
        count = len(self.rows)
        self.keys[layer] = self._written(self.keys[layer], keys)
        self.values[layer] = self._written(self.values[layer], values)
        return (
            self.keys[layer][:count, :, : self.width],
            self.values[layer][:count, :, : self.width],
        )

    def abandon(self) -> None:
        """Lets go of all rows without reading anything: what the arrays hold cannot be trusted."""
        for row in self.rows:
            row.segment = None
        self.rows.clear()

    def shrink(self, slots: int) -> None:
        """Gives up the room that its rows do not need, but for `slots` of them. A layer at a time,
        so that little is held twice."""
        self._slots = slots
        columns = rounded(max(row.computed for row in self.rows) + 1, COLUMNS)
        for arrays in (self.keys, self.values):
            for layer in self.layers:
                arrays[layer] = mx.contiguous(arrays[layer][:slots, :, :columns])
                mx.eval(arrays[layer])

    @property
    def tokens(self) -> int:
        """How many it has room for."""
        some = self.keys[self.layers[0]]
        return some.shape[0] * some.shape[2]

    @property
    def slack(self) -> int:
        """Bytes of the rectangles beyond what its rows would hold in caches of their own."""
        whole = sum(a.nbytes for a in (*self.keys.values(), *self.values.values()))
        alone = sum(rounded(row.computed, KVCache.step) for row in self.rows)
        return whole - whole // self.tokens * alone


def rectangle_tokens(slots: int, columns: int) -> int:
    """Tokens that a rectangle of `slots` has room for, `columns` in use and one to write next."""
    return slots * rounded(columns + 1, COLUMNS)


def rounded(count: int, step: int) -> int:
    """Up, to a multiple of `step`."""
    return -(-count // step) * step


def place_in(rectangle: mx.array | None, row: mx.array, place: int, slots: int) -> mx.array:
    """`row`, (1, heads, columns, size), written into slot `place`; grows what is too small, to
    `slots`."""
    _, heads, columns, size = row.shape
    wanted = rounded(columns + 1, COLUMNS)
    if rectangle is None:
        rectangle = mx.zeros((slots, heads, wanted, size), row.dtype)
    rectangle = widened(rectangle, wanted)
    if place == rectangle.shape[0]:
        more = mx.zeros((slots - place, *rectangle.shape[1:]), rectangle.dtype)
        rectangle = mx.concatenate([rectangle, more], axis=0)
    rectangle[place, :, :columns] = row[0]
    return rectangle


def widened(rectangle: mx.array, columns: int) -> mx.array:
    short = columns - rectangle.shape[2]
    if short <= 0:
        return rectangle
    slots, heads, _, size = rectangle.shape
    more = rounded(short, COLUMNS)
    return mx.concatenate(
        [rectangle, mx.zeros((slots, heads, more, size), rectangle.dtype)], axis=2
    )
