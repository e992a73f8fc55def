"""The disk tier: segment files under a cap in bytes, read and written by threads of its own.

Knows files and labels, no tensors of MLX. Whatever the disk does wrong is a miss and one warning.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial

from slipstream.backends.mlx.prefix.disk.file import (
    Damaged,
    Label,
    OtherVersion,
    Prefix,
    Tensor,
    decode,
    encode,
    read_label,
)
from slipstream.backends.mlx.prefix.disk.folder import Folder
from slipstream.backends.mlx.prefix.disk.index import FILE, Entry, Index
from slipstream.backends.mlx.prefix.disk.worker import Worker

log = logging.getLogger(__name__)

STAGED = 4  # segments that were asked for and wait to be taken
PAUSE = 30.0  # seconds without writing after a write failed
STUCK = 10.0  # seconds after which a read or a write is given up
CLOSING = 5.0  # seconds that closing waits for what is being read or written


class Lost(Exception):
    """A segment that cannot be read. It is not offered again."""


@dataclass(frozen=True, slots=True)
class Asked:
    entry: Entry
    reading: Future[Mapping[str, Tensor] | None]  # None: it cannot be read
    since: float


class DiskTier:
    """Takes `folder`. `identity` tells this model's weights from all others; see identity.py.

    `ask`, `take` and the walks belong to the device thread. `cap` is in bytes."""

    def __init__(
        self,
        folder: Folder,
        cap: int,
        *,
        identity: str = "",
        model: str = "",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.identity = identity
        self.model = model
        self.nbytes = 0
        self.written_files = 0
        self.written_bytes = 0
        self._folder = folder
        self._cap = cap
        self._now = now
        self._reader = Worker("slipstream-disk-read")
        self._writer = Worker("slipstream-disk-write")
        self._asked: dict[str, Asked] = {}
        self._last: Future[bool] | None = None
        self._last_put = 0.0
        self._failed: tuple[float, OSError] | None = None
        self._unit: Callable[[], bool] | None = None
        self._warned: set[str] = set()
        self._warning = threading.Lock()
        self._index = self._opened()
        self._writer.submit(self._shrink)

    def _opened(self) -> Index:
        """The index, brought in line with the files."""
        try:
            self._folder.make()
        except OSError as error:
            self._warn("use", "cannot be used: %s", error)
        index = Index(self._folder.path / FILE, self._scan)
        try:
            files, known = self._folder.sizes(), index.sizes()
            gone = [name for name, size in known.items() if files.get(name) != size]
            index.drop(gone)
            index.add(self._labelled({n: s for n, s in files.items() if known.get(n) != s}))
            for half in self._folder.abandoned():
                half.unlink(missing_ok=True)
        except OSError as error:
            self._warn("use", "cannot be read: %s", error)
        self.nbytes = index.nbytes
        return index

    def _scan(self) -> Iterator[Entry]:
        return self._labelled(self._folder.sizes())

    def _labelled(self, files: Mapping[str, int]) -> Iterator[Entry]:
        """The entries of `files` that can be used."""
        for name, size in files.items():
            try:
                path = self._folder.file(name)
                with path.open("rb") as file:
                    label = read_label(file, size)
                    used = path.stat().st_mtime
            except OtherVersion:
                continue
            except (OSError, Damaged) as error:
                self._warn("read", "has files that cannot be used, such as %s: %s", name, error)
                continue
            if label.name == name:
                yield Entry(label, size, used)

    # What there is

    def walk(self, prefix: Prefix, ids: Sequence[int]) -> Iterator[tuple[Entry, int]]:
        """Segments of keys and values along `ids`, and how many of their tokens agree."""
        done = 0
        while done < len(ids):
            best: tuple[int, Entry] | None = None
            for entry in self._index.following(prefix.key(done), ids[done]):
                common = agreed(entry.label.ids, ids[done : done + len(entry.label.ids)])
                if common and (best is None or common > best[0]):
                    best = common, entry
            if best is None:
                return
            yield best[1], best[0]
            done += best[0]

    def states(self, space: str, ids: Sequence[int], above: int) -> list[Entry]:
        """States of prefixes of `ids` longer than `above`, the longest first."""
        found = self._index.states(space, above, len(ids))
        prefix = Prefix(space, ids)
        keys = {n: prefix.key(n) for n in sorted({entry.label.start for entry in found})}
        return [entry for entry in found if entry.label.begin == keys[entry.label.start]]

    # Reading

    def ask(self, entry: Entry) -> None:
        """Begins to read; asking twice is the same."""
        name = entry.label.name
        if name in self._asked:
            return
        while len(self._asked) >= STAGED:
            self._asked.pop(next(iter(self._asked))).reading.cancel()
        reading = self._reader.submit(partial(self._read, entry))
        self._asked[name] = Asked(entry, reading, self._now())

    def take(self, entry: Entry, patience: float) -> Mapping[str, Tensor] | None:
        """What was asked for, once; None when it is not there after `patience` seconds.

        Raises Lost."""
        self.ask(entry)
        asked = self._asked[entry.label.name]
        done, _ = wait([asked.reading], patience)
        if not done and self._now() - asked.since < STUCK:
            return None
        del self._asked[entry.label.name]
        if not done:
            self._index.drop([entry.label.name])
            self._warn("read", "does not answer")
        tensors = asked.reading.result() if done else None
        if tensors is None:
            raise Lost
        return tensors

    def _read(self, entry: Entry) -> Mapping[str, Tensor] | None:
        name = entry.label.name
        try:
            label, tensors = decode(self._folder.read(name))
            if label != entry.label:
                raise Damaged("it is not what its name says")
        except (OSError, Damaged) as error:
            self._index.drop([name])
            self._warn("read", "has files that cannot be used, such as %s: %s", name, error)
            if isinstance(error, Damaged):
                with contextlib.suppress(OSError):
                    self._folder.remove(name)
            return None
        self._index.touch([name], time.time())
        return tensors

    # Writing

    def write_with(self, unit: Callable[[], bool]) -> None:
        """`unit` hands over one segment, on the device thread; False when there is nothing left."""
        self._unit = unit

    def write_one(self) -> bool:
        """One unit of writing, on the device thread. False when nothing can or need be written;
        otherwise there may be more once it is `settled`."""
        if self._stuck:
            self._warn("write", "does not answer")
        if self._unit is None or self.failure is not None:
            return False
        if self._last is not None and not self._last.done():
            return True
        return self._unit()

    def put(self, label: Label, tensors: Mapping[str, Tensor]) -> None:
        """Begins to write a segment. To be called when the one before is `settled`."""
        self._last_put = self._now()
        self._last = self._writer.submit(partial(self._write, label, tensors))

    def touch(self, entries: Iterable[Entry]) -> None:
        """They are in use."""
        names = [entry.label.name for entry in entries]
        self._writer.submit(partial(self._index.touch, names, time.time()))

    @property
    def settled(self) -> Future[bool] | None:
        """What was put last: true when it is durable, or too large for ever to be; false when it
        may be tried again."""
        return self._last

    @property
    def failure(self) -> OSError | None:
        """Why nothing is written for a while."""
        if self._stuck:
            return TimeoutError("it does not answer")
        if self._failed is None or self._now() - self._failed[0] >= PAUSE:
            return None
        return self._failed[1]

    @property
    def _stuck(self) -> bool:
        """A write goes on for too long."""
        writing = self._last is not None and not self._last.done()
        return writing and self._now() - self._last_put >= STUCK

    def _write(self, label: Label, tensors: Mapping[str, Tensor]) -> bool:
        pieces = encode(label, tensors)
        size = sum(len(piece) for piece in pieces)
        if size > self._cap:
            return True
        try:
            self._make_room(size)
            self._folder.write(label.name, pieces)
        except OSError as error:
            self._failed = self._now(), error
            self._warn("write", "cannot be written: %s", error)
            return False
        self._index.add([Entry(label, size, time.time())])
        self._failed = None
        with self._warning:
            self._warned.discard("write")
        self.written_files += 1
        self.written_bytes += size
        self.nbytes = self._index.nbytes
        return True

    def _shrink(self) -> None:
        """An earlier run may have had a larger cap."""
        with contextlib.suppress(OSError):
            self._make_room(0)
        self.nbytes = self._index.nbytes

    def _make_room(self, size: int) -> None:
        """Drops what is least recently used until `size` more bytes fit."""
        held = self._index.nbytes
        if held + size <= self._cap:
            return
        for entry in self._index.oldest():
            self._folder.remove(entry.label.name)
            self._index.drop([entry.label.name])
            held -= entry.size
            if held + size <= self._cap:
                return

    def close(self, patience: float = CLOSING) -> None:
        """Waits for what is being written and read, `patience` seconds each. Idempotent."""
        while self._asked:
            self._asked.popitem()[1].reading.cancel()
        wrote, read = self._writer.close(patience), self._reader.close(patience)
        if not (wrote and read):
            self._warn("write", "does not answer; not all may be written")
        self._index.close()

    def _warn(self, what: str, message: str, *values: object) -> None:
        """Once for each kind of trouble."""
        with self._warning:
            level = logging.DEBUG if what in self._warned else logging.WARNING
            self._warned.add(what)
        log.log(level, f"the disk cache {self._folder.path} {message}", *values)


def agreed(one: Sequence[int], two: Sequence[int]) -> int:
    """How many tokens two sequences begin with alike."""
    pairs = enumerate(zip(one, two, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(two)))
