"""A row that begins from the prefix cache says what a cold row says, for every cache kind."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.backends.mlx.backend import MlxBackend
from slipstream.backends.mlx.device import open_device
from slipstream.contracts.backend import Advance
from slipstream.contracts.limits import MemoryLimits
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import Prompt, RowSpec

from . import tiny

SAYS = 6  # tokens of each answer
keys = itertools.count(1)


def backend(kind: str, cap: int | None = None) -> MlxBackend:
    return MlxBackend(
        tiny.build(kind),
        open_device(),
        tiny.VOCABULARY,
        limits=MemoryLimits(prefix_cache=cap),
    )


def spec(ids: Sequence[int], salt: str = "") -> RowSpec:
    prompt = Prompt(ids=tuple(ids), max_tokens=SAYS, cache_salt=salt)
    return RowSpec(key=next(keys), lane=Lane.GROUP, prompt=prompt, deadline=0.0)


def ask(
    engine: MlxBackend, ids: Sequence[int], *, chunk: int = 1000, salt: str = ""
) -> tuple[list[int], int]:
    """(what is said, prompt tokens that were not computed)."""
    row = engine.open(spec(ids, salt))
    cached, said = row.cached, []
    while len(said) < SAYS:
        engine.launch([Advance(row, min(chunk, row.pending))])
        said += [drawn.token for drawn in engine.collect(0)]
    engine.release(row)
    return said, cached


def text(seed: int, length: int) -> list[int]:
    return [(seed * 13 + 7 * i * i + i) % tiny.VOCABULARY for i in range(length)]


@pytest.mark.parametrize("kind", tiny.CONFIGS)
def test_a_five_turn_chat_computes_only_its_new_tails(kind: str) -> None:
    warm, cold = backend(kind), backend(kind, 0)
    history: list[int] = []
    for turn in range(5):
        prompt = [*history, *text(turn, 40)]
        said, cached = ask(warm, prompt)
        assert said == ask(cold, prompt)[0]
        # The last token that was drawn has not been computed; everything before it has.
        assert cached == (len(history) - 1 if turn else 0)
        history = [*prompt, *said]


@pytest.mark.parametrize("kind", tiny.CONFIGS)
def test_the_same_prompt_again_and_one_token_more_or_less(kind: str) -> None:
    warm, cold = backend(kind), backend(kind, 0)
    prompt = text(3, 60)
    row = warm.open(spec(prompt))
    warm.launch([Advance(row, len(prompt) - 1)])
    warm.collect(0)
    warm.keep(row)
    warm.release(row)
    for ids in (prompt, prompt, prompt[:-1], [*prompt, 5]):
        said, cached = ask(warm, ids)
        assert said == ask(cold, ids)[0]
        assert cached <= len(ids) - 1
    assert ask(warm, prompt)[1] == len(prompt) - 1


@pytest.mark.parametrize("kind", ["llama", "deepseek_v3", "glm_moe_dsa"])
def test_what_can_be_cut_is_reused_up_to_the_first_difference(kind: str) -> None:
    warm, cold = backend(kind), backend(kind, 0)
    one = text(1, 80)
    other = [*one[:50], *text(2, 30)]
    ask(warm, one)
    said, cached = ask(warm, other)
    assert cached == 50
    assert said == ask(cold, other)[0]
    assert ask(warm, one)[0] == ask(cold, one)[0]  # the split hurt nobody


def test_tenants_do_not_see_each_other() -> None:
    engine = backend("llama")
    ask(engine, text(1, 50), salt="a")
    assert ask(engine, text(1, 50), salt="b")[1] == 0
    assert ask(engine, text(1, 50), salt="a")[1] > 0


@settings(max_examples=12, deadline=None)
@given(
    kind=st.sampled_from(sorted(tiny.CONFIGS)),
    asks=st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(1, 90),
            st.integers(0, 2),
            st.integers(0, 40),
            st.sampled_from([7, 30, 1000]),
        ),
        min_size=2,
        max_size=8,
    ),
    cap=st.sampled_from([20_000, 200_000, None]),
)
def test_answers_are_cold_answers_whatever_was_asked_before(
    kind: str, asks: list[tuple[int, int, int, int, int]], cap: int | None
) -> None:
    warm, cold = backend(kind, cap), backend(kind, 0)
    for first, length, second, more, chunk in asks:
        ids = [*text(first, length), *text(second, more)]
        assert ask(warm, ids, chunk=chunk)[0] == ask(cold, ids)[0]
        held = warm.memory().prefix_ram
        assert cap is None or held <= cap


def test_a_row_that_is_cancelled_leaves_what_it_computed() -> None:
    engine = backend("llama")
    row = engine.open(spec(text(1, 100)))
    engine.launch([Advance(row, 64)])
    engine.release(row)  # the forward is still in flight
    assert engine.open(spec(text(1, 100))).cached == 64


def test_rows_that_were_packed_leave_their_prefix_too() -> None:
    engine = backend("llama")
    rows = [engine.open(spec(text(i, 40))) for i in range(4)]
    said: dict[int, list[int]] = {row.spec.key: [] for row in rows}
    for _ in range(SAYS):
        engine.launch([Advance(row, row.pending) for row in rows])
        for drawn in engine.collect(0):
            said[drawn.row.spec.key].append(drawn.token)
    for row in rows:
        engine.release(row)
    for i, row in enumerate(rows):
        again = [*text(i, 40), *said[row.spec.key], 3]
        assert engine.open(spec(again)).cached == 40 + SAYS - 1
