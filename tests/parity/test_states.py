"""A row's logits after any schedule of joins, leaves and neighbours are its solo logits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.backends.mlx.check import ALWAYS
from slipstream.backends.mlx.group import Group
from slipstream.backends.mlx.opening import FUSED, GENERIC, PACKED, OpenModel
from slipstream.backends.mlx.row import DeviceRow
from slipstream.backends.mlx.segments import Costs, Packer
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import Prompt, RowSpec

from . import tiny

# Level 2 and 3 change the order of sums; logits here spread over several units.
TOLERANCE = 2e-3
LENGTHS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 40, 255, 256, 257)
CHUNKS = (5, 8, 16, 64, 300)
FUSIBLE = ("llama", "gemma3_text", "gpt_oss")


@dataclass(frozen=True)
class Plan:
    """One row: when it joins, its prompt, the chunk it fills by, how many tokens it then takes."""

    joins: int
    length: int
    chunk: int
    steps: int

    def ids(self) -> list[int]:
        return [(31 * self.length + 17 * i * i + 5) % tiny.VOCABULARY for i in range(self.total)]

    @property
    def total(self) -> int:
        return self.length + self.steps

    def cuts(self) -> list[int]:
        """Where its forwards end: chunks of the prompt, then single tokens."""
        fill = [*range(self.chunk, self.length, self.chunk), self.length]
        return [0, *fill, *range(self.length + 1, self.total + 1)]


plans = st.lists(
    st.builds(
        Plan,
        joins=st.integers(0, 6),
        length=st.sampled_from(LENGTHS),
        chunk=st.sampled_from(CHUNKS),
        steps=st.integers(0, 12),
    ),
    min_size=1,
    max_size=5,
)


@cache
def opened(kind: str) -> OpenModel:
    return OpenModel(tiny.build(kind), tiny.VOCABULARY)


def row_of(model: OpenModel, key: int, plan: Plan) -> DeviceRow:
    prompt = Prompt(ids=tuple(plan.ids()[: plan.length]), max_tokens=plan.steps + 1)
    return DeviceRow(
        RowSpec(key=key, lane=Lane.GROUP, prompt=prompt, deadline=0.0), model.new_caches()
    )


def alone(model: OpenModel, plan: Plan) -> list[mx.array]:
    """The plain twin: the model as it came, one row, the same tokens in each forward."""
    caches, ids, found = model.new_caches(), plan.ids(), []
    for start, stop in pairwise(plan.cuts()):
        logits = model.plain(mx.array([ids[start:stop]]), caches, [stop - start - 1])[0]
        if stop >= plan.length:
            found.append(logits)
    mx.eval(found)
    return found


def together(model: OpenModel, schedule: list[Plan], costs: Costs) -> list[list[mx.array]]:
    """All rows of `schedule` in one group, joining and leaving as they say."""
    group = Group(model, Packer(model.packable, costs), can_wait=False)
    rows = [row_of(model, key, plan) for key, plan in enumerate(schedule)]
    found: dict[DeviceRow, list[mx.array]] = {row: [] for row in rows}
    live: dict[DeviceRow, Plan] = {}
    waiting = list(zip(rows, schedule, strict=True))
    turn = 0
    while waiting or live:
        live.update({row: plan for row, plan in waiting if plan.joins <= turn})
        waiting = [(row, plan) for row, plan in waiting if plan.joins > turn]
        turn += 1
        if not live:
            continue
        done = group.forward({row: min(plan.chunk, row.pending) for row, plan in live.items()})
        mx.eval(done.logits)
        for place, row in enumerate(done.drawing):
            found[row].append(done.logits[place])
            if row.computed == live[row].total:
                del live[row]
                if row.segment is not None:
                    row.segment.remove(row)
            else:
                row.feed(live[row].ids()[row.computed])
    return [found[row] for row in rows]


@pytest.mark.parametrize("kind", tiny.CONFIGS)
@settings(max_examples=8, deadline=None)
@given(schedule=plans)
def test_generic_rows_equal_solo_rows_to_the_bit(kind: str, schedule: list[Plan]) -> None:
    model = opened(kind)
    model.set_level(GENERIC)
    for plan, found in zip(schedule, together(model, schedule, ALWAYS), strict=True):
        expected = alone(model, plan)
        assert len(found) == len(expected) == plan.steps + 1
        for mine, theirs in zip(found, expected, strict=True):
            assert mx.array_equal(mine, theirs)


@pytest.mark.parametrize("level", [FUSED, PACKED])
@pytest.mark.parametrize("kind", FUSIBLE)
@settings(max_examples=8, deadline=None)
@given(schedule=plans, price=st.sampled_from([0.0, 1e-3, 1.0]))
def test_shared_projections_and_rectangles_change_nothing_but_rounding(
    kind: str, level: int, schedule: list[Plan], price: float
) -> None:
    model = opened(kind)
    model.set_level(level)
    costs = Costs(row=1.0, segment=0.1, column=price)
    for plan, found in zip(schedule, together(model, schedule, costs), strict=True):
        for mine, theirs in zip(found, alone(model, plan), strict=True):
            assert mx.allclose(mine, theirs, atol=TOLERANCE, rtol=0).item()


@pytest.mark.parametrize("kind", tiny.CONFIGS)
def test_other_chunks_change_nothing_but_rounding(kind: str) -> None:
    model = opened(kind)
    model.set_level(GENERIC)
    coarse = alone(model, Plan(0, 257, 300, 3))
    fine = alone(model, Plan(0, 257, 16, 3))
    for mine, theirs in zip(coarse, fine, strict=True):
        assert mx.allclose(mine, theirs, atol=TOLERANCE, rtol=0).item()
