"""From the name on the command line to a whole model folder, with its progress on the terminal."""

from __future__ import annotations

from slipstream.cli.terminal import progress
from slipstream.contracts.model import ModelInfo
from slipstream.settings import cache_home


def model(name: str | None) -> ModelInfo:
    """The model that `name` means, fetched or converted first where needed. Raises ModelError."""
    from slipstream.models.obtain import obtain  # half a second, and not for --help

    with progress() as draw:
        return obtain(name, cache_home(), download=True, progress=draw)
