"""The MLX backend keeps the protocol's rules, for every cache kind and at every level."""

from __future__ import annotations

import pytest

from parity import tiny
from slipstream.backends.mlx.backend import MlxBackend
from slipstream.backends.mlx.device import open_device
from slipstream.contracts.row import Prompt
from slipstream.contracts.sampling import Sampling
from slipstream.testing.conformance import check_backend


def prompts(**sampling: float) -> list[Prompt]:
    return [
        Prompt(
            ids=tuple((start + 7 * i) % tiny.VOCABULARY for i in range(length)),
            max_tokens=8,
            sampling=Sampling(**sampling),
        )
        for start, length in ((3, 5), (11, 12), (40, 9))
    ]


@pytest.mark.parametrize("kind", tiny.CONFIGS)
def test_greedy_rows_keep_the_rules(kind: str) -> None:
    backend = MlxBackend(tiny.build(kind), open_device(), tiny.VOCABULARY)
    check_backend(backend, prompts())
    assert backend.memory().kv == 0
    backend.close()


@pytest.mark.parametrize("level", [1, 2, 3])
def test_seeded_rows_keep_the_rules_at_every_level(level: int) -> None:
    backend = MlxBackend(tiny.build("llama"), open_device(), tiny.VOCABULARY, level=level)
    check_backend(backend, prompts(temperature=0.9, seed=5, top_p=0.8, repetition_penalty=1.2))


def test_a_fork_says_what_its_source_says() -> None:
    for kind in tiny.CONFIGS:
        backend = MlxBackend(tiny.build(kind), open_device(), tiny.VOCABULARY)
        check_forks(backend, prompts()[1])


def check_forks(backend: MlxBackend, prompt: Prompt) -> None:
    from slipstream.contracts.backend import Advance
    from slipstream.contracts.placement import Lane
    from slipstream.contracts.row import RowSpec

    def spec(key: int) -> RowSpec:
        return RowSpec(key=key, lane=Lane.GROUP, prompt=prompt, deadline=0.0)

    source = backend.open(spec(1))
    backend.launch([Advance(source, len(prompt.ids) - 1)])
    forks = [backend.fork(source, spec(key)) for key in (2, 3)]
    said: dict[int, list[int]] = {1: [], 2: [], 3: []}
    for row in (forks[0], source, forks[1]):  # one after the other, so that a leak would show
        for _ in range(4):
            backend.launch([Advance(row, row.pending)])
            said[row.spec.key] += [drawn.token for drawn in backend.collect(0)]
    assert said[1] == said[2] == said[3]
    assert len(said[1]) == 4
