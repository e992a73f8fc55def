"""The file of one segment: safetensors, whose metadata says what it holds, with a checksum.

Knows bytes, names and shapes; no device, no folder, and no meaning of a tensor.
"""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, BinaryIO

FORMAT = "slipstream prefix"
VERSION = "1"
HEADER_LIMIT = 16 << 20  # bytes; ours are far shorter
ITEM_SIZE: Mapping[str, int] = MappingProxyType(
    {
        "BOOL": 1,
        "U8": 1,
        "I8": 1,
        "U16": 2,
        "I16": 2,
        "F16": 2,
        "BF16": 2,
        "U32": 4,
        "I32": 4,
        "F32": 4,
        "U64": 8,
        "I64": 8,
    }
)


class Damaged(Exception):
    """A file that is not whole, not ours, or not what its name says."""


class OtherVersion(Damaged):
    """A file of another version of the format: of no use here, and no fault."""


class Kind(StrEnum):
    KEYS = "keys"  # keys and values of consecutive tokens
    STATE = "state"  # what cannot be cut, as it stood after some tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a segment holds. `begin` is the key of the `start` tokens before it; see Prefix.

    `ids` are its tokens, none for a state. `note` is the codec's own. `model` is for people."""

    kind: Kind
    space: str
    model: str
    begin: str
    start: int
    ids: tuple[int, ...] = ()
    note: str = ""

    @property
    def stop(self) -> int:
        return self.start + len(self.ids)

    @property
    def name(self) -> str:
        """The file's, without its ending: a digest of what is computed from what."""
        content = f"{self.kind} {self.begin} ".encode() + packed(self.ids)
        return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True)
class Tensor:
    """`dtype` in safetensors' words; `data` in row-major order."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview


class Prefix:
    """Keys of the prefixes of a prompt: a running SHA-256 over a space and token ids."""

    def __init__(self, space: str, ids: Sequence[int]) -> None:
        self._bytes = packed(ids)
        self._hash = hashlib.sha256(space.encode())
        self._done = 0

    def key(self, length: int) -> str:
        """Of the first `length` tokens; lengths may not fall from one call to the next."""
        assert length >= self._done
        self._hash.update(self._bytes[4 * self._done : 4 * length])
        self._done = length
        return self._hash.hexdigest()


def packed(ids: Sequence[int]) -> bytes:
    """Four bytes a token."""
    return array("I", ids).tobytes()


def unpacked(data: bytes) -> tuple[int, ...]:
    return tuple(array("I", data))


def encode(label: Label, tensors: Mapping[str, Tensor]) -> list[bytes | memoryview]:
    """The whole file, in pieces."""
    table: dict[str, Any] = {}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + len(tensor.data)
        table[name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    about = json.dumps(
        {
            "kind": label.kind,
            "space": label.space,
            "model": label.model,
            "begin": label.begin,
            "start": label.start,
            "ids": label.ids,
            "note": label.note,
        }
    )
    payload = [tensor.data for tensor in tensors.values()]
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "label": about,
        "checksum": checksum(about, table, payload),
    }
    head = json.dumps({"__metadata__": metadata, **table}).encode()
    head += b" " * (-len(head) % 8)
    return [len(head).to_bytes(8, "little"), head, *payload]


def decode(data: bytes) -> tuple[Label, dict[str, Tensor]]:
    """A whole file, its checksum compared. Raises Damaged."""
    view = memoryview(data)
    size = header_size(data[:8], len(data))
    metadata, table = parsed(data[8 : 8 + size])
    label = label_of(metadata)
    payload = view[8 + size :]
    check_table(table, len(payload))
    if checksum(metadata["label"], table, [payload]) != metadata.get("checksum"):
        raise Damaged("its checksum is wrong")
    tensors = {}
    for name, entry in table.items():
        first, last = entry["data_offsets"]
        tensors[name] = Tensor(entry["dtype"], tuple(entry["shape"]), payload[first:last])
    return label, tensors


def read_label(file: BinaryIO, length: int) -> Label:
    """From the head of a file of `length` bytes; what follows is only measured. Raises Damaged."""
    size = header_size(file.read(8), length)
    metadata, table = parsed(file.read(size))
    label = label_of(metadata)
    check_table(table, length - 8 - size)
    return label


def header_size(head: bytes, length: int) -> int:
    size = int.from_bytes(head, "little")
    if len(head) < 8 or size > min(HEADER_LIMIT, length - 8):
        raise Damaged("it is truncated, or no safetensors file")
    return size


def parsed(head: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Metadata, and the table of tensors."""
    try:
        table = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise Damaged("its header is no JSON") from error
    metadata = table.pop("__metadata__", None) if isinstance(table, dict) else None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise Damaged("it is not one of ours")
    if metadata.get("version") != VERSION:
        raise OtherVersion(f"its format is version {metadata.get('version')}, not {VERSION}")
    return metadata, table


def label_of(metadata: Mapping[str, Any]) -> Label:
    try:
        about = json.loads(metadata["label"])
        label = Label(
            kind=Kind(about["kind"]),
            space=str(about["space"]),
            model=str(about["model"]),
            begin=str(about["begin"]),
            start=int(about["start"]),
            ids=unpacked(packed(about["ids"])),
            note=str(about["note"]),
        )
    except (KeyError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise Damaged("its label cannot be read") from error
    return label


def check_table(table: Mapping[str, Any], length: int) -> None:
    """Raises Damaged unless the tensors fill `length` bytes, one after the other."""
    end = 0
    try:
        for entry in table.values():
            first, last = entry["data_offsets"]
            size = ITEM_SIZE[entry["dtype"]] * math.prod(entry["shape"])
            if first != end or last - first != size or min(entry["shape"], default=0) < 0:
                raise Damaged("its table of tensors is wrong")
            end = last
    except (KeyError, ValueError, TypeError) as error:
        raise Damaged("its table of tensors cannot be read") from error
    if end != length:
        raise Damaged(f"it has {length} bytes of tensors, not {end}")


def checksum(label: str, table: Mapping[str, Any], payload: Sequence[bytes | memoryview]) -> str:
    digest = hashlib.blake2b(label.encode(), digest_size=32)
    digest.update(json.dumps(table, sort_keys=True).encode())
    for piece in payload:
        digest.update(piece)
    return digest.hexdigest()
