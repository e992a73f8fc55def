"""Which decoding rows share a rectangle: the cheapest partition by measured cost, with hysteresis.

A launch (the operations of one row's or one segment's attention, through all layers) costs time,
and so does every column attended to, padding included. Nothing else is weighed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from slipstream.backends.mlx.packed import Segment, rectangle_tokens, rounded
from slipstream.backends.mlx.row import DeviceRow

REVIEW = 64  # steps after which an unchanged set of rows is looked at again
MARGIN = 1  # rows' launches that a new arrangement must save
SLOTS = 4  # a rectangle's height is a multiple, where its rows' bytes allow: joins are cheap then
MOVES = 128  # steps over which copying a row into a segment must pay


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds: of one row's attention beyond its columns, of a segment's likewise, of a column."""

    row: float
    segment: float
    column: float

    def of(self, lengths: Sequence[int]) -> float:
        """One step over rows of `lengths` together: alone when there is one."""
        if len(lengths) == 1:
            return self.row + self.column * lengths[0]
        return self.segment + self.column * len(lengths) * max(lengths)


def partition(lengths: Sequence[int], costs: Costs) -> list[list[int]]:
    """The cheapest way to share, as lists of indices into `lengths`.

    Rows that share are neighbours by length, so the best of n rows is the best of a prefix and one
    more group."""
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    ordered = [lengths[i] for i in order]
    best: list[tuple[float, int]] = [(0.0, 0)]
    for stop in range(1, len(ordered) + 1):
        best.append(
            min((best[start][0] + costs.of(ordered[start:stop]), start) for start in range(stop))
        )
    groups: list[list[int]] = []
    stop = len(ordered)
    while stop:
        start = best[stop][1]
        groups.append(order[start:stop])
        stop = start
    return groups[::-1]


class Packer:
    """Keeps the segments. `layers` are those that can be packed; without any, nothing is.

    `token_bytes`: what a token takes in all of them; a rectangle may not take more than its rows
    were promised."""

    def __init__(self, layers: Sequence[int], costs: Costs, token_bytes: int = 0) -> None:
        self._layers = tuple(layers)
        self._costs = costs
        self._token_bytes = token_bytes
        self._segments: list[Segment] = []
        self._seen: frozenset[int] = frozenset()
        self._age = 0

    @property
    def segments(self) -> Sequence[Segment]:
        self._segments = [segment for segment in self._segments if segment.rows]
        return self._segments

    def arrange(
        self, rows: Sequence[DeviceRow], sizes: Mapping[DeviceRow, int]
    ) -> tuple[list[DeviceRow], list[Segment]]:
        """(rows in the order of their tokens, the segments that come first among them)."""
        if not self._layers:
            return list(rows), []
        steady = [row for row in rows if sizes[row] == 1 and row.drawn > 0 and not row.turned]
        self._drop_absent(set(steady))
        self._review(steady)
        packed = [row for segment in self._segments for row in segment.rows]
        inside = set(packed)
        return packed + [row for row in rows if row not in inside], list(self._segments)

    def forget(self, row: DeviceRow) -> None:
        """Gives up the row's segment, whose arrays are not to be trusted, with all its rows."""
        if row.segment is not None:
            row.segment.abandon()
        self._segments = [segment for segment in self._segments if segment.rows]

    def _drop_absent(self, present: set[DeviceRow]) -> None:
        """A rectangle steps as a whole, so a row that does not step now leaves it."""
        for segment in self._segments:
            for row in [row for row in segment.rows if row not in present]:
                segment.evict(row)
        self._segments = [segment for segment in self._segments if segment.rows]

    def _review(self, steady: Sequence[DeviceRow]) -> None:
        seen = frozenset(map(id, steady))
        self._age += 1
        if seen == self._seen and self._age < REVIEW:
            return
        self._seen, self._age = seen, 0
        wanted = partition([row.computed for row in steady], self._costs)
        groups = list(self._affordable([[steady[i] for i in group] for group in wanted]))
        moving = sum(r.computed for g in groups if len(g) > 1 for r in g if r.segment is None)
        cost = sum(self._costs.of([row.computed for row in group]) for group in groups)
        cost += self._costs.column * moving / MOVES + self._costs.row * MARGIN
        if cost < self._current(steady) or not all(self._fits(s.rows) for s in self._segments):
            self._rebuild([group for group in groups if len(group) > 1])
        self._shrink()

    def _shrink(self) -> None:
        """Others may soon be promised the bytes of rows that have left a rectangle."""
        for segment in self._segments:
            if segment.tokens * self._token_bytes > promised(segment.rows):
                segment.shrink(self._height(segment.rows))

    def _affordable(self, groups: Sequence[list[DeviceRow]]) -> Iterator[list[DeviceRow]]:
        for group in groups:
            if self._fits(group):
                yield group
            else:
                yield from ([row] for row in group)

    def _fits(self, group: Sequence[DeviceRow], slots: int = 0) -> bool:
        """Whether the rectangle stays within what its rows were promised, until the next review."""
        slots = max(slots, len(group))
        columns = max(min(row.computed + REVIEW, row.spec.length_limit - 1) for row in group)
        tokens = rectangle_tokens(slots, columns)
        return slots == 1 or tokens * self._token_bytes <= promised(group)

    def _height(self, group: Sequence[DeviceRow]) -> int:
        """How many slots a rectangle of `group` gets."""
        slots = rounded(len(group), SLOTS)
        return slots if self._fits(group, slots) else len(group)

    def _current(self, steady: Sequence[DeviceRow]) -> float:
        groups = [segment.rows for segment in self._segments]
        groups += [[row] for row in steady if row.segment is None]
        return sum(self._costs.of([row.computed for row in group]) for group in groups)

    def _rebuild(self, groups: Sequence[Sequence[DeviceRow]]) -> None:
        """Makes the segments those of `groups`; each keeps the segment that holds most of it."""
        free = list(self._segments)
        kept: list[tuple[Segment | None, Sequence[DeviceRow]]] = []
        for group in groups:
            members = set(group)
            best = max(free, key=lambda s: len(members & set(s.rows)), default=None)
            if best is not None and members & set(best.rows):
                free.remove(best)
            else:
                best = None
            kept.append((best, group))
        for segment in free:
            for row in list(segment.rows):
                segment.evict(row)
        for segment, group in kept:
            if segment is not None:
                for row in [row for row in segment.rows if row not in group]:
                    segment.evict(row)
        self._segments = [self._filled(segment, group) for segment, group in kept]

    def _filled(self, segment: Segment | None, group: Sequence[DeviceRow]) -> Segment:
        segment = segment or Segment(self._layers)
        segment.make_room(self._height(group))
        for row in group:
            if row.segment is None:
                segment.add(row)
        return segment


def promised(rows: Sequence[DeviceRow]) -> int:
    """Bytes that they may come to hold."""
    return sum(row.promised for row in rows)
