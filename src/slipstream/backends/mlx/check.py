"""The self-check at load: which level of sharing is right for this model, on this device.

Two rows of odd lengths are filled in one forward and stepped together, at each level, and compared
with the model as it came. A level that raises or differs is not used; its reason is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from slipstream.backends.mlx.group import Group
from slipstream.backends.mlx.mixer import Forward, Span
from slipstream.backends.mlx.opening import FUSED, GENERIC, PACKED, OpenModel
from slipstream.backends.mlx.row import DeviceRow, forked
from slipstream.backends.mlx.segments import Costs, Packer
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import Prompt, RowSpec

LENGTHS = (5, 9)
STEPS = 3
CODES_TOLERANCE = 0.05  # of a layer's output; a number that takes another code moves less
RAISED = (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError)
ALWAYS = Costs(row=9.0, segment=0.0, column=0.0)  # packs whatever can be packed


@dataclass(frozen=True, slots=True)
class Verdict:
    """The highest level that passed, 0 for none, and what was said of those that did not."""

    level: int
    notes: tuple[str, ...]


def find_level(model: OpenModel, vocab_size: int) -> Verdict:
    """Tries each level against the plain model, and sets the best. Reads the device."""
    rows = _prompts(vocab_size)
    truth = [_alone(model, ids, model.new_caches()) for ids in rows]
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


def recheck(model: OpenModel, vocab_size: int, found: Verdict) -> Verdict:
    """Of a model that now has codings: `found`, or as much of it as holds with them."""
    fault = check_codes(model, vocab_size) if found.level else None
    if fault is None:
        return found
    notes = (*found.notes, fault)
    model.set_level(GENERIC)
    fault = check_codes(model, vocab_size) if found.level > GENERIC else fault
    return Verdict(GENERIC, notes) if fault is None else Verdict(0, (*notes, fault))


def check_codes(model: OpenModel, vocab_size: int) -> str | None:
    """What is wrong with rows in codes at the level that is set, if anything is."""
    try:
        fault = _fault_in_codes(model, _prompts(vocab_size))
    except RAISED as error:
        fault = _said(error)
    return None if fault is None else f"level {model.level}, in codes: {fault}"


def _fault_in_codes(model: OpenModel, prompts: Sequence[Sequence[int]]) -> str | None:
    """A whole run cannot tell: a number between two codes takes either, and what follows moves far.
    So each layer that reads codes is compared with its own mixer, which has the same decoded."""
    for layer in model.reading:
        apart = _apart(model, layer, _row(model, 0, prompts[0]))
        if not apart < CODES_TOLERANCE:
            return f"layer {layer} differs from decoded ones ({apart:.2g} of its output)"
    logits = mx.concatenate(_together(model, prompts, coded=True))
    return None if mx.all(mx.isfinite(logits)).item() else "logits are not numbers"


def _apart(model: OpenModel, layer: int, row: DeviceRow) -> float:
    """How far the layer that is fused lies from the mixer that it holds, over the spread of that;
    over a chunk and some single tokens after one chunk of the same parts."""
    held, key = model.mixer(layer).held, mx.random.key(layer)
    x = model.hidden(sum(LENGTHS) + STEPS)
    x = mx.random.normal(x.shape, x.dtype, key=key)
    caches = model.coded_caches()
    plain = caches[layer]
    start, ours, theirs = LENGTHS[0], [], []
    held(x[:, :start], _mask(plain, start), plain)
    caches[layer] = forked(plain)
    row.caches = caches
    for size in (LENGTHS[1], *[1] * STEPS):
        own, mask = x[:, start : start + size], _mask(plain, size)
        span = Span(row, 0, size)
        forward = Forward([span], (), mx.arange(start, start + size))
        ours.append(model.attention(layer, own, forward, mask))
        theirs.append(held(own, mask, plain))
        start += size
    a, b = (mx.concatenate(each, axis=1).astype(mx.float32) for each in (ours, theirs))
    return float(mx.sqrt(mx.mean((a - b) ** 2) / mx.mean(b**2)))


def _mask(cache: Any, tokens: int) -> Any:
    return cache.make_mask(tokens, return_array=False, window_size=None)


def _prompts(vocab_size: int) -> list[list[int]]:
    total = sum(LENGTHS) + len(LENGTHS) * STEPS
    ids = [(7919 * (i + 1)) % vocab_size for i in range(total)]
    rows = []
    for length in LENGTHS:
        rows.append(ids[: length + STEPS])
        ids = ids[length + STEPS :]
    return rows


def _alone(model: OpenModel, ids: Sequence[int], caches: list[Any]) -> mx.array:
    """Logits (1 + STEPS, vocabulary) of the last prompt token and of each step."""
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
        found = _together(model, prompts, coded=False)
    except RAISED as error:
        return _said(error)
    gaps = [
        mx.max(mx.abs(a.astype(mx.float32) - b.astype(mx.float32)))
        for a, b in zip(found, truth, strict=True)
    ]
    return max(float(gap) for gap in gaps)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _together(model: OpenModel, prompts: Sequence[Sequence[int]], *, coded: bool) -> list[mx.array]:
    """What `_alone` gives for each of `prompts`, all in one group."""
    group = Group(model, Packer(model.packable, ALWAYS), can_wait=False)
    rows = [_row(model, key, ids) for key, ids in enumerate(prompts)]
    for row in rows if coded else ():
        row.caches, row.turned = model.coded_caches(), True
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
