"""Slipstream: a server of language models on MLX where everything rides in one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slipstream.contracts.adapters import AdapterUse
    from slipstream.library import Engine

__all__ = ("AdapterUse", "Engine")


def __getattr__(name: str) -> Any:
    # Importing the package must cost nothing: the command line does it before it reads a flag.
    if name == "Engine":
        from slipstream.library import Engine

        return Engine
    if name == "AdapterUse":
        from slipstream.contracts.adapters import AdapterUse

        return AdapterUse
    raise AttributeError(f"module 'slipstream' has no attribute {name!r}")
