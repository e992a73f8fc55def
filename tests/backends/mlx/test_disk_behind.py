"""Writing behind goes on a segment at a time, waits for the disk, and ends with the engine."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from collections.abc import Callable

import pytest

from slipstream.backends.mlx.prefix.disk.behind import WriteBehind
from slipstream.backends.mlx.prefix.disk.file import Kind, Label, Tensor
from slipstream.backends.mlx.prefix.disk.tier import STUCK, DiskTier
from slipstream.contracts.errors import Unavailable
from slipstream.testing.clock import ManualClock

from .disk import Failing, files

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Rig:
    """A tier with `count` segments to write."""

    def __init__(
        self, folder: Failing, count: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.left = count
        self.handed = asyncio.Event()  # all of them
        self.settled: list[bool] = []  # whether the one before was, at each unit
        self.tier = DiskTier(folder, 1 << 20, now=now)
        self.tier.write_with(self.unit)

    def unit(self) -> bool:
        if not self.left:
            return False
        self.settled.append(self.tier.settled is None or self.tier.settled.done())
        label = Label(kind=Kind.KEYS, space="s", model="m", begin="b", start=0, ids=(self.left,))
        self.tier.put(label, {"0.keys": Tensor("U8", (1, 1, 1, 1), b"1")})
        self.left -= 1
        if not self.left:
            self.handed.set()
        return True

    async def run(self, unit: Callable[[], bool], name: str) -> bool:
        await asyncio.sleep(0)
        return unit()


@pytest.fixture
def folder(tmp_path):
    return Failing(tmp_path)


async def test_a_flush_writes_all_and_says_how_much(folder):
    rig = Rig(folder, 3)
    done = await WriteBehind(rig.tier, lambda: rig.left).flush(rig.run)
    assert done.written == 3
    assert done.bytes == sum(path.stat().st_size for path in files(folder.path))
    assert rig.settled == [True] * 3
    rig.tier.close()


async def test_a_flush_that_fails_says_why(folder):
    rig = Rig(folder, 3)
    folder.write_error = errno.ENOSPC
    with pytest.raises(Unavailable, match="ENOSPC"):
        await WriteBehind(rig.tier, lambda: rig.left).flush(rig.run)
    rig.tier.close()


async def test_a_flush_to_a_disk_that_hangs_is_given_up(folder):
    clock, back = ManualClock(), threading.Event()

    class Hanging(Failing):
        def write(self, name, pieces) -> None:
            clock.advance(STUCK)
            back.wait(60)

    rig = Rig(Hanging(folder.path), 3, clock.now)
    with pytest.raises(Unavailable, match="does not answer"):
        await WriteBehind(rig.tier, lambda: rig.left, patience=0.01).flush(rig.run)
    assert rig.left == 2
    back.set()
    rig.tier.close()


async def test_it_writes_whenever_there_is_something(folder):
    rig = Rig(folder, 3)
    behind = WriteBehind(rig.tier, lambda: rig.left, rest=0.0)
    behind.start(rig.run)
    await asyncio.wait_for(rig.handed.wait(), 10)
    await behind.stop()
    rig.tier.close()
    assert rig.settled == [True] * 3


async def test_what_was_handed_over_is_written_though_it_is_stopped(folder):
    rig = Rig(folder, 1)
    behind = WriteBehind(rig.tier, lambda: rig.left, rest=0.0)
    behind.start(rig.run)
    await asyncio.wait_for(rig.handed.wait(), 10)
    await behind.stop()
    rig.tier.close()
    assert rig.tier.written_files == 1


async def test_it_ends_with_the_engine(folder):
    async def closing(unit: Callable[[], bool], name: str) -> bool:
        raise Unavailable("The server is shutting down.")

    rig = Rig(folder, 1)
    behind = WriteBehind(rig.tier, lambda: rig.left, rest=0.0)
    behind.start(closing)
    await behind.stop()
    rig.tier.close()
