"""Which segments a folder holds, in SQLite, so that a prompt is looked up without opening files.

It is never trusted over the files: what it lacks is a miss, what it has too much is found out when
the file is read. One that is missing or damaged is made anew from the files.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from slipstream.backends.mlx.prefix.disk.file import Kind, Label, packed, unpacked

log = logging.getLogger(__name__)
T = TypeVar("T")

FILE = "index.sqlite3"
SCHEMA = 1
OPENING = 2.0  # seconds that another process may hold the index when it is opened
PATIENCE = 100  # milliseconds that it may later
HELD = 2.0  # seconds that another thread may, which a disk that hangs keeps there
COLUMNS = "name, kind, space, model, begin, start, ids, note, bytes, used"
TYPES = (str, str, str, str, str, int, bytes, str, int, float)
CREATE = f"""
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA user_version = {SCHEMA};
CREATE TABLE IF NOT EXISTS segment (
    name TEXT PRIMARY KEY, first INTEGER, stop INTEGER, kind TEXT, space TEXT, model TEXT,
    begin TEXT, start INTEGER, ids BLOB, note TEXT, bytes INTEGER, used REAL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS next_one ON segment (begin, kind, first);
CREATE INDEX IF NOT EXISTS in_space ON segment (space, kind, stop);
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One segment's file: `size` in bytes, `used` last in Unix seconds."""

    label: Label
    size: int
    used: float


class Index:
    """May be used on any thread. `path` None, or one that cannot be used: kept in memory.

    `scan` reads the folder's entries again, for an index that must be made anew."""

    def __init__(
        self, path: Path | None, scan: Callable[[], Iterable[Entry]], held: float = HELD
    ) -> None:
        self._path = path
        self._scan = scan
        self._held = held
        self._lock = threading.Lock()
        self._closed = False
        self._db = self._connect()

    def _connect(self) -> sqlite3.Connection:
        """The index file, made anew when it is damaged, else one in memory."""
        if self._path is not None:
            for _ in range(2):
                try:
                    return self._open(str(self._path))
                except sqlite3.Error as error:
                    log.debug("the index %s cannot be used: %s", self._path, error)
                    if is_busy(error):
                        break
                    self._delete(self._path)
        return self._open(":memory:")

    def _open(self, path: str) -> sqlite3.Connection:
        db = sqlite3.connect(path, timeout=OPENING, check_same_thread=False, isolation_level=None)
        try:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, SCHEMA):
                raise sqlite3.DatabaseError(f"its schema is version {version}")
            db.executescript(CREATE)
            db.execute("SELECT count(*) FROM segment").fetchone()
            # Writing is tried too: a folder that can only be read is served from memory.
            db.execute("BEGIN IMMEDIATE")
            db.execute("ROLLBACK")
            db.execute(f"PRAGMA busy_timeout = {PATIENCE}")
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _delete(self, path: Path) -> None:
        for ending in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                path.with_name(path.name + ending).unlink()

    def _do(self, action: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """What `action` gives; `otherwise` when another is in the way, and once it is closed."""
        with self._mine() as mine:
            if not mine or self._closed:
                return otherwise
            try:
                return action(self._db)
            except (sqlite3.Error, ValueError, OverflowError) as error:
                if is_busy(error):
                    return otherwise
                log.warning("the index of the disk cache is damaged and made anew: %s", error)
            try:
                self._renew()
                return action(self._db)
            except (sqlite3.Error, OSError):
                return otherwise

    @contextlib.contextmanager
    def _mine(self) -> Iterator[bool]:
        """Whether no other thread is at it, nor will be."""
        mine = self._lock.acquire(timeout=self._held)
        try:
            yield mine
        finally:
            if mine:
                self._lock.release()

    def _renew(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._db.close()
        if self._path is not None:
            self._delete(self._path)
        self._db = self._connect()
        insert(self._db, self._scan())

    def add(self, entries: Iterable[Entry]) -> None:
        found = list(entries)
        self._do(lambda db: insert(db, found), None)

    def drop(self, names: Iterable[str]) -> None:
        keys = [(name,) for name in names]
        self._do(lambda db: many(db, "DELETE FROM segment WHERE name = ?", keys), None)

    def touch(self, names: Iterable[str], now: float) -> None:
        keys = [(now, name) for name in names]
        self._do(lambda db: many(db, "UPDATE segment SET used = ? WHERE name = ?", keys), None)

    def following(self, begin: str, first: int) -> list[Entry]:
        """Keys and values that come after the prefix `begin`, with `first` as their first token."""
        return self._select("WHERE begin = ? AND kind = ? AND first = ?", (begin, Kind.KEYS, first))

    def states(self, space: str, above: int, most: int) -> list[Entry]:
        """States after more than `above` tokens and at most `most`, the longest first."""
        return self._select(
            "WHERE space = ? AND kind = ? AND stop > ? AND stop <= ? ORDER BY stop DESC",
            (space, Kind.STATE, above, most),
        )

    def oldest(self) -> list[Entry]:
        """All, the least recently used first; of those used together what builds on others."""
        return self._select("ORDER BY used, stop DESC", ())

    def _select(self, clause: str, values: Sequence[object]) -> list[Entry]:
        query = f"SELECT {COLUMNS} FROM segment {clause}"
        empty: list[Entry] = []
        return self._do(lambda db: [entry(row) for row in db.execute(query, values)], empty)

    def sizes(self) -> dict[str, int]:
        """Name -> bytes of each file, as it was when it was written."""
        query = "SELECT name, bytes FROM segment"
        return self._do(lambda db: dict(db.execute(query).fetchall()), {})

    @property
    def nbytes(self) -> int:
        query = "SELECT coalesce(sum(bytes), 0) FROM segment"
        return self._do(lambda db: int(db.execute(query).fetchone()[0]), 0)

    def close(self) -> None:
        self._closed = True
        with self._mine() as mine, contextlib.suppress(sqlite3.Error):
            if mine:
                self._db.close()


def is_busy(error: Exception) -> bool:
    # One that Python raises by itself, of a text that is no UTF-8, has no code.
    code = vars(error).get("sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def insert(db: sqlite3.Connection, entries: Iterable[Entry]) -> None:
    rows = [
        (
            found.label.ids[0] if found.label.ids else -1,
            found.label.stop,
            found.label.name,
            found.label.kind,
            found.label.space,
            found.label.model,
            found.label.begin,
            found.label.start,
            packed(found.label.ids),
            found.label.note,
            found.size,
            found.used,
        )
        for found in entries
    ]
    query = f"INSERT OR REPLACE INTO segment (first, stop, {COLUMNS}) VALUES ({'?,' * 11}?)"
    many(db, query, rows)


def many(db: sqlite3.Connection, query: str, rows: Sequence[Sequence[object]]) -> None:
    """All of `rows` or none."""
    if not rows:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        db.executemany(query, rows)
    except sqlite3.Error:
        with contextlib.suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def entry(row: Sequence[Any]) -> Entry:
    """Raises ValueError when the row is not what was written."""
    if tuple(map(type, row)) != TYPES:
        raise ValueError("a row holds values of other types")
    name, kind, space, model, begin, start, ids, note, size, used = row
    label = Label(
        kind=Kind(kind),
        space=space,
        model=model,
        begin=begin,
        start=start,
        ids=unpacked(ids),
        note=note,
    )
    if label.name != name:
        raise ValueError("a row does not say what its name says")
    return Entry(label, size, used)
