"""The adapters of a running engine: which are there, who uses them, and how they come and go.

Belongs to the event loop. The device's own table changes only in exclusive jobs, so rows of others
rest for a moment and go on; a request counts as a user from before it is placed until it has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slipstream.backends.mlx.adapters.files import read
from slipstream.contracts.adapters import (
    AdapterInfo,
    AdapterReport,
    Adapters,
    AdapterUse,
    Mounted,
    check_name,
)
from slipstream.contracts.backend import Adapting, Backend
from slipstream.contracts.completion import Completion
from slipstream.contracts.errors import InvalidRequest, NotFound, Refusal, UsageError
from slipstream.engine.gateway import Gateway
from slipstream.settings import Settings

DEFAULT = "default"  # the name of what --adapter-path mounts


class AdapterShelf:
    """`bind` it to a gateway before anything else; `given` are read at once, mounted by `start`."""

    def __init__(self, settings: Settings) -> None:
        """Raises UsageError for a folder that cannot be used, whatever the model."""
        self._given = given(settings)
        for name, path in self._given.items():
            try:
                check_name(name)
                read(path)
            except InvalidRequest as error:
                raise UsageError(f"--adapter {name}: {error.message}", param="adapter") from error
        self._default = (AdapterUse(DEFAULT),) if settings.adapter_path is not None else ()
        self._device: Adapters | None = None
        self._gateway: Gateway | None = None
        self._known: dict[str, AdapterInfo] = {}  # least recently used first
        self._leaving: set[str] = set()
        self._spare: frozenset[str] = frozenset()  # may have to go for the one that is coming
        self._lock = asyncio.Lock()
        self._started = asyncio.Event()

    def watching(self, make: Callable[[], Adapting]) -> Callable[[], Backend]:
        """`make`, from which the device's table is taken on the way."""

        def made() -> Backend:
            backend = make()
            self._device = backend.adapters
            return backend

        return made

    async def start(self, gateway: Gateway) -> None:
        """Mounts what the flags name, once. Raises UsageError."""
        if self._gateway is not None:
            return
        self._gateway = gateway
        try:
            for name, path in self._given.items():
                await self._mount_given(name, path)
        finally:
            self._started.set()

    async def _mount_given(self, name: str, path: Path) -> None:
        try:
            await self.mount(name, path)
        except Refusal as error:
            raise UsageError(f"--adapter {name}: {error.message}", param="adapter") from error

    # Requests

    async def admit(self, completion: Completion) -> tuple[AdapterUse, ...]:
        """What the request runs with. Between this and its being placed nothing may be awaited.

        Waits while one of its adapters may have to go. Raises InvalidRequest."""
        uses = self._default if completion.adapters is None else completion.adapters
        if uses:
            await self._started.wait()
        names = {use.name for use in uses}
        while names & self._spare:
            async with self._lock:
                pass
        for use in uses:
            self._check(use, alone=len(uses) == 1)
        for name in names:
            self._known[name] = self._known.pop(name)
        return uses

    def _check(self, use: AdapterUse, *, alone: bool) -> None:
        if use.name not in self._known or use.name in self._leaving:
            mounted = ", ".join(self.names) or "none"
            raise InvalidRequest(
                f"The adapter {use.name[:100]!r} is not mounted. Mounted adapters: {mounted}.",
                param="adapter",
            )
        if self._known[use.name].method == "dora" and not (alone and use.scale == 1):
            raise InvalidRequest(
                f"{use.name} is a DoRA adapter, and those run alone and at scale 1: what they "
                "learned is a length of whole weights, which does not add up.",
                param="adapter",
            )

    # Coming and going

    @property
    def names(self) -> tuple[str, ...]:
        """Those that requests may ask for, in alphabetical order."""
        return tuple(sorted(self._known.keys() - self._leaving))

    @property
    def busy(self) -> bool:
        """One is coming or going now."""
        return self._lock.locked()

    def listed(self) -> list[AdapterReport]:
        """By name, with the rows that wait or run with each."""
        return [AdapterReport(self._known[n], self._users(n)) for n in sorted(self._known)]

    async def mount(self, name: str, path: Path) -> Mounted:
        """Raises InvalidRequest and Unavailable; then nothing has changed."""
        check_name(name)
        files = await asyncio.to_thread(read, path)
        # Once begun it ends, whoever still waits for it: both tables must say the same.
        return await asyncio.shield(asyncio.ensure_future(self._mount(name, files)))

    async def _mount(self, name: str, files: Any) -> Mounted:
        async with self._lock:
            spare = [n for n in self._known if not self._users(n) and n not in self._leaving]
            self._spare = frozenset(spare)
            try:
                mounted = await self._exclusively(
                    lambda device: device.mount(name, files, spare), f"mount {name}"
                )
            finally:
                self._spare = frozenset()
            for gone in mounted.unmounted:
                del self._known[gone]
            self._known[name] = mounted.info
        return mounted

    async def unmount(self, name: str, *, when_idle: bool) -> AdapterInfo:
        """Takes no new requests for it, and waits for the last row where `when_idle`.

        Raises NotFound, and InvalidRequest while a row waits or runs with it."""
        if name not in self._known or name in self._leaving:
            raise NotFound(f"There is no adapter {name[:100]!r} here.", param="name")
        if (users := self._users(name)) and not when_idle:
            raise InvalidRequest(
                f"{users} rows wait or run with {name}. Ask again with ?when=idle to unmount it "
                "after the last one.",
                param="name",
                code="adapter_in_use",
            )
        self._leaving.add(name)
        try:
            assert self._gateway is not None
            await self._gateway.unused(name)
            return await asyncio.shield(asyncio.ensure_future(self._unmount(name)))
        finally:
            self._leaving.discard(name)

    async def _unmount(self, name: str) -> AdapterInfo:
        async with self._lock:
            if name not in self._known:  # it had to go for another meanwhile
                raise NotFound(f"There is no adapter {name!r} here any more.", param="name")
            await self._exclusively(lambda device: device.unmount(name), f"unmount {name}")
            return self._known.pop(name)

    async def _exclusively(self, work: Callable[[Adapters], Any], title: str) -> Any:
        assert self._gateway is not None

        def job() -> Any:
            assert self._device is not None
            return work(self._device)

        return await self._gateway.run_exclusive(job, title)

    def _users(self, name: str) -> int:
        return 0 if self._gateway is None else self._gateway.using(name)


def given(settings: Settings) -> dict[str, Path]:
    """Name -> folder, from both flags. Raises UsageError."""
    found: dict[str, Path] = {}
    for text in settings.adapters:
        name, _, path = text.partition("=")
        if name in found:
            raise UsageError(f"--adapter names {name} twice.", param="adapters")
        found[name] = Path(path)
    if settings.adapter_path is not None:
        if DEFAULT in found:
            raise UsageError(
                f"--adapter-path is mounted as {DEFAULT}; give the other one another name.",
                param="adapter_path",
            )
        found[DEFAULT] = settings.adapter_path
    return found
