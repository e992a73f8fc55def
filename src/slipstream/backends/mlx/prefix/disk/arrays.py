"""State of the prefix tree as tensors of a file, and back. Belongs to the device thread.

Classes of caches never come from a file: what is read is put into caches that the model makes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from slipstream.backends.mlx.kv.cache import CodedCache
from slipstream.backends.mlx.opening import OpenModel
from slipstream.backends.mlx.paths import Path, spread
from slipstream.backends.mlx.prefix.disk.file import VERSION, Damaged, Tensor
from slipstream.backends.mlx.prefix.state import Arrays, KeyValues, Rest, cuttable, part
from slipstream.backends.mlx.row import standing

DTYPES: Mapping[mx.Dtype, str] = MappingProxyType(
    {
        mx.bool_: "BOOL",
        mx.uint8: "U8",
        mx.int8: "I8",
        mx.uint16: "U16",
        mx.int16: "I16",
        mx.float16: "F16",
        mx.bfloat16: "BF16",
        mx.uint32: "U32",
        mx.int32: "I32",
        mx.float32: "F32",
        mx.uint64: "U64",
        mx.int64: "I64",
    }
)
DTYPE_OF: Mapping[str, mx.Dtype] = MappingProxyType({name: kind for kind, name in DTYPES.items()})


class Unstorable(Exception):
    """A state that a file cannot hold."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A model's caches, empty, in one form: those at `keyed` hold so many arrays of keys and values
    that can be cut, `whole` are the others. `text` says all that a row's state depends on beside
    weights and tokens."""

    text: str
    keyed: Mapping[Path, int]
    whole: Mapping[Path, Any]

    @classmethod
    def of(cls, model: OpenModel, form: str) -> Layout:
        """`form`: see OpenModel.forms."""
        caches = spread(model.coded_caches() if form else model.plain_caches())
        kinds = {
            dotted(path): [type(c).__module__, type(c).__qualname__, flattened(c.state, {})]
            for path, c in caches.items()
        }
        dtypes = sorted({str(array.dtype) for _, array in tree_flatten(model.model.parameters())})
        device = str(mx.default_device())
        return cls(
            json.dumps([kinds, dtypes, device, mx.__version__, version("mlx-lm"), form]),
            {path: arrays_of(cache) for path, cache in caches.items() if cuttable(cache)},
            {path: cache for path, cache in caches.items() if not cuttable(cache)},
        )

    def space(self, identity: str, salt: str, adapters: Sequence[str]) -> str:
        """A digest of what separates prefixes beside their tokens."""
        parts = json.dumps([VERSION, identity, self.text, salt, list(adapters)])
        return hashlib.sha256(parts.encode()).hexdigest()


def arrays_of(cache: Any) -> int:
    """How many arrays a cache that can be cut holds."""
    return cache.coding.count if isinstance(cache, CodedCache) else 2


def named(path: Path, count: int) -> list[str]:
    """The names of a cache's arrays."""
    sides = ("keys", "values") if count == 2 else map(str, range(count))
    return [f"{dotted(path)}.{side}" for side in sides]


def dotted(path: Path) -> str:
    return ".".join(map(str, path))


def written(array: mx.array) -> Tensor:
    """A copy in the host's memory. Raises Unstorable."""
    if array.dtype not in DTYPES:
        raise Unstorable(f"arrays of {array.dtype}")
    plain = array.view(mx.uint16) if array.dtype == mx.bfloat16 else array
    return Tensor(DTYPES[array.dtype], tuple(array.shape), np.array(plain).tobytes())


def loaded(tensor: Tensor) -> mx.array:
    dtype = DTYPE_OF[tensor.dtype]
    plain = np.uint16 if dtype == mx.bfloat16 else np.dtype(str(dtype).rpartition(".")[2])
    array = mx.array(np.frombuffer(tensor.data, plain).reshape(tensor.shape))
    return array.view(mx.bfloat16) if dtype == mx.bfloat16 else array


def between(pieces: Sequence[tuple[int, KeyValues]], start: int, stop: int) -> Arrays:
    """Keys and values of the tokens from `start` to `stop`, out of pieces that follow each other,
    each with the place of its first token; the last one reaches to `stop` at least."""
    parts: dict[Path, list[tuple[mx.array, ...]]] = {}
    ends = [place for place, _ in pieces[1:]] + [stop]
    for (place, piece), end in zip(pieces, ends, strict=True):
        low, high = max(start, place) - place, min(stop, end) - place
        if low < high:
            for path, arrays in part(piece.arrays, low, high).items():
                parts.setdefault(path, []).append(arrays)
    return {path: tuple(map(joined, zip(*p, strict=True))) for path, p in parts.items()}


def joined(parts: Sequence[mx.array]) -> mx.array:
    return mx.concatenate(list(parts), axis=-2) if len(parts) > 1 else mx.contiguous(parts[0])


def keys_written(arrays: Arrays) -> dict[str, Tensor]:
    """Raises Unstorable."""
    mx.eval(list(arrays.values()))
    return {
        name: written(array)
        for path, held in arrays.items()
        for name, array in zip(named(path, len(held)), held, strict=True)
    }


def keys_loaded(tensors: Mapping[str, Tensor], keyed: Mapping[Path, int], tokens: int) -> Arrays:
    """The reverse, for caches as `Layout.keyed`. Raises Damaged when others are there."""
    names = {path: named(path, count) for path, count in keyed.items()}
    whole = all(len(t.shape) == 4 and t.shape[2] == tokens for t in tensors.values())
    if {name for each in names.values() for name in each} != set(tensors) or not whole:
        raise Damaged("it holds other arrays than this model's")
    arrays = {path: tuple(loaded(tensors[name]) for name in each) for path, each in names.items()}
    mx.eval(list(arrays.values()))
    return arrays


def state_written(rest: Rest) -> tuple[str, dict[str, Tensor]]:
    """How the state nests, and its arrays. Raises Unstorable."""
    arrays: dict[str, mx.array] = {}
    nested = {dotted(path): flattened(c.state, arrays) for path, c in rest.caches.items()}
    mx.eval(list(arrays.values()))
    return json.dumps(nested), {name: written(array) for name, array in arrays.items()}


def state_loaded(note: str, tensors: Mapping[str, Tensor], fresh: Mapping[Path, Any]) -> Rest:
    """The reverse: caches of the classes of `fresh`. Raises Damaged."""
    arrays = {name: loaded(tensor) for name, tensor in tensors.items()}
    mx.eval(list(arrays.values()))
    try:
        nested = json.loads(note)
        caches = {
            path: standing(cache, restored(nested[dotted(path)], arrays))
            for path, cache in fresh.items()
        }
    except (KeyError, ValueError, TypeError) as error:
        raise Damaged("it holds another state than this model's") from error
    return Rest(caches, sum(array.nbytes for array in arrays.values()))


def flattened(node: Any, arrays: dict[str, mx.array]) -> Any:
    """`node` as JSON, its arrays moved to `arrays`. Raises Unstorable."""
    match node:
        case mx.array():
            name = str(len(arrays))
            arrays[name] = mx.contiguous(node)
            return {"array": name}
        case list() | tuple():
            return [flattened(item, arrays) for item in node]
        case dict():
            return {"dict": {key: flattened(item, arrays) for key, item in node.items()}}
        case None | bool() | int() | float() | str():
            return {"value": node}
        case _:
            raise Unstorable(f"a state with a {type(node).__qualname__}")


def restored(node: Any, arrays: Mapping[str, mx.array]) -> Any:
    match node:
        case {"array": name}:
            return arrays[name]
        case {"dict": items}:
            return {key: restored(item, arrays) for key, item in items.items()}
        case {"value": value}:
            return value
        case _:
            return [restored(item, arrays) for item in node]
