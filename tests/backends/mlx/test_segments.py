"""Which rows share a rectangle: the cheapest partition, kept until another one clearly pays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parity import tiny
from slipstream.backends.mlx.backend import MlxBackend
from slipstream.backends.mlx.device import open_device
from slipstream.backends.mlx.opening import PACKED, OpenModel
from slipstream.backends.mlx.row import DeviceRow
from slipstream.backends.mlx.segments import REVIEW, Costs, Packer, partition
from slipstream.contracts.backend import Advance
from slipstream.contracts.limits import MemoryLimits
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import Prompt, RowSpec

COSTS = Costs(row=10.0, segment=15.0, column=0.01)


@pytest.fixture(scope="module")
def model() -> OpenModel:
    made = OpenModel(tiny.build("llama"), tiny.VOCABULARY)
    made.set_level(PACKED)
    return made


def decoding(model: OpenModel, key: int, length: int, most: int = 1 << 20) -> DeviceRow:
    spec = RowSpec(key=key, lane=Lane.GROUP, prompt=Prompt(ids=(1,), max_tokens=most), deadline=0.0)
    row = DeviceRow(spec, model.new_caches())
    for layer, cache in enumerate(row.caches):
        cache.update_and_fetch(*model.blank(layer, length))
    for _ in range(length):
        row.computed = row.known
        row.feed(1)
    return row


def partitions(items: Sequence[int]) -> Iterator[list[list[int]]]:
    """Every way to split `items` into groups."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for others in partitions(rest):
        yield [[first], *others]
        for i, group in enumerate(others):
            yield [*others[:i], [first, *group], *others[i + 1 :]]


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.sampled_from([1, 10, 64, 70, 500, 4000]), min_size=1, max_size=6),
    column=st.sampled_from([0.0, 0.001, 0.05, 1.0]),
)
def test_no_other_way_to_share_is_cheaper(lengths: list[int], column: float) -> None:
    costs = Costs(row=10.0, segment=15.0, column=column)
    total = lambda groups: sum(costs.of([lengths[i] for i in group]) for group in groups)  # noqa: E731
    found = partition(lengths, costs)
    assert sorted(i for group in found for i in group) == list(range(len(lengths)))
    assert total(found) <= min(total(other) for other in partitions(range(len(lengths)))) + 1e-9


def test_a_long_row_stays_outside_of_the_short_ones_rectangle(model: OpenModel) -> None:
    rows = [decoding(model, key, length) for key, length in enumerate([4000, *[64] * 7])]
    packer = Packer(model.packable, COSTS)
    ordered, segments = packer.arrange(rows, dict.fromkeys(rows, 1))
    assert [len(segment.rows) for segment in segments] == [7]
    assert ordered[-1] is rows[0]


def test_a_row_that_fills_is_never_packed(model: OpenModel) -> None:
    rows = [decoding(model, key, 64) for key in range(4)]
    packer = Packer(model.packable, COSTS)
    _, segments = packer.arrange(rows, {row: 1 if row is not rows[2] else 5 for row in rows})
    assert rows[2].segment is None
    assert [len(segment.rows) for segment in segments] == [3]


@pytest.mark.parametrize(("share", "packed"), [(1.0, True), (0.5, False)])
def test_a_rectangle_takes_no_more_than_its_rows_were_promised(
    model: OpenModel, share: float, packed: bool
) -> None:
    rows = [decoding(model, key, 200) for key in range(4)]
    for row in rows:
        row.promised = int(share * 512 * 100)
    packer = Packer(model.packable, COSTS, token_bytes=100)
    _, segments = packer.arrange(rows, dict.fromkeys(rows, 1))
    assert bool(segments) is packed


@pytest.mark.parametrize("count", [3, 7])
def test_rows_without_bytes_to_spare_share_without_spare_slots(
    model: OpenModel, count: int
) -> None:
    rows = [decoding(model, key, 250, most=255) for key in range(count)]
    for row in rows:
        row.promised = 256 * 100
    packer = Packer(model.packable, COSTS, token_bytes=100)
    _, segments = packer.arrange(rows, dict.fromkeys(rows, 1))
    assert [len(segment.rows) for segment in segments] == [count]
    assert segments[0].tokens * 100 == sum(row.promised for row in rows)


def test_rows_with_bytes_to_spare_join_a_rectangle_that_has_free_slots(model: OpenModel) -> None:
    rows = [decoding(model, key, 100) for key in range(8)]
    for row in rows:
        row.promised = 1024 * 100
    packer = Packer(model.packable, COSTS, token_bytes=100)
    _, segments = packer.arrange(rows[:6], dict.fromkeys(rows[:6], 1))
    tokens = segments[0].tokens
    _, segments = packer.arrange(rows, dict.fromkeys(rows, 1))
    assert [len(segment.rows) for segment in segments] == [8]
    assert segments[0].tokens == tokens


def test_rows_that_leave_take_their_room_along(model: OpenModel) -> None:
    rows = [decoding(model, key, 100) for key in range(8)]
    for row in rows:
        row.promised = 256 * 100
    packer = Packer(model.packable, COSTS, token_bytes=100)
    packer.arrange(rows, dict.fromkeys(rows, 1))
    before = [kept(row) for row in rows]
    for left in (rows[:4], rows[2:4]):
        packer.arrange(left, dict.fromkeys(left, 1))
        held = sum(segment.tokens * 100 for segment in packer.segments)
        assert held <= sum(row.promised for row in left)
        assert all(mx.array_equal(kept(row), before[row.spec.key]) for row in left)


def kept(row: DeviceRow) -> mx.array:
    """The keys of its first layer."""
    cache = row.caches[0]
    keys = cache.buffers()[0] if row.segment else cache.keys
    return keys[..., : row.computed, :]


@pytest.mark.parametrize("prefix", [0, 1 << 26])
@pytest.mark.parametrize("tokens", [6, 50])
def test_the_gauge_stays_within_what_live_rows_were_promised(tokens: int, prefix: int) -> None:
    backend = MlxBackend(
        tiny.build("llama"),
        open_device(),
        tiny.VOCABULARY,
        limits=MemoryLimits(prefix_cache=prefix),
        level=PACKED,
        costs=Costs(row=1.0, segment=0.1, column=1e-6),
    )
    live: list[Any] = []
    packed = 0
    for key in range(24):
        prompt = Prompt(ids=tuple(range(3, 33)), max_tokens=tokens)
        spec = RowSpec(key=key, lane=Lane.GROUP, prompt=prompt, deadline=0.0)
        row: Any = backend.open(spec)
        live.append(row)
        while len(live) == 8 or row.drawn == 0:
            backend.launch([Advance(row, row.pending) for row in live if not row.exhausted])
            assert backend.memory().kv <= len(live) * backend.project(spec)
            packed = max(packed, len(backend._packer.segments))
            ended = live[:4] if row.drawn == 5 else []
            for one in ended:
                backend.collect(0)
                backend.release(one)
                live.remove(one)
        backend.collect(0)
    assert packed, "nothing was packed"


def test_an_arrangement_stays_while_it_is_good_enough(model: OpenModel) -> None:
    rows = [decoding(model, key, 64) for key in range(4)]
    packer = Packer(model.packable, COSTS)
    packer.arrange(rows[:3], dict.fromkeys(rows[:3], 1))
    before = rows[0].segment
    assert before is not None
    packer.arrange(rows, dict.fromkeys(rows, 1))
    assert rows[0].segment is before
    for _ in range(REVIEW + 1):
        packer.arrange(rows, dict.fromkeys(rows, 1))
    assert rows[0].segment is before


@settings(max_examples=25, deadline=None)
@given(
    turns=st.lists(st.sets(st.integers(0, 6), min_size=1), min_size=1, max_size=12),
    lengths=st.lists(st.sampled_from([3, 64, 300, 900]), min_size=7, max_size=7),
)
def test_every_row_of_a_step_stands_in_it_once_whoever_comes_and_goes(
    model: OpenModel, turns: list[set[int]], lengths: list[int]
) -> None:
    rows = [decoding(model, key, length) for key, length in enumerate(lengths)]
    packer = Packer(model.packable, Costs(row=1.0, segment=0.1, column=1e-4))
    for turn in turns:
        live = [rows[i] for i in sorted(turn)]
        ordered, segments = packer.arrange(live, dict.fromkeys(live, 1))
        packed = [row for segment in segments for row in segment.rows]
        assert ordered[: len(packed)] == packed
        assert sorted(row.spec.key for row in ordered) == sorted(turn)
        assert all(row.segment is None for row in ordered[len(packed) :])
