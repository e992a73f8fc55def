"""The disk tier as the prefix store sees it. Belongs to the device thread."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import wait

from slipstream.backends.mlx.opening import OpenModel
from slipstream.backends.mlx.prefix.disk.arrays import Layout
from slipstream.backends.mlx.prefix.disk.restore import Restorer, Space
from slipstream.backends.mlx.prefix.disk.spill import Spill
from slipstream.backends.mlx.prefix.disk.tier import DiskTier
from slipstream.backends.mlx.prefix.tree import PrefixTree


class DiskSide:
    """Borrows `tier` and `tree`."""

    def __init__(self, tier: DiskTier, tree: PrefixTree, model: OpenModel) -> None:
        layouts = {form: Layout.of(model, form) for form in model.forms}
        self._tier = tier
        self._restorer = Restorer(tier, tree, layouts)
        self._spill = Spill(tier, tree, layouts)

    def fetch(self, space: Space, ids: Sequence[int], room: int, patience: float) -> bool:
        """See Restorer.advance."""
        return self._restorer.advance(space, ids, room, patience)

    def note(self, space: Space, ids: Sequence[int]) -> None:
        """See Spill.note."""
        self._spill.note(space, ids)

    def flush(self, seconds: float) -> None:
        """Writes what is not on disk yet, and waits for it, for at most `seconds`."""
        end = time.monotonic() + seconds
        while self._tier.write_one() and (left := end - time.monotonic()) > 0:
            if self._tier.settled is not None:
                wait([self._tier.settled], left)

    @property
    def nbytes(self) -> int:
        return self._tier.nbytes

    @property
    def hits(self) -> int:
        return self._restorer.hits

    @property
    def dirty(self) -> int:
        return self._spill.dirty
