"""Which lane a request takes, and why: the records that the pure decision reads and makes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from slipstream.contracts.adapters import AdapterUse


class Lane(StrEnum):
    GROUP = "group"
    SOLO = "solo"


class Reason(StrEnum):
    """Why a row is on the solo lane. Every solo placement has at least one."""

    REQUESTED = "lane_requested"
    MIXER_NOT_FOUND = "mixer_not_found"
    SELF_CHECK_FAILED = "self_check_failed"
    METHOD_NOT_AUTOREGRESSIVE = "method_not_autoregressive"


AUTOREGRESSIVE = "autoregressive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What one request asks of the device."""

    solo: bool = False  # the request itself asks for the solo lane
    adapters: tuple[AdapterUse, ...] = ()
    media: bool = False
    states: bool = False  # those that the model would give its head


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What the loaded model can do here. `obstacle` says why it cannot share a forward."""

    method: str = AUTOREGRESSIVE
    obstacle: Reason | None = None
    adapters: frozenset[str] = frozenset()
    media: bool = False
    states: bool = False  # can be had: its head was found
    context: int | None = None  # most tokens that one row can hold in this memory; None: any
    prefixes: bool = False  # what `keep` is given is found by rows that begin alike
    snapshots: bool = False  # and only at the very lengths at which it was kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The decision, made once. Nobody re-decides it later."""

    lane: Lane
    method: str
    reasons: tuple[Reason, ...]

    def __post_init__(self) -> None:
        assert bool(self.reasons) == (self.lane is Lane.SOLO), (
            "a solo row has a reason, others none"
        )
