"""A text's vector does not depend on its company, its chunks or its place in a batch."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence
from functools import cache
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.backends.mlx.backend import MlxBackend
from slipstream.backends.mlx.device import open_device
from slipstream.contracts.backend import Advance
from slipstream.contracts.clock import MonotonicClock
from slipstream.contracts.errors import RowFault
from slipstream.contracts.limits import Limits
from slipstream.contracts.placement import Lane, Needs
from slipstream.contracts.pooling import Pooling, PoolMode
from slipstream.contracts.row import Prompt, RowSpec
from slipstream.contracts.sampling import Sampling
from slipstream.engine.gateway import Gateway
from slipstream.library.embedding import embeddings

from . import tiny

WIDTH = tiny._COMMON["hidden_size"]
TOLERANCE = 2e-4
LENGTHS = (1, 2, 3, 9, 17, 40)

poolings = st.builds(
    Pooling,
    mode=st.sampled_from(PoolMode),
    size=st.sampled_from([1, 8, WIDTH]),
    normalized=st.booleans(),
)
inputs = st.lists(st.tuples(st.sampled_from(LENGTHS), st.integers(0, 96)), min_size=1, max_size=9)


def ids(length: int, start: int) -> tuple[int, ...]:
    return tuple((start + 7 * i * i + i) % tiny.VOCABULARY for i in range(length))


def asked(tokens: Sequence[int], pooling: Pooling) -> Prompt:
    return Prompt(ids=tuple(tokens), max_tokens=1, needs=Needs(states=True), pooling=pooling)


@cache
def model(kind: str) -> nn.Module:
    return tiny.build(kind)


@cache
def backend(kind: str) -> MlxBackend:
    return MlxBackend(tiny.build(kind), open_device(), tiny.VOCABULARY)


def twin(plain: Any, tokens: Sequence[int], pooling: Pooling) -> list[float]:
    """The model as it came, without its head, over one text and nothing else."""
    body = plain.backbone if "backbone" in plain.children() else plain.model
    states = body(mx.array([tokens]), plain.make_cache() if hasattr(plain, "make_cache") else None)
    found = {
        PoolMode.FIRST: states[0, 0],
        PoolMode.LAST: states[0, -1],
        PoolMode.MEAN: states[0].mean(axis=0),
    }[pooling.mode][: pooling.size]
    return (found / mx.linalg.norm(found) if pooling.normalized else found).tolist()


async def embedded(kind: str, prompts: Sequence[Prompt], **limits: Any) -> list[list[float]]:
    bounds = Limits(**limits)
    opened = MlxBackend(tiny.build(kind), open_device(), tiny.VOCABULARY, costs=None)
    gateway = Gateway(lambda: opened, bounds, MonotonicClock())
    gateway.start()
    await gateway.wait_ready()
    try:
        found = await embeddings(gateway.submit, prompts, bounds.batch)
        assert gateway.stats().generated_tokens == 0
        assert gateway.stats().memory.prefix.entries == 0
        return [array("f", vector).tolist() for vector in found.vectors]
    finally:
        await gateway.close(0.0)


def close(found: Sequence[float], expected: Sequence[float]) -> bool:
    return len(found) == len(expected) and all(
        abs(one - other) <= TOLERANCE for one, other in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("kind", tiny.CONFIGS)
def test_many_texts_at_once_have_the_vectors_that_each_has_alone(kind: str) -> None:
    for mode in PoolMode:
        pooling = Pooling(mode=mode, size=WIDTH, normalized=True)
        texts = [ids(length, 3 * length) for length in (*LENGTHS, 90)]
        prompts = [asked(text, pooling) for text in texts]
        together = asyncio.run(embedded(kind, prompts, batch=4, queue=2, prefill_chunk=32))
        for vector, text in zip(together, texts, strict=True):
            assert close(vector, twin(model(kind), text, pooling)), (mode, len(text))


@settings(max_examples=25, deadline=None)
@given(given_inputs=inputs, pooling=poolings, chunk=st.sampled_from([2, 5, 64]))
def test_no_schedule_of_chunks_and_neighbours_changes_a_vector(
    given_inputs: list[tuple[int, int]], pooling: Pooling, chunk: int
) -> None:
    opened = backend("llama")
    rows = {}
    for key, (length, start) in enumerate(given_inputs):
        prompt = asked(ids(length, start), pooling)
        spec = RowSpec(key=key, lane=Lane.GROUP, prompt=prompt, deadline=0.0)
        rows[key] = opened.open(spec)
    found = {}
    while waiting := [row for key, row in rows.items() if key not in found]:
        opened.launch([Advance(row, min(chunk, row.pending)) for row in waiting])
        found |= {drawn.row.spec.key: drawn.vector for drawn in opened.collect(0)}
    for key, row in rows.items():
        opened.release(row)
        expected = twin(model("llama"), row.spec.prompt.ids, pooling)
        assert close(array("f", found[key]).tolist(), expected)
    assert opened.memory().kv == 0


def test_a_row_that_generates_beside_it_draws_what_it_draws_alone() -> None:
    opened = backend("llama")

    def drawn(company: bool) -> list[int]:
        prompt = Prompt(ids=ids(9, 5), max_tokens=6, sampling=Sampling(temperature=0.9, seed=3))
        row = opened.open(RowSpec(key=100, lane=Lane.GROUP, prompt=prompt, deadline=0.0))
        tokens = []
        for step in range(6):
            plan = [Advance(row, row.pending)]
            if company:
                pooling = Pooling(mode=PoolMode.MEAN, size=WIDTH, normalized=True)
                spec = RowSpec(
                    key=200 + step,
                    lane=Lane.GROUP,
                    prompt=asked(ids(12, step), pooling),
                    deadline=0,
                )
                guest = opened.open(spec)
                plan.insert(step % 2, Advance(guest, guest.pending))
            opened.launch(plan)
            said = opened.collect(0)
            tokens += [one.token for one in said if one.row is row]
            assert len(said) == len(plan)
            if company:
                opened.release(guest)
        opened.release(row)
        return tokens

    assert drawn(company=True) == drawn(company=False)


def test_a_rewound_row_has_the_same_vector() -> None:
    opened, pooling = backend("llama"), Pooling(mode=PoolMode.MEAN, size=WIDTH, normalized=False)
    prompt = asked(ids(17, 4), pooling)
    row = opened.open(RowSpec(key=1, lane=Lane.GROUP, prompt=prompt, deadline=0.0))
    opened.launch([Advance(row, 6)])
    opened.rewind(row, [])
    opened.launch([Advance(row, row.pending)])
    (drawn,) = opened.collect(0)
    opened.release(row)
    assert close(array("f", drawn.vector).tolist(), twin(model("llama"), prompt.ids, pooling))


def test_the_solo_lane_has_the_same_vector() -> None:
    opened, pooling = backend("gpt_oss"), Pooling(mode=PoolMode.LAST, size=WIDTH, normalized=True)
    prompt = asked(ids(17, 4), pooling)
    row = opened.open(RowSpec(key=1, lane=Lane.SOLO, prompt=prompt, deadline=0.0))
    opened.launch([Advance(row, row.pending)])
    (drawn,) = opened.collect(0)
    opened.release(row)
    assert close(array("f", drawn.vector).tolist(), twin(model("gpt_oss"), prompt.ids, pooling))


def test_what_is_not_finite_is_a_fault_of_its_row_alone() -> None:
    plain: Any = tiny.build("llama")
    plain.model.embed_tokens.weight[5] = float("inf")
    opened = MlxBackend(plain, open_device(), tiny.VOCABULARY, level=1)
    pooling = Pooling(mode=PoolMode.LAST, size=WIDTH, normalized=True)
    rows = [
        opened.open(RowSpec(key=key, lane=Lane.GROUP, prompt=asked(tokens, pooling), deadline=0.0))
        for key, tokens in enumerate([(1, 2, 5), (1, 2, 3)])
    ]
    opened.launch([Advance(row, row.pending) for row in rows])
    bad, good = opened.collect(0)
    assert isinstance(bad.fault, RowFault)
    assert good.fault is None
    assert good.vector
    opened.close()
