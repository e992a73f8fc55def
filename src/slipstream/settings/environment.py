"""What the environment sets. Nobody else reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Where converted models live: SLIPSTREAM_CACHE, else slipstream/ in the user's cache."""
    if given := environ.get("SLIPSTREAM_CACHE"):
        return Path(given)
    base = environ.get("XDG_CACHE_HOME") or str(
        Path(environ.get("HOME", "~")).expanduser() / ".cache"
    )
    return Path(base) / "slipstream"


def environment_keys(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The keys of SLIPSTREAM_API_KEY, comma-separated."""
    return tuple(k.strip() for k in environ.get("SLIPSTREAM_API_KEY", "").split(",") if k.strip())
