"""What a model will need here, from its shapes alone: headers are read, weights never.

It knows bytes and tokens; what to say about them is the caller's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slipstream.backends.mlx.budget import allowed, share_out
from slipstream.backends.mlx.device import Device
from slipstream.backends.mlx.footprint import Footprint, TurningFootprint, coded, footprint
from slipstream.backends.mlx.kv.config import layers_of
from slipstream.backends.mlx.load import map_model, weight_bytes
from slipstream.backends.mlx.opening import FUSED, OpenModel
from slipstream.contracts.errors import ModelError
from slipstream.contracts.limits import MemoryLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Bytes. `obstacle` says why not even one row fits, and then `kv_budget` is 0."""

    device: Device
    budget: int
    weights: int
    kv_budget: int
    row: Footprint | TurningFootprint
    obstacle: str | None = None

    def longest(self, rows: int) -> int | None:
        """Most tokens of each of `rows` rows; None when their length does not matter."""
        return self.row.longest(self.kv_budget // rows)

    def rows(self, tokens: int) -> int:
        """How many rows of `tokens` tokens fit."""
        return self.kv_budget // self.row.most(tokens)


def measure(path: Path, vocab_size: int, device: Device, limits: MemoryLimits) -> Fit:
    """Of the model folder `path`. Raises ModelError when it cannot be understood."""
    model = map_model(path, device)
    weights = weight_bytes(model)
    obstacle = None
    try:
        kv_budget = share_out(device, weights, limits).kv
    except ModelError as error:
        kv_budget, obstacle = 0, error.message
    return Fit(
        device=device,
        budget=allowed(device, limits),
        weights=weights,
        kv_budget=kv_budget,
        row=_row(OpenModel(model, vocab_size), path, limits),
        obstacle=obstacle,
    )


def _row(model: OpenModel, path: Path, limits: MemoryLimits) -> Footprint | TurningFootprint:
    """A row's bytes, where the self-check finds nothing against sharing."""
    if model.fusible:
        model.set_level(FUSED)
    model.code(coded(model, limits.kv_scheme, layers_of(limits.kv_scheme, path)))
    return footprint(model)
