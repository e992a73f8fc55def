"""What was computed before a restart is used after it, for every cache kind, and never wrongly."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from pathlib import Path

import mlx.core as mx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parity import tiny
from slipstream.backends.mlx.prefix.disk.folder import Folder
from slipstream.backends.mlx.prefix.disk.spill import SEGMENT, SEGMENT_BYTES, tokens_of_a_file
from slipstream.backends.mlx.prefix.state import KeyValues

from .disk import IDS, cold, files, say, serving

DAMAGED_KINDS = ("llama", "gemma3_text", "qwen3_5", "deepseek_v3", "mamba2")
CUTTABLE = ("llama", "deepseek_v3", "glm_moe_dsa")


@pytest.mark.parametrize("kind", tiny.CONFIGS)
def test_a_restart_forgets_nothing(kind, tmp_path):
    with serving(kind, Folder(tmp_path)) as backend:
        assert say(backend, IDS).tokens == cold(kind)
    with serving(kind, Folder(tmp_path)) as backend:
        again = say(backend, IDS)
        assert again.tokens == cold(kind)
        assert again.cached == len(IDS) - 1
        assert backend.memory().prefix.ssd_hits == 1


@pytest.mark.parametrize("kind", tiny.CONFIGS)
def test_the_next_turn_computes_its_own_tail_only(kind, tmp_path):
    with serving(kind, Folder(tmp_path)) as backend:
        say(backend, IDS)
    longer = (*IDS[:-1], *range(50))
    with serving(kind, Folder(tmp_path)) as backend:
        said = say(backend, longer)
        assert said.cached == len(IDS) - 1
        assert said.tokens == cold(kind, longer)


@pytest.mark.parametrize("kind", CUTTABLE)
def test_a_prompt_that_parts_in_the_middle_of_a_file_uses_what_agrees(kind, tmp_path):
    with serving(kind, Folder(tmp_path)) as backend:
        say(backend, IDS)
    other = (*IDS[:300], *range(60, 90))
    with serving(kind, Folder(tmp_path)) as backend:
        said = say(backend, other)
        assert said.cached == 300
        assert said.tokens == cold(kind, other)


def test_prompts_that_begin_alike_share_files(tmp_path):
    with serving("llama", Folder(tmp_path)) as backend:
        say(backend, IDS)
        backend._prefix.flush(10)
        before = len(files(tmp_path))
        say(backend, (*IDS[:520], *range(40)), key=2)
    assert len(files(tmp_path)) == before + 1


def test_what_is_on_disk_already_is_not_written_again(tmp_path):
    for _ in range(3):
        with serving("qwen3_5", Folder(tmp_path)) as backend:
            say(backend, IDS)
        written = {path: path.stat().st_mtime_ns for path in files(tmp_path)}
    assert {path: path.stat().st_mtime_ns for path in files(tmp_path)} == written
    assert len(written) == 4  # two of keys and values, and the states after prompt and answer


def test_a_short_prompt_is_not_worth_a_file(tmp_path):
    with serving("llama", Folder(tmp_path)) as backend:
        say(backend, IDS[:40])
        assert backend.memory().prefix.dirty == 0
    assert files(tmp_path) == []


def test_files_of_wide_models_hold_fewer_tokens():
    def wide(width: int) -> KeyValues:
        keys = mx.zeros((1, 1, 600, width), mx.float32)
        return KeyValues({(0,): (keys, keys)}, 2 * keys.nbytes)

    assert tokens_of_a_file(wide(8)) == SEGMENT
    assert tokens_of_a_file(wide(16_384)) == SEGMENT_BYTES // (2 * 4 * 16_384) == 256


def test_dirty_counts_what_is_not_on_disk(tmp_path):
    with serving("llama", Folder(tmp_path)) as backend:
        say(backend, IDS)
        assert backend.memory().prefix.dirty > 0
        backend._prefix.flush(10)
        now = backend.memory().prefix
        assert now.dirty == 0
        assert now.ssd_bytes == sum(path.stat().st_size for path in files(tmp_path))


@pytest.mark.parametrize(
    ("first", "second"),
    [({"identity": "weights"}, {"identity": "other weights"}), ({"salt": "a"}, {"salt": "b"})],
)
def test_other_weights_and_other_tenants_share_nothing(first, second, tmp_path):
    def cached(identity: str = "weights", salt: str = "") -> int:
        with serving("llama", Folder(tmp_path), identity=identity) as backend:
            return say(backend, IDS, salt=salt).cached

    assert cached(**first) == 0
    assert cached(**second) == 0
    assert cached(**first) == len(IDS) - 1


def test_memory_that_cannot_hold_a_prefix_is_no_endless_restore(tmp_path):
    with serving("llama", Folder(tmp_path)) as backend:
        say(backend, IDS)
    with serving("llama", Folder(tmp_path), prefix=100_000) as backend:
        said = say(backend, IDS)
        assert said.tokens == cold("llama")
        assert said.cached < len(IDS) - 1


def test_two_that_take_turns_in_too_little_memory_both_open(tmp_path):
    other = tuple(reversed(IDS))
    with serving("llama", Folder(tmp_path)) as backend:
        say(backend, IDS)
        say(backend, other, key=2)
    with serving("llama", Folder(tmp_path), prefix=300_000) as backend:
        for key in range(6):
            ids = (IDS, other)[key % 2]
            assert say(backend, ids, key=key).tokens == cold("llama", ids)


def test_two_servers_share_one_folder(tmp_path):
    folder = Folder(tmp_path)
    other = tuple(reversed(IDS))
    with serving("qwen3_5", folder) as one, serving("qwen3_5", folder) as two:
        say(one, IDS)
        say(two, other)
        say(two, IDS, key=2)
        for backend in (one, two):
            backend._prefix.flush(10)
        for key, backend in ((3, one), (4, two)):
            assert say(backend, other, key=key).tokens == cold("qwen3_5", other)
            assert say(backend, IDS, key=key + 2).tokens == cold("qwen3_5")
    with serving("qwen3_5", folder) as backend:
        assert say(backend, IDS).cached == len(IDS) - 1


def test_the_folder_of_a_running_server_may_be_emptied(tmp_path, caplog):
    with serving("llama", Folder(tmp_path)) as backend:
        say(backend, IDS)
    with serving("llama", Folder(tmp_path)) as backend:
        for path in files(tmp_path):
            path.unlink()
        assert say(backend, IDS).tokens == cold("llama")
    assert len(caplog.records) <= 1


def test_the_folder_of_a_running_server_may_vanish(tmp_path, caplog):
    folder = tmp_path / "cache"
    with serving("llama", Folder(folder)) as backend:
        say(backend, IDS)
        backend._prefix.flush(10)
        shutil.rmtree(folder)
        for key in range(2, 6):
            ids = (key, *IDS)
            assert say(backend, ids, key=key).tokens == cold("llama", ids)
        backend._prefix.flush(10)
    assert "cannot be written" in caplog.text
    assert caplog.text.count("cannot be written") == 1


def test_a_cap_drops_what_was_used_least_recently(tmp_path):
    with serving("llama", Folder(tmp_path)) as backend:
        say(backend, IDS)
    size = sum(path.stat().st_size for path in files(tmp_path))
    other = tuple(reversed(IDS))
    with serving("llama", Folder(tmp_path), cap=size * 3 // 2) as backend:
        say(backend, other)
    assert sum(path.stat().st_size for path in files(tmp_path)) <= size * 3 // 2
    with serving("llama", Folder(tmp_path)) as backend:
        assert say(backend, other).cached == len(other) - 1
        assert say(backend, IDS, key=2).tokens == cold("llama")


def test_a_cap_that_is_too_low_for_a_prompt_ends_the_writing(tmp_path):
    with serving("llama", Folder(tmp_path), cap=150_000) as backend:
        assert say(backend, IDS).tokens == cold("llama")
        backend._prefix.flush(10)
        assert backend.memory().prefix.dirty == 0
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 150_000


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> dict[str, Path]:
    """Folders as servers leave them, one for each kind."""
    found = {}
    for kind in DAMAGED_KINDS:
        found[kind] = tmp_path_factory.mktemp(kind)
        with serving(kind, Folder(found[kind])) as backend:
            say(backend, IDS)
    return found


def damage(path: Path, how: str, rng: random.Random) -> None:
    size = path.stat().st_size
    match how:
        case "flip":
            data = bytearray(path.read_bytes())
            data[rng.randrange(size)] ^= 1 << rng.randrange(8)
            path.write_bytes(data)
        case "truncate":
            os.truncate(path, rng.randrange(size))
        case "delete":
            path.unlink()
        case "swap":
            others = [other for other in files(path.parent) if other != path]
            if others:
                shutil.copyfile(rng.choice(others), path)


@pytest.mark.parametrize("kind", DAMAGED_KINDS)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    hits=st.lists(st.sampled_from(["flip", "truncate", "delete", "swap"]), min_size=1, max_size=4),
    index=st.sampled_from(["whole", "deleted", "truncated", "noise"]),
    while_it_runs=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_no_damage_gives_a_wrong_answer(
    kind, hits, index, while_it_runs, seed, filled, tmp_path_factory
):
    rng = random.Random(seed)
    folder = tmp_path_factory.mktemp("damaged") / "cache"
    shutil.copytree(filled[kind], folder)
    database = folder / "index.sqlite3"

    def break_files() -> None:
        for how in hits:
            if found := files(folder):
                damage(rng.choice(found), how, rng)

    if not while_it_runs:
        break_files()
    match index:
        case "deleted":
            database.unlink()
        case "truncated":
            os.truncate(database, rng.randrange(database.stat().st_size))
        case "noise":
            database.write_bytes(rng.randbytes(10_000))
    with serving(kind, Folder(folder)) as backend:
        if while_it_runs:
            break_files()
        for key in range(2):
            assert say(backend, IDS, key=key).tokens == cold(kind)
    for _ in range(len(hits) + 1):  # each start finds at least one of the files that are bad
        with serving(kind, Folder(folder)) as backend:
            again = say(backend, IDS)
            assert again.tokens == cold(kind)
    assert again.cached == len(IDS) - 1, "what was lost is written again"


def test_a_lost_file_that_the_index_keeps_is_not_waited_for(tmp_path):
    with serving("llama", Folder(tmp_path)) as backend:
        say(backend, IDS)
    with serving("llama", Folder(tmp_path)) as backend:
        for path in files(tmp_path):
            path.write_bytes(b"")
        other = sqlite3.connect(tmp_path / "index.sqlite3", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert say(backend, IDS).tokens == cold("llama")
        other.execute("ROLLBACK")
        other.close()
