"""The index finds what follows a prefix; lost, damaged or foreign, it is made anew from files."""

from __future__ import annotations

import logging
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from slipstream.backends.mlx.prefix.disk.file import Kind, Label
from slipstream.backends.mlx.prefix.disk.index import Entry, Index


def keys(begin: str, *ids: int, used: float = 0.0) -> Entry:
    label = Label(kind=Kind.KEYS, space="s", model="m", begin=begin, start=4, ids=ids)
    return Entry(label, 10, used)


def state(begin: str, start: int, space: str = "s") -> Entry:
    return Entry(
        Label(kind=Kind.STATE, space=space, model="m", begin=begin, start=start, note="{}"), 5, 1.0
    )


def nothing():
    return ()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "index.sqlite3"


@pytest.mark.parametrize("kept", [True, False])
def test_what_follows_a_prefix_is_found_by_its_first_token(path, kept):
    index = Index(path if kept else None, nothing)
    index.add([keys("a", 1, 2), keys("a", 3), keys("b", 1)])
    assert index.following("a", 1) == [keys("a", 1, 2)]
    assert index.following("a", 2) == []
    assert index.nbytes == 30


def test_states_come_longest_first_and_within_bounds():
    index = Index(None, nothing)
    index.add([state("a", 10), state("b", 20), state("c", 30), state("d", 20, space="t")])
    assert [entry.label.start for entry in index.states("s", 10, 30)] == [30, 20]
    assert [entry.label.start for entry in index.states("s", 9, 29)] == [20, 10]


def test_the_least_recently_used_comes_first():
    index = Index(None, nothing)
    old, new = keys("a", 1, used=1.0), keys("b", 1, used=2.0)
    index.add([new, old])
    assert [entry.label for entry in index.oldest()] == [old.label, new.label]
    index.touch([old.label.name], 3.0)
    assert [entry.label for entry in index.oldest()] == [new.label, old.label]


def test_what_is_dropped_is_gone(path):
    index = Index(path, nothing)
    index.add([keys("a", 1), keys("b", 1)])
    index.drop([keys("a", 1).label.name])
    assert index.sizes() == {keys("b", 1).label.name: 10}


def test_it_outlives_its_process(path):
    first = Index(path, nothing)
    first.add([keys("a", 1)])
    first.close()
    assert Index(path, nothing).following("a", 1) == [keys("a", 1)]


def test_two_at_once_see_each_others_entries(path):
    one, two = Index(path, nothing), Index(path, nothing)
    one.add([keys("a", 1)])
    two.add([keys("b", 1)])
    assert one.sizes() == two.sizes()
    assert len(one.sizes()) == 2


def test_a_process_that_holds_it_costs_a_miss_and_no_more(path):
    index = Index(path, nothing)
    index.add([keys("a", 1)])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    index.add([keys("b", 1)])
    other.execute("ROLLBACK")
    assert index.following("a", 1) == [keys("a", 1)]
    assert index.following("b", 1) == []


def test_a_thread_that_does_not_come_back_costs_a_miss_and_no_more(path):
    scanning, back = threading.Event(), threading.Event()

    def scan():
        scanning.set()
        back.wait(60)
        return [keys("a", 1)]

    index = Index(path, scan, held=0.0)
    index.add([keys("a", 1)])
    spoil(path, "ids = NULL")
    with ThreadPoolExecutor(1) as another:
        slow = another.submit(index.oldest)
        assert scanning.wait(10)
        assert index.sizes() == {}
        back.set()
        assert slow.result(10) == [keys("a", 1)]
    assert index.following("a", 1) == [keys("a", 1)]


def spoil(path, change):
    other = sqlite3.connect(path)
    with other:
        other.execute(f"UPDATE segment SET {change}")
    other.close()


def test_once_closed_it_holds_nothing_and_says_nothing(path, caplog):
    index = Index(path, nothing)
    index.add([keys("a", 1)])
    index.close()
    index.close()
    assert index.sizes() == {}
    assert caplog.records == []


@pytest.mark.parametrize("damage", [b"", b"noise" * 1000, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_file_is_made_anew(path, damage):
    path.write_bytes(damage)
    index = Index(path, nothing)
    index.add([keys("a", 1)])
    assert Index(path, nothing).following("a", 1) == [keys("a", 1)]


def test_another_schema_is_made_anew(path):
    other = sqlite3.connect(path)
    other.execute("PRAGMA user_version = 99")
    other.close()
    index = Index(path, nothing)
    index.add([keys("a", 1)])
    assert len(index.sizes()) == 1


@pytest.mark.parametrize(
    "change",
    [
        "ids = x'0100000002000000'",
        "ids = NULL",
        "model = CAST(x'71ff' AS TEXT)",
        "bytes = NULL",
        "bytes = 'many'",
        "used = x'00'",
        "kind = 'other'",
    ],
)
def test_a_row_that_was_changed_is_noticed_and_the_files_are_asked(change, path, caplog):
    index = Index(path, lambda: [keys("a", 1)])
    index.add([keys("a", 1)])
    spoil(path, change)
    with caplog.at_level(logging.WARNING):
        assert index.oldest() == [keys("a", 1)]
    assert len(caplog.records) == 1


def test_a_folder_that_is_gone_leaves_one_in_memory(tmp_path):
    index = Index(tmp_path / "gone" / "index.sqlite3", nothing)
    index.add([keys("a", 1)])
    assert len(index.sizes()) == 1
