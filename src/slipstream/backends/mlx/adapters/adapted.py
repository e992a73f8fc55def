"""Modules that adapters change, held like the mixers are; without adapters in a forward, as held.

Two products and a mask for all tokens of the forward, whoever they belong to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from slipstream.backends.mlx.adapters.blend import Blend, Layout, Stack
from slipstream.backends.mlx.adapters.parts import LowRank
from slipstream.backends.mlx.mixer import Holder, Stage


@dataclass(frozen=True, slots=True)
class Share:
    """What one module adds in a forward of `blend`. `mask`, `gains`: see Blend.

    `whole`: the mask is all ones, and may be left out."""

    blend: Blend
    stack: Stack
    mask: mx.array
    gains: mx.array | None
    whole: bool


@dataclass(frozen=True, slots=True)
class Beside:
    """Modules that are called with one input in forwards of `blend`, and their A side by side."""

    blend: Blend
    modules: Sequence[Adapted]
    stacks: Sequence[Stack]
    a: mx.array
    cuts: list[int]  # where `a` is split


class Adapted(Holder):
    """x (..., in) -> (..., out), one token a line."""

    def __init__(self, held: nn.Module, stage: Stage) -> None:
        super().__init__(held, stage)
        self._plain = held.__call__  # found at once, where `held` is looked for in two classes
        self.forget()

    def forget(self) -> None:
        """Lets go of all adapters; those that stay are found again."""
        self._stacked: tuple[Layout, Stack | None] = (Layout(()), None)
        self._share: Share | None = None  # of the last forward; the next one is often like it
        self._beside: Beside | None = None
        self._ahead: tuple[mx.array, mx.array] | None = None  # an input, and `low` of it

    def __call__(self, x: mx.array) -> mx.array:
        y = self._plain(x)
        share = self._shared()
        if share is None:
            return y
        mask = share.mask
        if x.size != x.shape[-1] * mask.shape[0] or x.ndim < 2:
            raise ValueError(f"a module with adapters got {x.shape} for {mask.shape[0]} tokens")
        ahead, self._ahead = self._ahead, None
        low = ahead[1] if ahead is not None and ahead[0] is x else x @ share.stack.a
        if not share.whole:
            if x.shape[-2] != mask.shape[0]:
                mask = mask.reshape(*x.shape[:-1], -1)
            low = masked(low, mask)
        if share.gains is None:
            return mx.addmm(y, low, share.stack.b).astype(y.dtype)
        added = low @ share.stack.b
        plain = y - self.held.bias if "bias" in self.held else y
        # What is not gained stays as it is to the bit.
        more = (share.gains.reshape(y.shape) - 1) * (plain + added)
        return (y + added + more).astype(y.dtype)

    def _shared(self) -> Share | None:
        """None where no token of this forward, or of the place served now, changes."""
        blend, place = self._stage.blend, self._stage.place
        if blend is None:
            return None
        if place is None and self._share is not None and self._share.blend is blend:
            return self._share
        stack = self.stack(blend.layout)
        mask = None if stack is None else blend.mask(stack, place)
        if stack is None or mask is None:
            return None
        share = Share(blend, stack, mask, blend.gains(stack, place), blend.whole(stack))
        if place is None:
            self._share = share
        return share

    def look_ahead(self, x: mx.array, others: Sequence[Adapted]) -> None:
        """This one and `others` are called with `x` next: one product with the A of all."""
        blend = self._stage.blend
        if blend is None:
            return
        if self._beside is None or self._beside.blend is not blend:
            self._beside = self._found_beside(others)
        beside = self._beside
        if beside is not None:
            parts = mx.split(x @ beside.a, beside.cuts, axis=-1)
            for module, low in zip(beside.modules, parts, strict=True):
                module._ahead = (x, low)

    def _found_beside(self, others: Sequence[Adapted]) -> Beside | None:
        modules = [module for module in (self, *others) if module._shared() is not None]
        stacks = [share.stack for module in modules if (share := module._shared()) is not None]
        if len(modules) < 2 or self._stage.blend is None:
            return None
        ends = list(accumulate(int(stack.a.shape[-1]) for stack in stacks))
        known = self._beside
        same = known is not None and known.stacks == stacks
        a = known.a if known and same else mx.concatenate([stack.a for stack in stacks], axis=-1)
        return Beside(self._stage.blend, modules, stacks, a, ends[:-1])

    def stack(self, layout: Layout) -> Stack | None:
        """The parts of `layout`; None where none of its adapters changes this module."""
        if self._stacked[0] is not layout:
            parts = [member.parts.get(id(self.held)) for member in layout.members]
            self._stacked = (layout, stacked(parts))
        return self._stacked[1]


def look_ahead(x: mx.array, modules: Sequence[nn.Module]) -> None:
    """`modules` are called with `x` next."""
    adapted = [module for module in modules if type(module) is Adapted]
    if len(adapted) > 1:
        adapted[0].look_ahead(x, adapted[1:])


class AdaptedSwitch(Adapted):
    """The same for experts. `Router`, around the module above, tells whose tokens they are."""

    def __call__(self, x: mx.array, indices: mx.array, sorted_indices: bool = False) -> mx.array:
        y = self._plain(x, indices, sorted_indices=sorted_indices)
        share = self._shared()
        if share is None:
            return y
        stack, mask = share.stack, share.mask
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
