"""What a safetensors file says of its tensors, checked against its length. Imports no MLX.

The format: 8 bytes with the length of a JSON header, the header, and the tensors end to end.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from slipstream.contracts.errors import InvalidRequest

WIDTHS: Mapping[str, int] = MappingProxyType({"F32": 4, "F16": 2, "BF16": 2})  # bytes of a number
LONGEST = 100_000_000  # bytes of a header, as the format's own library has it


@dataclass(frozen=True, slots=True)
class Tensor:
    """Where one tensor lies: bytes start..stop of the whole file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def tensors(data: bytes, name: str) -> Mapping[str, Tensor]:
    """Of the file `name` with content `data`. Raises InvalidRequest when it is not sound."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(LONGEST, len(data) - 8):
        raise broken(name, "it is cut short, or no safetensors file")
    try:
        header = json.loads(data[8 : 8 + length])
    except ValueError as error:
        raise broken(name, "its header is not JSON") from error
    if not isinstance(header, dict):
        raise broken(name, "its header is not an object")
    found = {
        key: _tensor(name, key, value, 8 + length)
        for key, value in header.items()
        if key != "__metadata__"
    }
    end = max((tensor.stop for tensor in found.values()), default=8 + length)
    if end != len(data):
        raise broken(name, f"it has {len(data)} bytes, and its header tells of {end}")
    return found


def _tensor(name: str, key: str, value: Any, begin: int) -> Tensor:
    try:
        dtype, shape = value["dtype"], tuple(value["shape"])
        start, stop = value["data_offsets"]
        whole = all(type(n) is int and n >= 0 for n in (*shape, start, stop))
    except (TypeError, KeyError, ValueError) as error:
        raise broken(name, f"its header does not describe {key}") from error
    if dtype not in WIDTHS:
        raise broken(name, f"{key} has the type {dtype}; those taken are {', '.join(WIDTHS)}")
    if not whole or stop - start != math.prod(shape) * WIDTHS[dtype]:
        raise broken(name, f"the bytes of {key} do not fit its shape")
    return Tensor(dtype, shape, begin + start, begin + stop)


def broken(name: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"{name} cannot be used: {why}. Get the file again.", param="path")
