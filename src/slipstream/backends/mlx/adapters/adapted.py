"""Modules that adapters change, held like the mixers are; without adapters in a forward, as held.

Two products and a mask for all tokens of the forward, whoever they belong to.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn

from slipstream.backends.mlx.adapters.blend import Layout, Stack
from slipstream.backends.mlx.adapters.parts import LowRank
from slipstream.backends.mlx.mixer import Holder, Stage


class Adapted(Holder):
    """x (..., in) -> (..., out), one token a line."""

    def __init__(self, held: nn.Module, stage: Stage) -> None:
        super().__init__(held, stage)
        self._stacked: tuple[Layout, Stack | None] = (Layout(()), None)

    def __call__(self, x: mx.array) -> mx.array:
        y = self.held(x)
        blend = self._stage.blend
        stack = None if blend is None else self.stack(blend.layout)
        if blend is None or stack is None:
            return y
        mask = blend.mask(stack, self._stage.place)
        if mask is None:
            return y
        if x.size != x.shape[-1] * mask.shape[0] or x.ndim < 2:
            raise ValueError(f"a module with adapters got {x.shape} for {mask.shape[0]} tokens")
        if x.shape[-2] != mask.shape[0]:
            mask = mask.reshape(*x.shape[:-1], -1)
        low = masked(x @ stack.a, mask)
        gains = blend.gains(stack, self._stage.place)
        if gains is None:
            return mx.addmm(y, low, stack.b).astype(y.dtype)
        added = low @ stack.b
        plain = y - self.held.bias if "bias" in self.held else y
        # What is not gained stays as it is to the bit.
        more = (gains.reshape(y.shape) - 1) * (plain + added)
        return (y + added + more).astype(y.dtype)

    def stack(self, layout: Layout) -> Stack | None:
        """The parts of `layout`; None where none of its adapters changes this module."""
        if self._stacked[0] is not layout:
            parts = [member.parts.get(id(self.held)) for member in layout.members]
            self._stacked = (layout, stacked(parts))
        return self._stacked[1]


class AdaptedSwitch(Adapted):
    """The same for experts. `Router`, around the module above, tells whose tokens they are."""

    def __call__(self, x: mx.array, indices: mx.array, sorted_indices: bool = False) -> mx.array:
        y = self.held(x, indices, sorted_indices=sorted_indices)
        blend = self._stage.blend
        stack = None if blend is None else self.stack(blend.layout)
        if blend is None or stack is None:
            return y
        mask = blend.mask(stack, self._stage.place)
        if mask is None:
            return y
        if sorted_indices:
            mask = mask[self._tokens][:, None]
        else:
            mask = mask.reshape(*indices.shape[:-1], 1, 1, -1)
        more = {"rhs_indices": indices, "sorted_indices": sorted_indices}
        low = masked(mx.gather_mm(x, stack.a, **more), mask)
        return (y + mx.gather_mm(low, stack.b, **more)).astype(y.dtype)

    @property
    def _tokens(self) -> mx.array:
        """Of each line of a sorted input, the index of its token, as the module above sorts."""
        routes = self._stage.routes
        assert routes is not None
        return mx.argsort(routes.flatten()) // routes.shape[-1]


class Router(Holder):
    """Tells adapted experts below which experts each token goes to, in the tokens' order."""

    def __call__(self, x: mx.array, indices: mx.array, *args: Any, **kwargs: Any) -> Any:
        self._stage.routes = indices
        try:
            return self.held(x, indices, *args, **kwargs)
        finally:
            self._stage.routes = None


def masked(low: mx.array, mask: mx.array) -> mx.array:
    """`low * mask`; nought where the mask is nought, also where half a float ran over."""
    if low.dtype == mx.float16:
        return mx.where(mask == 0, 0, low * mask)
    return low * mask


def stacked(parts: list[LowRank | None]) -> Stack | None:
    """Side by side, each in its adapter's place."""
    there = [part for part in parts if part is not None]
    if not there:
        return None
    columns = tuple((0, 0.0) if part is None else (part.rank, part.scale) for part in parts)
    a, b = [part.a for part in there], [part.b for part in there]
    gains = None
    if any(part.gain is not None for part in there):
        out, dtype = there[0].b.shape[-1], there[0].b.dtype
        ones = mx.ones((out,), dtype)
        own = [part.gain if part is not None and part.gain is not None else ones for part in parts]
        gains = mx.stack([ones, *own])
    if len(there) == 1:
        return Stack(columns, a[0], b[0], gains)
    return Stack(columns, mx.concatenate(a, axis=-1), mx.concatenate(b, axis=-2), gains)
