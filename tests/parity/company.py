"""Rows in codes, alone and in company, with the BLAS that a server loads. Prints what it found.

A program of its own: tests that have imported mlx cannot load another BLAS.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from slipstream.backends.mlx.device import load_blas, open_device

BLAS = load_blas()

import mlx.core as mx  # noqa: E402 after the BLAS

from slipstream.backends.mlx.backend import MlxBackend  # noqa: E402 after the BLAS
from slipstream.backends.mlx.row import DeviceRow  # noqa: E402 after the BLAS
from slipstream.contracts.kv import parse  # noqa: E402 after the BLAS
from slipstream.contracts.limits import MemoryLimits  # noqa: E402 after the BLAS
from slipstream.contracts.placement import Lane  # noqa: E402 after the BLAS
from slipstream.contracts.row import Prompt, RowSpec  # noqa: E402 after the BLAS

from .tiny import VOCABULARY, build  # noqa: E402 after the BLAS

LENGTHS = (37, 64, 12, 90, 5, 300, 70, 23)
STEPS = 6


def main(scheme: str) -> None:
    model = build("llama", hidden_size=256, intermediate_size=512)
    limits = MemoryLimits(kv_scheme=parse(scheme))
    backend = MlxBackend(model, open_device(), VOCABULARY, limits=limits)
    specs = [_spec(key, length) for key, length in enumerate(LENGTHS)]
    alone = [codes for spec in specs for codes in _run(backend, [spec], chunk=1000)]
    equal = all(
        all(bool(mx.array_equal(a, b)) for a, b in zip(one, other, strict=True))
        for chunk in (1000, 7, 1)
        for one, other in zip(alone, _run(backend, specs, chunk), strict=True)
    )
    print(BLAS.name, "equal" if equal else "different", backend.verdict.level)


def _spec(key: int, length: int) -> RowSpec:
    ids = tuple((7 * i * i + 3 * i + key) % VOCABULARY for i in range(length))
    prompt = Prompt(ids=ids, max_tokens=STEPS + 1)
    return RowSpec(key=key, lane=Lane.GROUP, prompt=prompt, deadline=float("inf"))


def _run(backend: MlxBackend, specs: Sequence[RowSpec], chunk: int) -> list[list[mx.array]]:
    """The codes that each row holds in the end."""
    rows = [DeviceRow(spec, backend.model.new_caches()) for spec in specs]
    group = backend._group
    while filling := {row: min(row.pending, chunk) for row in rows if row.pending}:
        mx.eval(group.forward(filling).logits)
    for step in range(STEPS):
        for row in rows:
            row.feed((row.spec.key * 31 + step) % VOCABULARY)
        mx.eval(group.forward(dict.fromkeys(rows, 1)).logits)
    return [
        [part[:, :, : row.computed] for cache in row.caches for part in cache.buffers()]
        for row in rows
    ]


if __name__ == "__main__":
    main(sys.argv[1])
