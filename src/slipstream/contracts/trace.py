"""What is told about a request once it has ended: when it was where, and what happened on the way.

All times are seconds on the engine's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

Value = str | int | float | tuple[str, ...]
Attributes = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Hop:
    """One stretch of a request's way; see docs/flow.md for the names."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Moment:
    name: str
    at: float
    attributes: Attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTrace:
    """`traceparent` is the caller's W3C header, possibly empty or malformed. `error` names what
    ended the request badly; empty after a good end."""

    name: str
    start: float
    end: float
    attributes: Attributes
    hops: tuple[Hop, ...]
    moments: tuple[Moment, ...]
    traceparent: str = ""
    error: str = ""


class Tracer(Protocol):
    """Called on the event loop. Neither method raises: a trace never costs a request."""

    def record(self, trace: RequestTrace) -> None: ...

    def close(self) -> None:
        """Writes out what is held back."""
        ...
