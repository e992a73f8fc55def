"""Containment: whatever a backend raises comes out as a Fault, with its cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from slipstream.contracts.errors import Fault, ForwardFault, RowFault

P = ParamSpec("P")
R = TypeVar("R")


def guarded(
    wrap: Callable[[Exception], Fault], call: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """What `call` returns. Raises Fault only: `wrap` makes one of anything else."""
    try:
        return call(*args, **kwargs)
    except Fault:
        raise
    except Exception as error:
        raise wrap(error) from error


def forward_fault(error: Exception) -> Fault:
    return ForwardFault(f"A step on the device failed: {error}. Other requests go on.")


def open_fault(error: Exception) -> Fault:
    return RowFault("prefill", error)
