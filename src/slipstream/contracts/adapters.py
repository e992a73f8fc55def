"""LoRA adapters in the words of the system: what a request asks for, what is mounted, by whom."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from slipstream.contracts.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class AdapterUse:
    """One adapter that a row runs with, its effect times `scale`."""

    name: str
    scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterFiles:
    """An adapter's folder, read whole and found sound by itself; `digest` is over its content."""

    path: Path
    digest: str
    config: bytes = field(repr=False)
    weights: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterInfo:
    """A mounted adapter. `bytes` is what the memory budget counts for it."""

    name: str
    path: Path
    digest: str
    method: str  # "lora" or "dora"
    rank: int  # the largest of its targets'
    targets: int  # modules of the model that it changes
    bytes: int


@dataclass(frozen=True, slots=True)
class AdapterReport:
    """`rows` wait or run with it now."""

    info: AdapterInfo
    rows: int


@dataclass(frozen=True, slots=True)
class Mounted:
    """What a mount did: the adapter, and the names of those that had to go for it."""

    info: AdapterInfo
    unmounted: tuple[str, ...] = ()


def check_name(name: str) -> None:
    """Raises InvalidRequest for a name that could not stand in base:adapter, or in a path."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name, re.ASCII):
        raise InvalidRequest(
            f"{name[:80]!r} cannot be an adapter's name: up to 64 letters, digits, dots, "
            "underscores and hyphens, the first a letter or a digit.",
            param="name",
        )


class Adapters(Protocol):
    """What a backend does with adapters, on the device thread, while all rows rest."""

    def mount(self, name: str, files: AdapterFiles, spare: Sequence[str] = ()) -> Mounted:
        """From now on rows may ask for `name`. Where memory runs short, those of `spare` go, in
        their order, as many as are needed. Raises InvalidRequest, and Unavailable when there is
        no memory now; then nothing has changed."""
        ...

    def unmount(self, name: str) -> None:
        """Forgets it. Raises InvalidRequest while a row runs with it, and for an unknown name."""
        ...
