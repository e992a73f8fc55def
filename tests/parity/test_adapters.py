"""A row with adapters says what a cold model with merged weights says, in any company."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.backends.mlx.adapters.files import read
from slipstream.contracts.backend import Advance
from slipstream.contracts.placement import Lane

from . import loras, tiny
from .adapted import SAYS, Kit, Said, alike, backend, run, spec, text

MIXES = (
    (),
    (("a", 1.0),),
    (("b", 1.0),),
    (("a", 0.5),),
    (("a", 1.0), ("b", 1.0)),
    (("d", 1.0),),
    (("b", -1.0), ("a", 2.0)),
    (("a", 1.0),),
)
LENGTHS = (5, 20, 70, 3, 12, 9, 30, 8)


@functools.cache
def kit(kind: str, cap: int | None = 0) -> Kit:
    return Kit.of(kind, Path(tempfile.mkdtemp()), cap)


@functools.cache
def twin(kind: str, seed: int, mix: int) -> Said:
    return kit(kind).twin(text(seed, LENGTHS[seed]), MIXES[mix])


@pytest.mark.parametrize("kind", tiny.CONFIGS)
def test_eight_rows_of_all_mixes_in_one_group_equal_their_merged_twins(kind: str) -> None:
    rows = [spec(text(i, LENGTHS[i]), mix) for i, mix in enumerate(MIXES)]
    for i, said in enumerate(run(kit(kind).engine, rows)):
        assert alike(said, twin(kind, i, i)), MIXES[i]


@pytest.mark.parametrize("kind", tiny.CONFIGS)
def test_a_row_alone_on_the_model_as_it_came_equals_its_merged_twin(kind: str) -> None:
    for i in (1, 3, 5):
        row = spec(text(i, LENGTHS[i]), MIXES[i], Lane.SOLO)
        assert alike(run(kit(kind).engine, [row])[0], twin(kind, i, i))


@pytest.mark.parametrize("kind", ["llama", "deepseek_v3", "gpt_oss"])
@pytest.mark.parametrize("level", [1, 2, 3])
def test_every_level_of_sharing_gives_the_same(kind: str, level: int, tmp_path: Path) -> None:
    mine = Kit.of(kind, tmp_path, level=level)
    rows = [spec(text(i, LENGTHS[i]), mix) for i, mix in enumerate(MIXES)]
    for i, said in enumerate(run(mine.engine, rows)):
        assert alike(said, twin(kind, i, i))


def test_a_row_without_adapters_is_not_changed_by_one_bit(tmp_path: Path) -> None:
    prompts = [text(0, 12), text(1, 12)]
    bare = backend("llama", level=1)
    mounted = Kit.of("llama", tmp_path, level=1).engine
    alone = run(bare, [spec(ids) for ids in prompts])[0]
    beside = run(mounted, [spec(prompts[0]), spec(prompts[1], [("a", 1.0)])])[0]
    assert beside == alone


def test_the_twin_is_what_mlx_lm_makes_of_the_same_folder(tmp_path: Path) -> None:
    from mlx_lm.tuner.utils import load_adapters

    for name, dora in (("a", False), ("d", True)):
        tensors = loras.random(tiny.build("llama"), 7, dora=dora)
        folder = loras.write_mlx(tmp_path / name, tensors, dora=dora)
        import mlx.core as mx

        tokens = mx.array([text(1, 20)])
        theirs = load_adapters(tiny.build("llama"), str(folder))
        theirs.eval()
        ours = loras.merge(tiny.build("llama"), [(tensors, 1.0)])
        assert mx.allclose(theirs(tokens), ours(tokens), atol=1e-3)


@settings(max_examples=15, deadline=None)
@given(
    kind=st.sampled_from(sorted(tiny.CONFIGS)),
    plan=st.lists(
        st.tuples(
            st.integers(0, 7), st.integers(0, 7), st.integers(0, 6), st.sampled_from([4, 99])
        ),
        min_size=1,
        max_size=9,
    ),
)
def test_joins_and_leaves_and_chunks_change_nothing(
    kind: str, plan: list[tuple[int, int, int, int]]
) -> None:
    """`plan`: the text, the mix, how many steps later it comes, and the chunk of each row."""
    engine = kit(kind).engine
    coming = [(seed, mix, wait, chunk) for seed, mix, wait, chunk in plan]
    live: list[tuple[object, int, int, int]] = []
    said: dict[int, Said] = {}
    step = 0
    while coming or live:
        for one in [one for one in coming if one[2] <= step]:
            coming.remove(one)
            row = engine.open(spec(text(one[0], LENGTHS[one[0]]), MIXES[one[1]]))
            live.append((row, one[0], one[1], one[3]))
            said[row.spec.key] = []
        step += 1
        if not live:
            continue
        engine.launch([Advance(row, min(chunk, row.pending)) for row, _, _, chunk in live])
        for drawn in engine.collect(0):
            said[drawn.row.spec.key].append((drawn.token, drawn.logprob))
        for one in list(live):
            row, seed, mix, _ = one
            if len(said[row.spec.key]) == SAYS:
                engine.release(row)
                live.remove(one)
                assert alike(said[row.spec.key], twin(kind, seed, mix))


@pytest.mark.parametrize("kind", ["llama", "qwen3_5", "gemma3_text"])
def test_prefixes_never_cross_between_adapters_or_scales(kind: str) -> None:
    warm = Kit.of(kind, Path(tempfile.mkdtemp()), None).engine
    ids = text(1, 60)
    spaces = [(), [("a", 1.0)], [("b", 1.0)], [("a", 0.5)], [("a", 1.0), ("b", 1.0)]]
    for uses in spaces:
        row = warm.open(spec(ids, uses))
        assert row.cached == 0, uses
        warm.launch([Advance(row, len(ids) - 1)])
        warm.collect(0)
        warm.keep(row)
        warm.release(row)
    for uses in spaces:
        row = warm.open(spec(ids, uses))
        assert row.cached == len(ids) - 1, uses
        warm.release(row)
    turned = warm.open(spec(ids, [("b", 1.0), ("a", 1.0)]))
    assert turned.cached == len(ids) - 1  # a sum does not depend on its order


def test_the_same_name_with_other_content_finds_nothing(tmp_path: Path) -> None:
    mine = Kit.of("llama", tmp_path, None)
    ids = text(1, 60)
    first = run(mine.engine, [spec(ids, [("a", 1.0)])])[0]
    mine.engine.adapters.unmount("a")
    mine.engine.adapters.mount("a", read(tmp_path / "b"))
    row = mine.engine.open(spec(ids, [("a", 1.0)]))
    assert row.cached == 0
    mine.engine.release(row)
    mine.engine.adapters.unmount("a")
    mine.engine.adapters.mount("again", read(tmp_path / "a"))
    again = spec(ids, [("again", 1.0)])
    row = mine.engine.open(again)
    assert row.cached > 0  # it is known by its content
    mine.engine.release(row)
    assert alike(run(mine.engine, [spec(ids, [("again", 1.0)])])[0], first)


@pytest.mark.parametrize("level", [1, 2])
def test_adapters_of_unlike_targets_share_a_forward(level: int, tmp_path: Path) -> None:
    targets = {"q": "q_proj", "v": "v_proj", "all": "layers.0"}
    engine = backend("llama", level=level)
    made = {
        name: loras.random(tiny.build("llama"), seed, only=only)
        for seed, (name, only) in enumerate(targets.items())
    }
    for name, tensors in made.items():
        engine.adapters.mount(name, read(loras.write_mlx(tmp_path / name, tensors)))
    mine = Kit("llama", engine, made)
    mixes = ((), (("q", 1.0),), (("v", 1.0),), (("q", 1.0), ("v", 1.0)), (("all", 0.5),))
    for chosen in (mixes[1:2] * 3, mixes[1:3], mixes):  # all alike, then less and less so
        rows = [spec(text(i, LENGTHS[i]), mix) for i, mix in enumerate(chosen)]
        for i, said in enumerate(run(engine, rows)):
            assert alike(said, mine.twin(text(i, LENGTHS[i]), chosen[i])), chosen[i]
