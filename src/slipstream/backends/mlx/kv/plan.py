"""Which caches of a model a scheme writes, and how: said once, at load.

Recurrent state and other kinds stay as they are. Vectors that a scheme cannot write are refused,
with what would work.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from slipstream.backends.mlx.kv.affine import AffineCodec
from slipstream.backends.mlx.kv.cache import KINDS, CodedCache, Coding
from slipstream.backends.mlx.kv.codec import Codec, Whole
from slipstream.backends.mlx.kv.turbo import TurboCodec
from slipstream.backends.mlx.paths import Path, replaced, spread
from slipstream.contracts.errors import ModelError
from slipstream.contracts.kv import AFFINE_GROUPS, KvForm, KvScheme

log = logging.getLogger(__name__)
DIRECT_GPU = 32  # queries; on a CPU none, whose sums would depend on how many there are


@dataclass(frozen=True, slots=True)
class Codings:
    """The caches that are written in codes once a row has computed `start` tokens. `name` tells
    this form of a row's state from all others."""

    name: str
    start: int
    by_path: Mapping[Path, Coding]

    def coded(self, caches: Sequence[Any]) -> list[Any]:
        """A row's plain caches, empty or not, in this form; borrows them."""
        found = spread(caches)
        return replaced(
            caches, {path: CodedCache(c, found[path]) for path, c in self.by_path.items()}
        )

    def turn(self, caches: list[Any]) -> None:
        """As `coded`, in place and evaluated: one cache at a time is there in both forms."""
        for path, coding in self.by_path.items():
            made = CodedCache(coding, spread(caches)[path])
            mx.eval(made.buffers())
            caches[:] = replaced(caches, {path: made})


def codings(
    caches: Sequence[Any], scheme: KvScheme, layers: Mapping[int, KvScheme] | None = None
) -> Codings | None:
    """For rows whose plain caches look like `caches`, which hold some tokens. `layers` are the
    schemes of single layers, where `scheme` is config. None when nothing is written in codes.

    Raises ModelError for what cannot be written, and for layers that are not there."""
    if not scheme.codes:
        return None
    found = spread(caches)
    if layers is not None:
        there = {path[0] for path, cache in found.items() if type(cache) in KINDS}
        _check_layers(layers, there)
    by_path: dict[Path, Coding] = {}
    for path, cache in found.items():
        own = scheme if layers is None else layers.get(path[0], KvScheme())
        if own.codes and type(cache) in KINDS and path not in _indices(found):
            by_path[path] = _coding(cache, own, path[0])
    _say_what_stays(found, by_path)
    if not by_path:
        return None
    name = str(scheme) if layers is None else _named(layers)
    return Codings(name, scheme.start, by_path)


def _indices(found: Mapping[Path, Any]) -> set[Path]:
    """In a list of caches the first of keys and values is attended to. Those after it choose what
    is attended to, and the choice is to be the one that it is without a scheme."""
    lists: dict[Path, list[Path]] = {}
    for path, cache in found.items():
        if len(path) > 1 and type(cache) in KINDS:
            lists.setdefault(path[:-1], []).append(path)
    return {path for paths in lists.values() for path in paths[1:]}


def _coding(cache: Any, scheme: KvScheme, layer: int) -> Coding:
    keys, values = cache.keys, cache.values
    sizes = (keys.shape[-1], values.shape[-1])
    # Latent attention keeps a few rotated numbers beside the latent ones. They are sensitive, and
    # few: as they are, they cost little.
    latent = keys.shape[1] == 1 and sizes[0] != sizes[1]
    sides = [
        Whole(size, keys.dtype)
        if size == 0 or (latent and size == min(sizes))
        else codec(size, scheme, side, keys.dtype, layer)
        for side, size in zip(("keys", "values"), sizes, strict=True)
    ]
    return Coding.of(*sides, keys.shape[1], keys.dtype)


def codec(size: int, scheme: KvScheme, side: str, dtype: mx.Dtype, layer: int) -> Codec:
    """For the vectors, `size` long, of one `side` of a layer. Raises ModelError."""
    where = f"Layer {layer} of this model keeps {side} of {size} numbers"
    if scheme.form is KvForm.AFFINE:
        if size % scheme.group:
            raise ModelError(
                f"{where}, which groups of {scheme.group} do not divide. {_fix(size, scheme)}"
            )
        direct = 0 if mx.default_device().type == mx.DeviceType.cpu else DIRECT_GPU
        return AffineCodec(size, scheme.key_bits, scheme.group, dtype, direct)
    return TurboCodec(size, scheme.key_bits if side == "keys" else scheme.value_bits)


def _fix(size: int, scheme: KvScheme) -> str:
    fitting = [group for group in AFFINE_GROUPS if size % group == 0]
    if not fitting:
        return "No group size does; take --kv-scheme bf16."
    return f"Take --kv-scheme affine:{scheme.key_bits}:{max(fitting)}."


def _check_layers(layers: Mapping[int, KvScheme], there: set[int]) -> None:
    strange = sorted(set(layers) - there)
    if strange:
        raise ModelError(
            f"The model's kv_config.json names layer {strange[0]}, which keeps no keys and values "
            "that a scheme could write. Mend the file, or take another --kv-scheme."
        )


def _named(layers: Mapping[int, KvScheme]) -> str:
    said = ",".join(f"{layer}={scheme}" for layer, scheme in sorted(layers.items()))
    return f"{KvForm.CONFIG}({said})"


def _say_what_stays(found: Mapping[Path, Any], by_path: Mapping[Path, Coding]) -> None:
    kinds = sorted({type(cache).__name__ for path, cache in found.items() if path not in by_path})
    if kinds:
        count = len(found) - len(by_path)
        log.info("%d of %d caches stay as they are (%s)", count, len(found), ", ".join(kinds))
