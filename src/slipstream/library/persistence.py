"""The disk tier of the prefix cache as the engine has it: opened at load, written while idle."""

from __future__ import annotations

from collections.abc import Callable

from slipstream.backends.mlx.prefix.disk.behind import Run, WriteBehind
from slipstream.backends.mlx.prefix.disk.folder import Folder
from slipstream.backends.mlx.prefix.disk.tier import DiskTier
from slipstream.backends.mlx.prefix.identity import identity
from slipstream.contracts.model import ModelInfo
from slipstream.contracts.report import Flushed
from slipstream.settings import Settings


class Persistence:
    """Nothing at all where no folder is set."""

    def __init__(self, settings: Settings, info: ModelInfo) -> None:
        self._settings = settings
        self._info = info
        self._disk: DiskTier | None = None
        self._behind: WriteBehind | None = None

    @property
    def tier(self) -> Callable[[], DiskTier] | None:
        """What opens the tier, on the device thread; None where no folder is set."""
        return None if self._settings.ssd_cache is None else self._open

    def _open(self) -> DiskTier:
        assert self._settings.ssd_cache is not None
        self._disk = DiskTier(
            Folder(self._settings.ssd_cache),
            self._settings.ssd_cache_bytes,
            identity=identity(self._info.path),
            model=self._info.id,
        )
        return self._disk

    def start(self, dirty: Callable[[], int], when_idle: Run) -> None:
        """Begins to write behind, unless it has begun."""
        if self._disk is not None and self._behind is None:
            self._behind = WriteBehind(self._disk, dirty)
            self._behind.start(when_idle)

    async def flush(self, exclusive: Run) -> Flushed:
        """Raises Unavailable when the disk does not take it."""
        if self._behind is None:
            return Flushed(0, 0)
        return await self._behind.flush(exclusive)

    async def stop(self) -> None:
        """Ends writing behind; the backend still flushes as it closes."""
        if self._behind is not None:
            await self._behind.stop()

    def close(self) -> None:
        """Once the backend is closed."""
        if self._disk is not None:
            self._disk.close()
