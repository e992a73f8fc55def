"""Where an adapter's pieces belong in a model: the module of each, with its shapes checked.

Nothing is changed or read here but shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.switch_layers import (
    QuantizedSwitchLinear,
    SwitchGLU,
    SwitchLinear,
    SwitchMLP,
)

from slipstream.backends.mlx.adapters.files import Contents, Piece, listed, refused, wrong_shape
from slipstream.backends.mlx.mixer import Holder

LINEAR = (nn.Linear, nn.QuantizedLinear)
SWITCH = (SwitchLinear, QuantizedSwitchLinear)


@dataclass(frozen=True, slots=True)
class Spot:
    """`parent[name]` is the module that a piece changes; `module` is that, not held by anyone.

    `router` is where the module above the experts stands, which is told each token's experts."""

    parent: nn.Module
    name: str
    module: nn.Module
    router: tuple[nn.Module, str] | None = None

    @property
    def experts(self) -> int | None:
        return None if self.router is None else int(self.module.weight.shape[0])

    @property
    def sizes(self) -> tuple[int, int]:
        """(in, out)."""
        out, width = self.module.weight.shape[-2:]
        if isinstance(self.module, (nn.QuantizedLinear, QuantizedSwitchLinear)):
            width = width * 32 // self.module.bits
        return width, out

    @property
    def dtype(self) -> mx.Dtype:
        """That of activations."""
        kind = self.module.get("scales", self.module.weight).dtype
        return kind if mx.issubdtype(kind, mx.floating) else mx.bfloat16


def bare(module: nn.Module) -> nn.Module:
    """What stood there before any of ours."""
    while isinstance(module, Holder):
        module = module.held
    return module


def spots(layers: Sequence[nn.Module], contents: Contents) -> dict[Piece, Spot]:
    """Where each piece belongs. Raises InvalidRequest naming what does not, or cannot, fit."""
    found: dict[Piece, Spot] = {}
    missing = []
    for piece in contents.pieces:
        spot = locate(layers, piece.target)
        if spot is None:
            missing.append(f"layers.{piece.target}")
        else:
            found[piece] = spot
    if missing:
        raise refused(f"this model has no {listed(missing)}")
    for piece, spot in found.items():
        check(piece, spot, contents)
    return found


def locate(layers: Sequence[nn.Module], target: str) -> Spot | None:
    index, *path = target.split(".")
    if not index.isdecimal() or int(index) >= len(layers) or not path:
        return None
    above: tuple[nn.Module, str] | None = None
    parent = bare(layers[int(index)])
    for name in path[:-1]:
        child = parent.children().get(name)
        if not isinstance(child, nn.Module):
            return None
        above, parent = (parent, name), bare(child)
    child = parent.children().get(path[-1])
    if not isinstance(child, nn.Module):
        return None
    module = bare(child)
    return Spot(parent, path[-1], module, above if isinstance(module, SWITCH) else None)


def check(piece: Piece, spot: Spot, contents: Contents) -> None:
    """Raises InvalidRequest for a module that cannot be adapted, and for shapes that differ."""
    target = f"layers.{piece.target}"
    if isinstance(spot.module, SWITCH):
        if contents.dora:
            raise refused(f"DoRA of experts cannot be applied, and {target} is one")
        holder = spot.router and bare(spot.router[0][spot.router[1]])
        if not isinstance(holder, (SwitchGLU, SwitchMLP)):
            raise refused(f"{target} are experts in a way that is not known here")
    elif not isinstance(spot.module, LINEAR):
        raise refused(f"{target} is a {type(spot.module).__name__}, and no linear layer")
    ranks = piece.a.shape[-2:] if spot.experts or contents.transposed else piece.a.shape[::-1]
    if ranks and ranks[0] != piece.rule.rank:
        raise refused(
            f"the rank of {target} is {ranks[0]} in its tensors, and {piece.rule.rank} "
            "in adapter_config.json"
        )
    for what, found, wanted in _shapes(piece, spot, contents):
        if found != wanted:
            raise wrong_shape(target, what, found, str(wanted))


def _shapes(
    piece: Piece, spot: Spot, contents: Contents
) -> Iterator[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """(name, shape, what it must be) of each tensor. Both forms of experts lie as PEFT's."""
    (width, out), rank = spot.sizes, piece.rule.rank
    if spot.experts is not None:
        a, b = (spot.experts, rank, width), (spot.experts, out, rank)
    elif contents.transposed:
        a, b = (rank, width), (out, rank)
    else:
        a, b = (width, rank), (rank, out)
    yield "A", piece.a.shape, a
    yield "B", piece.b.shape, b
    if piece.magnitude is not None:
        flat = tuple(n for n in piece.magnitude.shape if n != 1) or (1,)
        yield "the magnitude", flat, (out,)
