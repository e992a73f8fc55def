"""Writing behind: what the disk lacks goes there while the device has nothing else to do.

Belongs to the event loop. Knows no device: each unit is run where its caller says.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from slipstream.backends.mlx.prefix.disk.tier import STUCK, DiskTier
from slipstream.contracts.errors import Cancelled, Fault, Refusal, Unavailable
from slipstream.contracts.report import Flushed

REST = 1.0  # seconds between two looks
NAME = "write the prefix cache"

Run = Callable[[Callable[[], bool], str], Awaitable[bool]]
"""Runs a unit of work on the device thread, under a name."""


class WriteBehind:
    """Borrows `tier`. `dirty` says how much there may be to write."""

    def __init__(
        self, tier: DiskTier, dirty: Callable[[], int], rest: float = REST, patience: float = STUCK
    ) -> None:
        self._tier = tier
        self._dirty = dirty
        self._rest = rest
        self._patience = patience
        self._task: asyncio.Task[None] | None = None

    def start(self, when_idle: Run) -> None:
        """Writes from now on, a segment at a time."""
        self._task = asyncio.create_task(self._keep_writing(when_idle))

    async def _keep_writing(self, when_idle: Run) -> None:
        # Whatever ends the engine ends this too, and the rest is written when it closes.
        with contextlib.suppress(Refusal, Cancelled, Fault):
            while True:
                await asyncio.sleep(self._rest)
                if self._dirty():
                    await self._write(when_idle)

    async def flush(self, at_once: Run) -> Flushed:
        """Returns when all that was dirty is durable. Rows get a turn between two segments.

        Raises Unavailable when the disk does not take it, or the engine closes."""
        files, size = self._tier.written_files, self._tier.written_bytes
        await self._write(at_once)
        if self._tier.failure is not None:
            raise Unavailable(f"The disk cache cannot be written: {self._tier.failure}")
        return Flushed(self._tier.written_files - files, self._tier.written_bytes - size)

    async def _write(self, run: Run) -> None:
        while await run(self._tier.write_one, NAME):
            if self._tier.settled is not None:
                # Giving up this wait does not take back what was handed over.
                writing = asyncio.wrap_future(self._tier.settled)
                await asyncio.wait([writing], timeout=self._patience)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
