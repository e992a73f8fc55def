"""A disk that fails is a miss and one warning; what was written is whole or not there."""

from __future__ import annotations

import errno
import logging
import os
import threading
from concurrent.futures import wait

import pytest

from slipstream.backends.mlx.prefix.disk.file import Kind, Label, Prefix, Tensor, encode
from slipstream.backends.mlx.prefix.disk.folder import Folder
from slipstream.backends.mlx.prefix.disk.tier import PAUSE, STUCK, DiskTier, Lost
from slipstream.testing.clock import ManualClock

from .disk import IDS, Failing, cold, files, say, serving

SPACE = "s" * 64
BODY = {"0.keys": Tensor("U8", (1, 1, 4, 2), bytes(8))}


def label(*ids: int, start: int = 0, before: tuple[int, ...] = ()) -> Label:
    begin = Prefix(SPACE, before).key(start)
    return Label(kind=Kind.KEYS, space=SPACE, model="m", begin=begin, start=start, ids=ids)


def put(tier: DiskTier, one: Label) -> bool:
    tier.put(one, BODY)
    return tier.settled.result(10)


def found(tier: DiskTier, *ids: int) -> list[int]:
    return [common for _, common in tier.walk(Prefix(SPACE, ids), ids)]


def entry_of(tier: DiskTier, *ids: int):
    return next(entry for entry, _ in tier.walk(Prefix(SPACE, ids), ids))


@pytest.fixture
def tier(tmp_path):
    made = DiskTier(Folder(tmp_path), 1 << 20)
    yield made
    made.close()


def test_segments_follow_each_other_and_may_agree_in_part(tier):
    put(tier, label(1, 2, 3, 4))
    put(tier, label(7, 8, start=2, before=(1, 2)))
    assert found(tier, 1, 2, 3, 4, 5) == [4]
    assert found(tier, 1, 2, 7, 8, 9) == [2, 2]
    assert found(tier, 2, 2) == []


def test_what_was_put_can_be_taken(tier):
    put(tier, label(1, 2, 3, 4))
    tensors = tier.take(entry_of(tier, 1, 2, 3, 4), 10)
    assert bytes(tensors["0.keys"].data) == bytes(8)


def test_a_file_of_another_prefix_under_this_name_is_lost(tier, tmp_path):
    put(tier, label(1, 2, 3, 4))
    entry = entry_of(tier, 1, 2, 3, 4)
    other = b"".join(encode(label(9, 2, 3, 4), BODY))
    Folder(tmp_path).file(entry.label.name).write_bytes(other)
    with pytest.raises(Lost):
        tier.take(entry, 10)
    assert found(tier, 1, 2, 3, 4) == []
    assert files(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"not ours at all", os.urandom(5000)])
def test_foreign_files_are_left_alone(content, tmp_path, caplog):
    stray = tmp_path / "holiday.safetensors"
    posing = tmp_path / f"{'0' * 64}.safetensors"
    for path in (stray, posing):
        path.write_bytes(content)
    for _ in range(3):
        DiskTier(Folder(tmp_path), 1 << 20).close()
    assert stray.read_bytes() == posing.read_bytes() == content


def test_another_version_is_neither_used_nor_harmed_nor_spoken_of(tmp_path, caplog):
    one = label(1, 2, 3, 4)
    newer = b"".join(encode(one, BODY)).replace(b'"version": "1"', b'"version": "2"')
    Folder(tmp_path).file(one.name).write_bytes(newer)
    with_newer = DiskTier(Folder(tmp_path), 1 << 20)
    assert found(with_newer, 1, 2, 3, 4) == []
    with_newer.close()
    assert files(tmp_path) != []
    assert caplog.records == []


def test_files_without_an_index_are_found_again(tier, tmp_path):
    put(tier, label(1, 2, 3, 4))
    tier.close()
    for path in tmp_path.glob("index*"):
        path.unlink()
    again = DiskTier(Folder(tmp_path), 1 << 20)
    assert found(again, 1, 2, 3, 4) == [4]
    again.close()


def test_a_half_file_of_a_dead_process_is_not_seen_and_goes_in_time(tmp_path):
    half = tmp_path / f".{'a' * 64}.123.tmp"
    half.write_bytes(b"half")
    DiskTier(Folder(tmp_path), 1 << 20).close()
    assert half.exists(), "somebody may still write at it"
    os.utime(half, (0, 0))
    DiskTier(Folder(tmp_path), 1 << 20).close()
    assert not half.exists()


def test_a_write_that_fails_leaves_nothing(tmp_path):
    class Torn:
        def __len__(self) -> int:
            return 4

    with pytest.raises(TypeError):
        Folder(tmp_path).write("a" * 64, [b"good", Torn()])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO])
def test_a_disk_that_takes_nothing_is_warned_of_once_and_tried_again_later(error, tmp_path, caplog):
    clock = ManualClock()
    folder = Failing(tmp_path, write=error)
    tier = DiskTier(folder, 1 << 20, now=clock.now)
    tier.write_with(lambda: put(tier, label(1, 2, 3, 4)) or True)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            tier.write_one()
        assert (folder.attempts, len(caplog.records)) == (1, 1)
        assert tier.failure.errno == error
        clock.advance(PAUSE)
        tier.write_one()
        assert (folder.attempts, len(caplog.records)) == (2, 1)
        clock.advance(PAUSE)
        folder.write_error = 0
        tier.write_one()
    assert tier.failure is None
    assert found(tier, 1, 2, 3, 4) == [4]
    tier.close()


def test_a_disk_that_does_not_answer_is_given_up(tmp_path, caplog):
    clock, stuck = ManualClock(), threading.Event()

    class Stuck(Folder):
        def read(self, name: str) -> bytes:
            stuck.wait(60)
            return super().read(name)

    tier = DiskTier(Stuck(tmp_path), 1 << 20, now=clock.now)
    put(tier, label(1, 2, 3, 4))
    entry = entry_of(tier, 1, 2, 3, 4)
    assert tier.take(entry, 0) is None
    clock.advance(STUCK)
    with pytest.raises(Lost):
        tier.take(entry, 0)
    assert found(tier, 1, 2, 3, 4) == []
    assert "does not answer" in caplog.text
    stuck.set()
    tier.close()


class Hanging(Folder):
    """Writes nothing before `back`."""

    def __init__(self, path) -> None:
        super().__init__(path)
        self.writing, self.back = threading.Event(), threading.Event()

    def write(self, name, pieces) -> None:
        self.writing.set()
        self.back.wait(60)
        super().write(name, pieces)


def test_a_write_that_hangs_is_a_failure_until_it_is_done(tmp_path, caplog):
    clock, folder = ManualClock(), Hanging(tmp_path)
    tier = DiskTier(folder, 1 << 20, now=clock.now)
    tier.write_with(lambda: True)
    tier.put(label(1, 2, 3, 4), BODY)
    assert tier.write_one()
    clock.advance(STUCK)
    assert not any(tier.write_one() for _ in range(3))
    assert "does not answer" in str(tier.failure)
    folder.back.set()
    assert tier.settled.result(10)
    assert tier.failure is None
    tier.close()
    assert len(caplog.records) == 1


def test_closing_waits_for_a_write(tmp_path):
    folder = Hanging(tmp_path)
    tier = DiskTier(folder, 1 << 20)
    tier.put(label(1, 2, 3, 4), BODY)
    threading.Timer(0.01, folder.back.set).start()
    tier.close()
    assert len(files(tmp_path)) == 1


def test_closing_does_not_wait_for_a_disk_that_hangs(tmp_path, caplog):
    folder = Hanging(tmp_path)
    tier = DiskTier(folder, 1 << 20)
    tier.put(label(1, 2, 3, 4), BODY)
    folder.writing.wait(10)
    tier.close(0.0)
    tier.close(0.0)
    assert len(caplog.records) == 1
    folder.back.set()
    assert tier.settled.result(10), "what comes back late is still written"
    assert len(files(tmp_path)) == 1
    assert len(caplog.records) == 1


def test_asking_for_more_than_is_taken_keeps_no_heap(tier):
    labels = [label(1, 2, 3, 4, start=0)]
    for start in range(4, 44, 4):
        before = (1, 2, 3, 4) * (start // 4)
        labels.append(label(1, 2, 3, 4, start=start, before=before))
    for one in labels:
        put(tier, one)
    ids = (1, 2, 3, 4) * 11
    entries = [entry for entry, _ in tier.walk(Prefix(SPACE, ids), ids)]
    assert len(entries) == 11
    for entry in entries:
        tier.ask(entry)
    assert all(tier.take(entry, 10) for entry in entries)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EACCES])
def test_requests_do_not_feel_a_full_disk(error, tmp_path, caplog):
    with serving("qwen3_5", Failing(tmp_path, write=error)) as backend:
        for key in range(3):
            ids = (key, *IDS)
            assert say(backend, ids, key=key).tokens == cold("qwen3_5", ids)
            backend._prefix.flush(10)
        assert backend.memory().prefix.dirty > 0
    assert len(caplog.records) == 1


def test_requests_do_not_feel_a_disk_that_cannot_be_read(tmp_path, caplog):
    folder = Failing(tmp_path)
    with serving("qwen3_5", folder) as backend:
        say(backend, IDS)
    folder.read_error = errno.EIO
    with serving("qwen3_5", folder) as backend:
        for key in range(3):
            assert say(backend, IDS, key=key).tokens == cold("qwen3_5")
    assert len(caplog.records) == 1
    assert files(tmp_path), "what cannot be read now may be read later"


def test_a_folder_that_cannot_be_made_is_a_cache_without_a_disk(tmp_path, caplog):
    (tmp_path / "file").write_bytes(b"")
    with serving("llama", Folder(tmp_path / "file" / "cache")) as backend:
        for key in range(3):
            assert say(backend, IDS, key=key).tokens == cold("llama")
        backend._prefix.flush(10)
    assert 1 <= len(caplog.records) <= 2  # it cannot be used, and cannot be written


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to the superuser")
def test_a_folder_that_can_only_be_read_is_read(tmp_path):
    with serving("llama", Folder(tmp_path)) as backend:
        say(backend, IDS)
    tmp_path.chmod(0o500)
    try:
        with serving("llama", Folder(tmp_path)) as backend:
            assert say(backend, IDS).cached == len(IDS) - 1
    finally:
        tmp_path.chmod(0o700)


def test_a_segment_in_flight_is_waited_for_before_the_next(tier, tmp_path):
    calls = []
    tier.write_with(lambda: bool(calls.append(1)) or True)
    put(tier, label(1, 2, 3, 4))
    assert tier.write_one()
    assert calls == [1]
    wait([tier.settled])
