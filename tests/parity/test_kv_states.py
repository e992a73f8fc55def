"""A row in codes says after any schedule what it says alone, for every cache kind and scheme."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import RotatingKVCache

from slipstream.backends.mlx.check import ALWAYS, Verdict, check_codes, recheck
from slipstream.backends.mlx.footprint import coded as codings
from slipstream.backends.mlx.group import Group
from slipstream.backends.mlx.kv.cache import CodedCache, Coding
from slipstream.backends.mlx.kv.codec import Whole
from slipstream.backends.mlx.opening import FUSED, GENERIC, PACKED, OpenModel
from slipstream.backends.mlx.paths import spread
from slipstream.backends.mlx.row import DeviceRow, forked
from slipstream.backends.mlx.segments import Costs, Packer
from slipstream.contracts.kv import parse

from . import coded, tiny
from .test_states import Plan, plans, row_of, together

TOLERANCE = 1e-3  # of logits that spread one to three
FUSIBLE = ("llama", "gemma3_text", "gpt_oss")


def expected(model: OpenModel, plan: Plan) -> list[mx.array]:
    found = coded.alone(model, plan.ids(), plan.cuts())
    return [found[end] for end in plan.cuts() if end >= plan.length]


@pytest.mark.parametrize("scheme", coded.SCHEMES)
@pytest.mark.parametrize("kind", coded.KINDS)
@settings(max_examples=4, deadline=None)
@given(schedule=plans)
def test_generic_rows_equal_the_plain_twin_to_the_bit(
    kind: str, scheme: str, schedule: list[Plan]
) -> None:
    model = coded.opened(kind, scheme)
    model.set_level(GENERIC)
    for plan, found in zip(schedule, together(model, schedule, ALWAYS), strict=True):
        for mine, theirs in zip(found, expected(model, plan), strict=True):
            assert mx.array_equal(mine, theirs)


@pytest.mark.parametrize("level", [FUSED, PACKED])
@pytest.mark.parametrize("start", [0, 20])
@pytest.mark.parametrize("kind", FUSIBLE)
@settings(max_examples=4, deadline=None)
@given(schedule=plans)
def test_attending_to_parts_changes_nothing_but_rounding(
    kind: str, start: int, level: int, schedule: list[Plan]
) -> None:
    """In parts that hold numbers as they are: between two codes one takes either, by the rounding
    of what made it, and all that follows moves. The self-check compares each layer in codes."""
    model = coded.whole(kind, start)
    model.set_level(level)
    costs = Costs(row=1.0, segment=0.1, column=1e-3)
    for plan, found in zip(schedule, together(model, schedule, costs), strict=True):
        for mine, theirs in zip(found, expected(model, plan), strict=True):
            assert mx.allclose(mine, theirs, atol=TOLERANCE, rtol=0).item()


@pytest.mark.parametrize("level", [GENERIC, PACKED])
def test_codes_begin_at_their_token_and_not_before(level: int) -> None:
    model = coded.opened("llama", "affine:8:32@20")
    model.set_level(level)
    plan = Plan(0, 17, 64, 12)
    group = Group(model, Packer(model.packable, ALWAYS), can_wait=False)
    rows = [row_of(model, key, plan) for key in range(2)]
    while rows[0].computed < plan.total:
        group.forward({row: row.pending for row in rows})
        for row in rows:
            assert row.turned == (row.computed > 20)
            assert holds_codes(row) == row.turned
            assert (row.segment is not None) == (level == PACKED and 17 < row.computed <= 20)
            if row.computed < plan.total:
                row.feed(plan.ids()[row.computed])


def holds_codes(row: DeviceRow) -> bool:
    return any(isinstance(cache, CodedCache) for cache in row.caches)


@pytest.mark.parametrize("kind", coded.KINDS)
def test_a_fork_goes_on_as_its_source_does(kind: str) -> None:
    model = coded.opened(kind, "affine:4:32")
    model.set_level(GENERIC)
    ids = Plan(0, 40, 40, 0).ids()
    caches = model.new_caches()
    model.plain(mx.array([ids[:30]]), caches, [29])
    copies = [forked(cache) for cache in caches]
    model.plain(mx.array([[3, 1, 4]]), copies, [2])  # writes to the copy alone
    copies = [forked(cache) for cache in caches]
    one, two = (model.plain(mx.array([ids[30:]]), each, [9]) for each in (caches, copies))
    assert mx.array_equal(one, two)


@pytest.mark.parametrize("scheme", coded.SCHEMES)
@pytest.mark.parametrize("kind", coded.KINDS)
def test_the_self_check_passes_in_codes(kind: str, scheme: str) -> None:
    model = coded.opened(kind, scheme)
    model.set_level(FUSED if kind in FUSIBLE else GENERIC)
    assert check_codes(model, tiny.VOCABULARY) is None


def test_the_self_check_sees_a_wrong_scale() -> None:
    model = OpenModel(coded.build("llama"), tiny.VOCABULARY)
    model.shapes = {i: replace(s, scale=s.scale / 2) for i, s in model.shapes.items()}
    model.set_level(FUSED)
    model.code(codings(model, parse("affine:8:32")))
    found = recheck(model, tiny.VOCABULARY, Verdict(FUSED, ()))
    assert found.level == GENERIC
    assert "in codes" in found.notes[0]


@pytest.mark.parametrize("kind", coded.KINDS)
def test_what_is_attended_to_is_in_codes_and_the_rest_is_not(kind: str) -> None:
    model = coded.opened(kind, "affine:8:32")
    kept = [type(c).__name__ for c in spread(model.new_caches()).values()]
    assert "CodedCache" in kept
    assert set(kept) - {"CodedCache"} <= {"ArraysCache", "KVCache"}
    assert kept.count("KVCache") == (3 if kind == "glm_moe_dsa" else 0)  # what its index chooses by


@settings(max_examples=20, deadline=None)
@given(window=st.integers(4, 12), sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_a_window_keeps_what_a_plain_window_keeps(window: int, sizes: list[int]) -> None:
    coding = Coding.of(Whole(4, mx.float32), Whole(8, mx.float32), 2, mx.float32)
    plain = RotatingKVCache(window)
    mine = CodedCache(coding, RotatingKVCache(window))
    for turn, size in enumerate(sizes):
        keys = mx.full((1, 2, size, 4), turn) + mx.arange(size)[:, None] / 16
        values = mx.concatenate([keys, -keys], axis=-1)
        masks = [cache.make_mask(size, window_size=window) for cache in (plain, mine)]
        assert str(masks[0]) == str(masks[1])
        for one, two in zip(
            plain.update_and_fetch(keys, values), mine.update_and_fetch(keys, values), strict=True
        ):
            assert mx.array_equal(one, two)
        assert mine.offset == plain.offset
        assert mine.nbytes == plain.nbytes
