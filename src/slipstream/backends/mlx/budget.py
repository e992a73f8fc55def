"""How the device's memory is shared out. The only place where bytes are summed up."""

from __future__ import annotations

from dataclasses import dataclass, replace

import mlx.core as mx

from slipstream.backends.mlx.device import Device
from slipstream.contracts.errors import ModelError
from slipstream.contracts.limits import MemoryLimits

SHARE = 0.75  # of the device's memory, when no budget is given
RESERVE = 0.05  # of the budget, for what a forward needs beside weights and caches
PREFIX_SHARE = 0.25  # of what weights and reserve leave
ADAPTER_SHARE = 0.1  # likewise
GB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Bytes. `kv` bounds what live rows may hold, `prefix` the prefix cache; the two overlap, and
    rows come first: the cache gives way to them. `adapters` bounds those that are mounted."""

    total: int
    weights: int
    kv: int
    prefix: int
    adapters: int = 0

    def with_adapters(self, nbytes: int) -> Budget:
        """What there is with adapters of so many bytes among the weights."""
        left = free(self.total, self.weights + nbytes)
        return replace(
            self,
            weights=self.weights + nbytes,
            kv=min(self.kv, left),
            prefix=min(self.prefix, left),
        )

    def beside_rows(self, promised: int) -> int:
        """Bytes that are left while rows are promised `promised` bytes."""
        return self._free - promised

    def prefix_beside(self, promised: int) -> int:
        """Most bytes of the prefix cache while rows are promised `promised` bytes."""
        return max(0, min(self.prefix, self._free - promised))

    @property
    def _free(self) -> int:
        return free(self.total, self.weights)


def hold(device: Device, budget: Budget) -> None:
    """Keeps MLX's pool of freed buffers within the reserve, and on Apple silicon the weights
    resident."""
    mx.set_cache_limit(int(budget.total * RESERVE))
    if device.kind == "metal":
        most = int(mx.device_info().get("max_recommended_working_set_size", 0))
        if most:
            mx.set_wired_limit(min(most, budget.total))


def free(total: int, weights: int) -> int:
    return total - weights - int(total * RESERVE)


def allowed(device: Device, limits: MemoryLimits) -> int:
    """Bytes for everything."""
    return limits.memory_budget or int(device.memory * SHARE)


def share_out(device: Device, weights: int, limits: MemoryLimits) -> Budget:
    """Raises ModelError, with the numbers, when the weights leave no room for a row."""
    total = allowed(device, limits)
    left = free(total, weights)
    if left <= 0:
        raise ModelError(
            f"The weights take {weights / GB:.1f} GB, and the memory budget is "
            f"{total / GB:.1f} GB. Choose a smaller model or a stronger quantisation, "
            "or raise --memory-budget."
        )
    prefix = int(left * PREFIX_SHARE) if limits.prefix_cache is None else limits.prefix_cache
    kv = left if limits.kv_budget is None else min(limits.kv_budget, left)
    share = int(left * ADAPTER_SHARE)
    return Budget(
        total=total,
        weights=weights,
        kv=kv,
        prefix=min(prefix, left),
        adapters=share if limits.adapters is None else limits.adapters,
    )
