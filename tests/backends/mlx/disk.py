"""Backends with a disk tier, run by hand, and folders that misbehave."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from parity import tiny
from slipstream.backends.mlx.backend import MlxBackend
from slipstream.backends.mlx.device import open_device
from slipstream.backends.mlx.opening import GENERIC
from slipstream.backends.mlx.prefix.disk.folder import Folder
from slipstream.backends.mlx.prefix.disk.tier import DiskTier
from slipstream.backends.mlx.segments import Costs
from slipstream.contracts.backend import Advance, Row
from slipstream.contracts.limits import MemoryLimits
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import Prompt, RowSpec

CAP = 1 << 26  # bytes
COSTS = Costs(row=1.0, segment=1.0, column=1.0)
IDS = tuple((7 * i * i + 3 * i + 1) % tiny.VOCABULARY for i in range(600))
STEPS = 4


@dataclass(frozen=True)
class Said:
    tokens: tuple[int, ...]
    cached: int


def spec_of(key: int, ids: Sequence[int], salt: str = "") -> RowSpec:
    prompt = Prompt(ids=tuple(ids), max_tokens=STEPS + 1, cache_salt=salt)
    return RowSpec(key=key, lane=Lane.GROUP, prompt=prompt, deadline=0.0)


def opened(backend: MlxBackend, spec: RowSpec) -> Row:
    """As the engine does it: asked again until the disk has answered."""
    for _ in range(2000):
        if (row := backend.open(spec)) is not None:
            return row
    raise AssertionError("the row never opened")


def say(backend: MlxBackend, ids: Sequence[int], key: int = 1, salt: str = "") -> Said:
    """One row to its end, kept before its last prompt token as the engine does."""
    row = opened(backend, spec_of(key, ids, salt))
    cached = row.cached
    if row.pending > 1:
        backend.launch([Advance(row, row.pending - 1)])
        backend.collect(0)
        backend.keep(row)
    tokens = []
    for _ in range(STEPS):
        backend.launch([Advance(row, row.pending)])
        tokens += [drawn.token for drawn in backend.collect(0)]
    backend.release(row)
    return Said(tuple(tokens), cached)


@contextmanager
def serving(
    kind: str, folder: Folder, *, cap: int = CAP, identity: str = "weights", prefix: int = CAP
) -> Iterator[MlxBackend]:
    """A backend from its start to its close, which makes the disk tier durable."""
    tier = DiskTier(folder, cap, identity=identity, model=kind)
    backend = MlxBackend(
        tiny.build(kind),
        open_device(),
        tiny.VOCABULARY,
        limits=MemoryLimits(prefix_cache=prefix),
        level=GENERIC,
        costs=COSTS,
        disk=lambda: tier,
    )
    try:
        yield backend
    finally:
        backend.close()
        tier.close()


@cache
def cold(kind: str, ids: tuple[int, ...] = IDS) -> tuple[int, ...]:
    """The plain twin: what is said without any cache."""
    backend = MlxBackend(
        tiny.build(kind),
        open_device(),
        tiny.VOCABULARY,
        limits=MemoryLimits(prefix_cache=0),
        level=GENERIC,
        costs=COSTS,
    )
    return say(backend, ids).tokens


class Failing(Folder):
    """A folder whose writes, or reads, fail with `error` while that is set."""

    def __init__(self, path: Path, *, write: int = 0, read: int = 0) -> None:
        super().__init__(path)
        self.write_error = write
        self.read_error = read
        self.attempts = 0

    def read(self, name: str) -> bytes:
        self.attempts += 1
        if self.read_error:
            raise OSError(self.read_error, errno.errorcode[self.read_error])
        return super().read(name)

    def write(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        self.attempts += 1
        if self.write_error:
            raise OSError(self.write_error, errno.errorcode[self.write_error])
        super().write(name, pieces)


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))
