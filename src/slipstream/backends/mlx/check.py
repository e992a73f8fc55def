"""The self-check at load: which level of sharing is right for this model, on this device.

Two rows of odd lengths are filled in one forward and stepped together, at each level, and compared
with the model as it came. A level that raises or differs is not used; its reason is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from slipstream.backends.mlx.group import Group
from slipstream.backends.mlx.opening import FUSED, GENERIC, PACKED, OpenModel
from slipstream.backends.mlx.row import DeviceRow
from slipstream.backends.mlx.segments import Costs, Packer
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import Prompt, RowSpec

LENGTHS = (5, 9)
STEPS = 3
ALWAYS = Costs(row=9.0, segment=0.0, column=0.0)  # packs whatever can be packed


@dataclass(frozen=True, slots=True)
class Verdict:
    """The highest level that passed, 0 for none, and what was said of those that did not."""

    level: int
    notes: tuple[str, ...]


def find_level(model: OpenModel, vocab_size: int) -> Verdict:
    """Tries each level against the plain model, and sets the best. Reads the device."""
    rows = _prompts(vocab_size)
    truth = [_alone(model, ids) for ids in rows]
    notes: list[str] = []
    best = 0
    for level in (GENERIC, FUSED, PACKED):
        if level > GENERIC and not best:
            break
        if level >= FUSED and not model.fusible:
            notes.append("fused: no layer has the usual projections")
            break
        model.set_level(level)
        if level == PACKED and not model.packable:
            notes.append("packed: no layer has both the usual projections and a full cache")
            break
        difference = _difference(model, rows, truth)
        if isinstance(difference, str) or difference > tolerance(truth):
            notes.append(f"level {level}: differs from the plain model ({difference})")
            break
        best = level
    model.set_level(max(best, GENERIC))
    return Verdict(best, tuple(notes))


def tolerance(truth: Sequence[mx.array]) -> float:
    """How far apart logits may lie: rounding of their type, on the scale of their spread."""
    spread = max(float(mx.std(t.astype(mx.float32))) for t in truth)
    return spread * (2e-3 if truth[0].dtype == mx.float32 else 8e-2)


def _prompts(vocab_size: int) -> list[list[int]]:
    total = sum(LENGTHS) + len(LENGTHS) * STEPS
    ids = [(7919 * (i + 1)) % vocab_size for i in range(total)]
    rows = []
    for length in LENGTHS:
        rows.append(ids[: length + STEPS])
        ids = ids[length + STEPS :]
    return rows


def _alone(model: OpenModel, ids: Sequence[int]) -> mx.array:
    """Logits (1 + STEPS, vocabulary) of the last prompt token and of each step."""
    caches = model.new_caches()
    start = len(ids) - STEPS
    outputs = [model.plain(mx.array([ids[:start]]), caches, [start - 1])]
    outputs += [model.plain(mx.array([[token]]), caches, [0]) for token in ids[start:]]
    joined = mx.concatenate(outputs)
    mx.eval(joined)
    return joined


def _difference(
    model: OpenModel, prompts: Sequence[Sequence[int]], truth: Sequence[mx.array]
) -> float | str:
    """The largest distance from the truth, or what was raised."""
    try:
        found = _together(model, prompts)
    except (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
        return f"{type(error).__name__}: {error}"[:200]
    gaps = [
        mx.max(mx.abs(a.astype(mx.float32) - b.astype(mx.float32)))
        for a, b in zip(found, truth, strict=True)
    ]
    return max(float(gap) for gap in gaps)


def _together(model: OpenModel, prompts: Sequence[Sequence[int]]) -> list[mx.array]:
    """What `_alone` gives for each of `prompts`, all in one group."""
    group = Group(model, Packer(model.packable, ALWAYS), can_wait=False)
    rows = [_row(model, key, ids) for key, ids in enumerate(prompts)]
    outputs: dict[DeviceRow, list[mx.array]] = {row: [] for row in rows}
    for step in range(1 + STEPS):
        done = group.forward({row: row.pending for row in rows})
        mx.eval(done.logits)
        for place, row in enumerate(done.drawing):
            outputs[row].append(done.logits[place : place + 1])
        for row, ids in zip(rows, prompts, strict=True):
            row.feed(ids[(len(ids) - STEPS + step) % len(ids)])
    return [mx.concatenate(outputs[row]) for row in rows]


def _row(model: OpenModel, key: int, ids: Sequence[int]) -> DeviceRow:
    prompt = Prompt(ids=tuple(ids[: len(ids) - STEPS]), max_tokens=STEPS + 1)
    spec = RowSpec(key=key, lane=Lane.GROUP, prompt=prompt, deadline=float("inf"))
    return DeviceRow(spec, model.new_caches())
