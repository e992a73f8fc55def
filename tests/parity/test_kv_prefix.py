"""Prefixes in codes: kept, cut, resumed and read from disk as they are, for every cache kind."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.backends.mlx.backend import MlxBackend
from slipstream.backends.mlx.device import open_device
from slipstream.backends.mlx.opening import GENERIC
from slipstream.backends.mlx.paths import spread
from slipstream.backends.mlx.prefix.disk.folder import Folder
from slipstream.backends.mlx.prefix.disk.tier import DiskTier
from slipstream.backends.mlx.prefix.state import buffers, part, rest, resume
from slipstream.backends.mlx.prefix.state import owned as copied
from slipstream.backends.mlx.segments import Costs
from slipstream.contracts.backend import Advance, Row
from slipstream.contracts.kv import parse
from slipstream.contracts.limits import MemoryLimits
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import Prompt, RowSpec

from . import coded, tiny

SAYS = 5
LATE = "affine:8:32@70"
COSTS = Costs(row=1.0, segment=1.0, column=1.0)
CUTTABLE = ("llama", "deepseek_v3", "glm_moe_dsa")
keys = itertools.count(1)


def backend(kind: str, scheme: str, cap: int | None = None, disk: DiskTier | None = None):
    return MlxBackend(
        coded.build(kind),
        open_device(),
        tiny.VOCABULARY,
        limits=MemoryLimits(prefix_cache=cap, kv_scheme=parse(scheme)),
        level=GENERIC,
        costs=COSTS,
        disk=None if disk is None else lambda: disk,
    )


def opened(engine: MlxBackend, ids: Sequence[int]) -> Row:
    prompt = Prompt(ids=tuple(ids), max_tokens=SAYS)
    spec = RowSpec(key=next(keys), lane=Lane.GROUP, prompt=prompt, deadline=0.0)
    for _ in range(2000):
        if (row := engine.open(spec)) is not None:
            return row
    raise AssertionError("the row never opened")


def ask(engine: MlxBackend, ids: Sequence[int], chunk: int = 1000) -> tuple[list[int], int]:
    """(what is said, prompt tokens that were not computed)."""
    row = opened(engine, ids)
    cached, said = row.cached, []
    while len(said) < SAYS:
        engine.launch([Advance(row, min(chunk, row.pending))])
        said += [drawn.token for drawn in engine.collect(0)]
    engine.release(row)
    return said, cached


def text(seed: int, length: int) -> list[int]:
    return [(seed * 13 + 7 * i * i + i) % tiny.VOCABULARY for i in range(length)]


@cache
def cold(kind: str, scheme: str) -> MlxBackend:
    return backend(kind, scheme, 0)


@pytest.mark.parametrize("scheme", ["affine:8:32", LATE])
@pytest.mark.parametrize("kind", coded.KINDS)
def test_a_chat_computes_only_its_new_tails(kind: str, scheme: str) -> None:
    warm = backend(kind, scheme)
    history: list[int] = []
    for turn in range(4):
        prompt = [*history, *text(turn, 30)]
        said, cached = ask(warm, prompt)
        assert said == ask(cold(kind, scheme), prompt)[0]
        assert cached == (len(history) - 1 if turn else 0)
        history = [*prompt, *said]


@pytest.mark.parametrize("kind", CUTTABLE)
def test_what_can_be_cut_is_reused_up_to_the_first_difference(kind: str) -> None:
    warm = backend(kind, "affine:8:32")
    one = text(1, 80)
    other = [*one[:50], *text(2, 30)]
    ask(warm, one)
    said, cached = ask(warm, other)
    assert cached == 50
    assert said == ask(cold(kind, "affine:8:32"), other)[0]
    assert ask(warm, one)[0] == ask(cold(kind, "affine:8:32"), one)[0]


def test_codes_are_not_reused_where_a_cold_row_has_none() -> None:
    warm = backend("llama", LATE)
    one = text(1, 100)
    ask(warm, one)
    assert ask(warm, [*one[:60], *text(2, 30)])[1] == 0  # below 70 a cold row holds no codes
    said, cached = ask(warm, [*one[:90], *text(2, 30)])
    assert cached == 90
    assert said == ask(cold("llama", LATE), [*one[:90], *text(2, 30)])[0]
    assert ask(warm, [*one[:60], *text(2, 30)])[1] >= 60  # what it left before it turned


@settings(max_examples=10, deadline=None)
@given(
    kind=st.sampled_from(coded.KINDS),
    scheme=st.sampled_from(["affine:8:32", LATE]),
    asks=st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(1, 90),
            st.integers(0, 2),
            st.integers(0, 40),
            st.sampled_from([7, 30, 1000]),
        ),
        min_size=2,
        max_size=6,
    ),
    cap=st.sampled_from([20_000, 200_000, None]),
)
def test_answers_are_cold_answers_whatever_was_asked_before(
    kind: str, scheme: str, asks: list[tuple[int, int, int, int, int]], cap: int | None
) -> None:
    warm = backend(kind, scheme, cap)
    for first, length, second, more, chunk in asks:
        ids = [*text(first, length), *text(second, more)]
        assert ask(warm, ids, chunk)[0] == ask(cold(kind, scheme), ids)[0]
        held = warm.memory().prefix_ram
        assert cap is None or held <= cap


@pytest.mark.parametrize("scheme", ["affine:8:32", "affine:4:32", "turbo"])
@pytest.mark.parametrize("kind", coded.KINDS)
def test_what_was_cut_and_joined_goes_on_to_the_bit(kind: str, scheme: str) -> None:
    model = coded.opened(kind, scheme)
    model.set_level(GENERIC)
    ids = text(4, 60)
    caches = model.new_caches()
    model.plain(mx.array([ids[:50]]), caches, [49])
    found = buffers(spread(caches))
    pieces = [copied(part(found, a, b)) for a, b in ((0, 13), (13, 40), (40, 50))]
    again = resume(model.new_caches(), pieces, rest(spread(caches)), 50)
    for start, stop in ((50, 57), (57, 58), (58, 60)):
        tokens = mx.array([ids[start:stop]])
        one, two = (model.plain(tokens, each, [stop - start - 1]) for each in (caches, again))
        assert mx.array_equal(one, two)


@contextmanager
def serving(kind: str, scheme: str, folder: Path) -> Iterator[MlxBackend]:
    tier = DiskTier(Folder(folder), 1 << 26, identity="weights", model=kind)
    engine = backend(kind, scheme, 1 << 26, tier)
    try:
        yield engine
    finally:
        engine.close()
        tier.close()


@pytest.mark.parametrize("scheme", ["affine:8:32", "affine:4:32", LATE, "turbo"])
@pytest.mark.parametrize("kind", coded.KINDS)
def test_a_restart_forgets_nothing(kind: str, scheme: str, tmp_path: Path) -> None:
    ids = text(5, 200)
    with serving(kind, scheme, tmp_path) as engine:
        first, _ = ask(engine, ids)
    longer = [*ids, *first, 7]
    with serving(kind, scheme, tmp_path) as engine:
        said, cached = ask(engine, longer)
        assert cached == len(ids) + SAYS - 1
    # The row as it went on without the restart: its codes were made in the same forwards.
    kept = backend(kind, scheme)
    assert ask(kept, ids)[0] == first
    assert ask(kept, longer) == (said, cached)


def test_another_scheme_never_hits(tmp_path: Path) -> None:
    ids = text(5, 200)
    with serving("llama", "affine:8:32", tmp_path) as engine:
        ask(engine, ids)
    for scheme in ("affine:4:32", "bf16", "turbo", LATE):
        with serving("llama", scheme, tmp_path) as engine:
            assert ask(engine, ids)[1] == 0
            engine._prefix._tree.evict(0)
    with serving("llama", "affine:8:32", tmp_path) as engine:
        assert ask(engine, ids)[1] == len(ids) - 1
