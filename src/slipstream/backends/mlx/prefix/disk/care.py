"""Looking after a folder of segments from outside: what is in it, what is bad, what is too much.

Goes by the files alone; a server that uses the folder at the same time finds misses, no more.
Everything here raises OSError.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slipstream.backends.mlx.prefix.disk.file import Damaged, Label, decode, read_label
from slipstream.backends.mlx.prefix.disk.folder import Folder
from slipstream.backends.mlx.prefix.disk.index import FILE, Entry, Index


@dataclass(frozen=True, slots=True)
class Bad:
    """A file that no server of this version can use, and why."""

    name: str
    size: int
    why: str


@dataclass(frozen=True, slots=True)
class Contents:
    """The files of a folder that can be used, going by their heads, and those that cannot."""

    entries: tuple[Entry, ...]
    bad: tuple[Bad, ...]

    @property
    def nbytes(self) -> int:
        return sum(found.size for found in (*self.entries, *self.bad))


def contents(folder: Folder) -> Contents:
    entries, bad = [], []
    used = last_used(folder)
    for name, size in sorted(folder.sizes().items()):
        try:
            with folder.file(name).open("rb") as file:
                label = named(name, read_label(file, size))
            entries.append(Entry(label, size, used.get(name, 0.0)))
        except FileNotFoundError:
            continue  # a server has just dropped it
        except Damaged as error:
            bad.append(Bad(name, size, str(error)))
    return Contents(tuple(entries), tuple(bad))


def last_used(folder: Folder) -> Mapping[str, float]:
    """Name -> Unix seconds, as far as the index knows."""
    if not (folder.path / FILE).exists():
        return {}
    index = Index(folder.path / FILE, lambda: ())
    try:
        return {entry.label.name: entry.used for entry in index.oldest()}
    finally:
        index.close()


def named(name: str, label: Label) -> Label:
    if label.name != name:
        raise Damaged("it is not what its name says")
    return label


def verify(folder: Folder) -> Iterator[tuple[str, Bad | None]]:
    """Reads every file whole and compares its checksum."""
    for name, size in sorted(folder.sizes().items()):
        try:
            label, _ = decode(folder.read(name))
            named(name, label)
        except FileNotFoundError:
            continue
        except Damaged as error:
            yield name, Bad(name, size, str(error))
        else:
            yield name, None


@dataclass(frozen=True, slots=True)
class Swept:
    """What `sweep` removed: files and their bytes."""

    files: int
    bytes: int


def sweep(folder: Folder, most: int | None) -> Swept:
    """Removes what no server can use, half files that were abandoned, and of the rest what was
    used least recently until at most `most` bytes are held."""
    found = contents(folder)
    halves = list(folder.abandoned())
    freed = sum(half.stat().st_size for half in halves)
    for half in halves:
        half.unlink(missing_ok=True)
    gone = {bad.name: bad.size for bad in found.bad}
    left = sum(entry.size for entry in found.entries)
    for entry in sorted(found.entries, key=lambda one: (one.used, -one.label.stop)):
        if most is None or left <= most:
            break
        gone[entry.label.name] = entry.size
        left -= entry.size
    remove(folder, gone)
    return Swept(len(gone) + len(halves), sum(gone.values()) + freed)


def remove(folder: Folder, names: Mapping[str, object]) -> None:
    """From the folder, and from its index where there is one."""
    for name in names:
        folder.remove(name)
    if names and (folder.path / FILE).exists():
        index = Index(folder.path / FILE, lambda: ())
        with contextlib.closing(index):
            index.drop(names)
