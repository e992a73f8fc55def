"""The folder of segment files: whole files by name, written so that a crash leaves no half one.

Every method raises OSError as the system does. Files that are not named like ours are not seen.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

ENDING = ".safetensors"
OURS = re.compile(r"[0-9a-f]{64}\.safetensors")
HALF = re.compile(r"\.[0-9a-f]{64}\.\d+\.tmp")  # one that is being written, or was when it ended
ABANDONED = 3600.0  # seconds after which nobody writes at a half file any more


class Folder:
    """Names are without their ending. Every method may be called on any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        """For its owner alone: what is in it tells of prompts. One that exists stays as it is."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def sizes(self) -> dict[str, int]:
        """Name -> bytes of each file."""
        with os.scandir(self.path) as found:
            return {
                item.name.removesuffix(ENDING): item.stat().st_size
                for item in found
                if OURS.fullmatch(item.name) and item.is_file()
            }

    def file(self, name: str) -> Path:
        return self.path / f"{name}{ENDING}"

    def read(self, name: str) -> bytes:
        return self.file(name).read_bytes()

    def write(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Durable when it returns; when it raises nothing is left of it."""
        half = self.path / f".{name}.{os.getpid()}.tmp"
        try:
            with half.open("wb") as file:
                for piece in pieces:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            half.replace(self.file(name))
        except BaseException:
            with contextlib.suppress(OSError):
                half.unlink()
            raise
        self._sync()

    def _sync(self) -> None:
        """Makes the names durable, where the system can."""
        with contextlib.suppress(OSError):
            handle = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def remove(self, name: str) -> None:
        """What is gone already is fine."""
        self.file(name).unlink(missing_ok=True)

    def abandoned(self, age: float = ABANDONED) -> Iterator[Path]:
        """Half files that have not grown for `age` seconds."""
        before = time.time() - age
        for path in self.path.iterdir():
            if HALF.fullmatch(path.name):
                with contextlib.suppress(FileNotFoundError):  # it has just become a whole one
                    if path.stat().st_mtime <= before:
                        yield path
