"""The adapters that are mounted, and what rows have of them: contracts.adapters.Adapters.

Owns their arrays. Who may be unmounted when memory runs short is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from slipstream.backends.mlx.adapters.adapted import Adapted, AdaptedSwitch, Router
from slipstream.backends.mlx.adapters.blend import Blend, Layout, Place, Stack
from slipstream.backends.mlx.adapters.files import Contents, Piece, listed, refused, understood
from slipstream.backends.mlx.adapters.parts import Adapter, Worn, made, size
from slipstream.backends.mlx.adapters.targets import SWITCH, Spot, spots
from slipstream.backends.mlx.opening import OpenModel
from slipstream.backends.mlx.row import DeviceRow
from slipstream.contracts.adapters import AdapterFiles, AdapterInfo, Mounted
from slipstream.contracts.errors import Fault, InvalidRequest, Unavailable
from slipstream.contracts.row import RowSpec

PROBES = (5, 4099)  # tokens of forwards that show which modules are called; some want many
MB = 1 << 20


@dataclass(frozen=True, slots=True)
class Held:
    """A module that at least one adapter changes, and how to put it back."""

    spot: Spot
    users: set[str]


class Rack:
    """`room` says how many bytes adapters may take now, all together; `forget` lets go of what
    was made of them elsewhere."""

    def __init__(
        self, model: OpenModel, room: Callable[[], int], forget: Callable[[], None]
    ) -> None:
        self._model = model
        self._room = room
        self._forget = forget
        self._mounted: dict[str, Adapter] = {}
        self._held: dict[int, Held] = {}  # by the id of the bare module

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._mounted)

    @property
    def nbytes(self) -> int:
        return sum(adapter.info.bytes for adapter in self._mounted.values())

    # While all rows rest

    def mount(self, name: str, files: AdapterFiles, spare: Sequence[str] = ()) -> Mounted:
        if name in self._mounted:
            raise InvalidRequest(f"An adapter {name!r} is mounted already.", param="name")
        contents = understood(files)
        places = spots(self._model.model.layers, contents)
        nbytes = size(places)
        leaving = self._leaving(nbytes, spare)
        adapter = self._made(name, files, contents, places, nbytes)
        self._mounted[name] = adapter
        for spot in places.values():
            self._hold(name, spot)
        try:
            self._probe(adapter, places)
        except BaseException:
            self._drop(name)
            raise
        for other in leaving:
            self._drop(other)
        return Mounted(adapter.info, leaving)

    def _leaving(self, nbytes: int, spare: Sequence[str]) -> tuple[str, ...]:
        """Which of `spare` have to go so that `nbytes` fit. Raises Unavailable."""
        room = self._room()
        leaving: list[str] = []
        left = self.nbytes + nbytes
        for name in spare:
            if left <= room:
                break
            if name in self._mounted and not self._mounted[name].rows:
                leaving.append(name)
                left -= self._mounted[name].info.bytes
        if left > room:
            raise Unavailable(
                f"The adapter takes {nbytes / MB:.1f} MB, those that are in use take "
                f"{(left - nbytes) / MB:.1f} MB, and there are {max(0, room) / MB:.1f} MB for all. "
                "Try again later, or raise --adapter-budget or --memory-budget."
            )
        return tuple(leaving)

    def unmount(self, name: str) -> None:
        adapter = self._mounted.get(name)
        if adapter is None:
            raise InvalidRequest(f"There is no adapter {name!r}.", param="name")
        if adapter.rows:
            raise InvalidRequest(
                f"{adapter.rows} rows run with the adapter {name!r}.",
                param="name",
                code="adapter_in_use",
            )
        self._drop(name)

    def _made(
        self,
        name: str,
        files: AdapterFiles,
        contents: Contents,
        places: Mapping[Piece, Spot],
        nbytes: int,
    ) -> Adapter:
        parts = {
            id(spot.module): made(piece, spot, files.weights, transposed=contents.transposed)
            for piece, spot in places.items()
        }
        info = AdapterInfo(
            name=name,
            path=files.path,
            digest=files.digest,
            method="dora" if contents.dora else "lora",
            rank=max(part.rank for part in parts.values()),
            targets=len(parts),
            bytes=nbytes,
        )
        return Adapter(info, parts)

    def _hold(self, name: str, spot: Spot) -> None:
        held = self._held.setdefault(id(spot.module), Held(spot, set()))
        held.users.add(name)
        if isinstance(spot.parent[spot.name], Adapted):
            return
        kind = AdaptedSwitch if isinstance(spot.module, SWITCH) else Adapted
        spot.parent[spot.name] = kind(spot.parent[spot.name], self._model.stage)
        if spot.router is not None:
            parent, key = spot.router
            if not isinstance(parent[key], Router):
                parent[key] = Router(parent[key], self._model.stage)

    def _drop(self, name: str) -> None:
        """What no adapter changes any more stands where it stood before."""
        del self._mounted[name]
        self._forget()
        for key, held in list(self._held.items()):
            held.users.discard(name)
            held.spot.parent[held.spot.name].forget()
            if not held.users:
                del self._held[key]
                held.spot.parent[held.spot.name] = held.spot.module
                if held.spot.router is not None:
                    self._free(held.spot.parent, *held.spot.router)

    def _free(self, experts: nn.Module, above: nn.Module, name: str) -> None:
        if not any(held.spot.parent is experts for held in self._held.values()):
            above[name] = experts

    def _probe(self, adapter: Adapter, places: Mapping[Piece, Spot]) -> None:
        """Builds forwards that nobody evaluates. Raises InvalidRequest for modules that they do
        not call, or not with tokens: there an adapter would change nothing, or the wrong thing."""
        silent = dict(places)
        for length in PROBES:
            heard = Heard(adapter, length)
            try:
                tokens = mx.zeros((1, length), mx.int32)
                self._model.plain(tokens, self._model.new_caches(), [length - 1], heard)
            except ValueError as error:
                raise refused(f"this model does not read token by token: {error}") from error
            for piece, spot in list(silent.items()):
                if spot.parent[spot.name].stack(heard.layout) in heard.seen:
                    del silent[piece]
            if not silent:
                return
        names = [f"layers.{piece.target}" for piece in silent]
        raise refused(f"this model does not call {listed(names)} itself")

    # Rows

    def space(self, spec: RowSpec) -> tuple[str, ...]:
        """What separates its prefixes from others: content and scale of its adapters, in an order
        that does not depend on the request's."""
        uses = spec.prompt.needs.adapters
        return tuple(sorted(f"{self._found(use.name).info.digest}@{use.scale!r}" for use in uses))

    def give(self, row: DeviceRow) -> None:
        """The row holds its adapters until `take`. Raises Fault when one is not mounted."""
        uses = row.spec.prompt.needs.adapters
        row.worn = tuple(Worn(self._found(use.name), use.scale) for use in uses)
        for worn in row.worn:
            worn.adapter.rows += 1

    def take(self, row: DeviceRow) -> None:
        """Idempotent."""
        for worn in row.worn:
            worn.adapter.rows -= 1
        row.worn = ()

    def _found(self, name: str) -> Adapter:
        try:
            return self._mounted[name]
        except KeyError:
            raise Fault(f"The adapter {name!r} is not mounted any more.") from None


class Heard(Blend):
    """Notes which modules' stacks were asked for."""

    def __init__(self, adapter: Adapter, length: int) -> None:
        super().__init__(Layout((adapter,)), [[Worn(adapter, 1.0)]], [length])
        self.seen: list[Stack] = []

    def mask(self, stack: Stack, place: Place | None) -> mx.array | None:
        self.seen.append(stack)
        return super().mask(stack, place)
