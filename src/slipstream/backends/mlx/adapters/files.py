"""An adapter's folder: read whole, and understood from its headers. Imports no MLX.

Whether it fits a model is for `targets` to say.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from slipstream.backends.mlx.adapters.config import CONFIG, Form, MlxForm, Rule, form, refused
from slipstream.backends.mlx.adapters.header import Tensor, tensors
from slipstream.contracts.adapters import AdapterFiles
from slipstream.contracts.errors import InvalidRequest

PARTS: Mapping[str, str] = MappingProxyType(  # the ends of names in both forms
    {
        "lora_a": "a",
        "lora_b": "b",
        "m": "magnitude",
        "lora_A.weight": "a",
        "lora_B.weight": "b",
        "lora_magnitude_vector": "magnitude",
        "lora_magnitude_vector.weight": "magnitude",
    }
)
NAME = re.compile(r"(.+?)\.(lora_a|lora_b|m|lora_[AB]\.weight|lora_magnitude_vector(?:\.weight)?)")
PLACE = re.compile(r"((?:base_model|language_model|model|transformer|backbone|\.)*)layers\.(.+)")
SHOWN = 3  # names that an error lists


@dataclass(frozen=True, slots=True)
class Piece:
    """One target's tensors. `target` begins with the index of its layer: 3.self_attn.q_proj."""

    target: str
    rule: Rule
    a: Tensor
    b: Tensor
    magnitude: Tensor | None


@dataclass(frozen=True, slots=True)
class Contents:
    """What a sound folder holds. `transposed`: A and B lie as PEFT has them."""

    pieces: tuple[Piece, ...]
    dora: bool
    transposed: bool


def read(path: Path) -> AdapterFiles:
    """Reads the folder `path`. Raises InvalidRequest naming what is missing or wrong."""
    config = content(path, CONFIG)
    weights = content(path, form(config).weights)
    digest = hashlib.sha256()
    for part in (config, weights):
        digest.update(hashlib.sha256(part).digest())
    files = AdapterFiles(path=path, digest=digest.hexdigest(), config=config, weights=weights)
    understood(files)
    return files


def content(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except (OSError, ValueError) as error:
        if not folder.is_dir():
            raise refused(f"there is no folder {folder}") from error
        raise refused(f"{folder} has no {name} that can be read") from error


def understood(files: AdapterFiles) -> Contents:
    """Raises InvalidRequest for tensors that cannot be used, or that lack their twin."""
    asked = form(files.config)
    groups: dict[str, dict[str, Tensor]] = {}
    strange: list[str] = []
    for name, tensor in tensors(files.weights, asked.weights).items():
        match, place = NAME.fullmatch(name), PLACE.fullmatch(name)
        if match is None or place is None:
            strange.append(name)
            continue
        path = match[1].removeprefix("base_model.model.")
        parts = groups.setdefault(path, {})
        if PARTS[match[2]] in parts:
            raise refused(f"{path} has {match[2]} twice")
        parts[PARTS[match[2]]] = tensor
    if strange:
        raise refused(f"only low-rank parts of layers can be applied, and not {listed(strange)}")
    if not groups:
        raise refused(f"{asked.weights} holds no tensors")
    pieces = tuple(_pieces(groups, asked))
    return Contents(pieces, asked.dora, transposed=not isinstance(asked, MlxForm))


def _pieces(groups: Mapping[str, Mapping[str, Tensor]], asked: Form) -> Iterator[Piece]:
    wanted = {"a", "b", "magnitude"} if asked.dora else {"a", "b"}
    seen = set()
    for path, parts in groups.items():
        if parts.keys() != wanted:
            odd = sorted(parts.keys() ^ wanted)
            raise refused(f"of {path}, {' and '.join(odd)} is missing or too much")
        place = PLACE.fullmatch(path)
        assert place is not None  # the end of a name holds no layers
        if place[2] in seen:
            raise refused(f"{path} is there twice")
        seen.add(place[2])
        yield Piece(place[2], asked.of(path), parts["a"], parts["b"], parts.get("magnitude"))


def listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def wrong_shape(target: str, what: str, found: tuple[int, ...], wanted: str) -> InvalidRequest:
    return refused(f"{what} of {target} has the shape {found}, and here it must be {wanted}")
