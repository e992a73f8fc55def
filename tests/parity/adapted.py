"""A tiny backend with adapters, rows for it, and what the plain twin says: weights merged."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipstream.backends.mlx.adapters.files import read
from slipstream.backends.mlx.backend import MlxBackend
from slipstream.backends.mlx.device import open_device
from slipstream.contracts.adapters import AdapterUse
from slipstream.contracts.backend import Advance
from slipstream.contracts.limits import MemoryLimits
from slipstream.contracts.placement import Lane, Needs
from slipstream.contracts.row import Prompt, RowSpec

from . import loras, tiny

SAYS = 5  # tokens of each answer
Uses = Sequence[tuple[str, float]]
Said = list[tuple[int, float]]
keys = itertools.count(1)


def backend(
    kind: str, cap: int | None = 0, level: int | None = None, adapters: int | None = None
) -> MlxBackend:
    """`cap`: bytes of the prefix cache; `adapters`: of those that are mounted."""
    limits = MemoryLimits(prefix_cache=cap, adapters=adapters)
    model = tiny.build(kind)
    return MlxBackend(model, open_device(), tiny.VOCABULARY, limits=limits, level=level)


@dataclass(frozen=True)
class Kit:
    """A model of `kind` with the adapters a and b, and d where DoRA can be."""

    kind: str
    engine: MlxBackend
    tensors: Mapping[str, loras.Tensors]

    @classmethod
    def of(cls, kind: str, folder: Path, cap: int | None = 0, level: int | None = None) -> Kit:
        engine = backend(kind, cap, level)
        tensors = {
            "a": loras.random(tiny.build(kind), 1),
            "b": loras.random(tiny.build(kind), 2),
            "d": loras.random(tiny.build(kind), 3, dora=True),
        }
        for name, given in tensors.items():
            path = loras.write_mlx(folder / name, given, dora=name == "d")
            engine.adapters.mount(name, read(path))
        return cls(kind, engine, tensors)

    def merged(self, uses: Uses) -> MlxBackend:
        """A cold model of its own with the adapters in its weights."""
        given = [(self.tensors[name], scale) for name, scale in uses]
        model = loras.merge(tiny.build(self.kind), given)
        limits = MemoryLimits(prefix_cache=0)
        return MlxBackend(model, open_device(), tiny.VOCABULARY, limits=limits, level=1)

    def twin(self, ids: Sequence[int], uses: Uses) -> Said:
        return run(self.merged(uses), [spec(ids, lane=Lane.SOLO)])[0]


def spec(ids: Sequence[int], uses: Uses = (), lane: Lane = Lane.GROUP) -> RowSpec:
    needs = Needs(adapters=tuple(AdapterUse(*use) for use in uses))
    prompt = Prompt(ids=tuple(ids), max_tokens=SAYS, needs=needs, logprobs=0)
    return RowSpec(key=next(keys), lane=lane, prompt=prompt, deadline=0.0)


def text(seed: int, length: int) -> list[int]:
    return [(seed * 13 + 7 * i * i + i) % tiny.VOCABULARY for i in range(length)]


def run(engine: MlxBackend, specs: Sequence[RowSpec], chunk: int = 1000) -> list[Said]:
    """What rows say that all begin together, as (token, log-probability)."""
    said: dict[int, Said] = {one.key: [] for one in specs}
    live = [engine.open(one) for one in specs]
    while live:
        engine.launch([Advance(row, min(chunk, row.pending)) for row in live])
        for drawn in engine.collect(0):
            said[drawn.row.spec.key].append((drawn.token, drawn.logprob))
        for row in [row for row in live if len(said[row.spec.key]) == SAYS]:
            live.remove(row)
            engine.release(row)
    return [said[one.key] for one in specs]


def alike(one: Said, other: Said) -> bool:
    return [t for t, _ in one] == [t for t, _ in other] and all(
        abs(a - b) < 1e-3 for (_, a), (_, b) in zip(one, other, strict=True)
    )
