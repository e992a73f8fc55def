"""The model's own bits for each layer's keys and values: `kv_config.json` in its folder.

A list of {"layer_idx", "bits", "group_size"}, as mlx-optiq writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipstream.contracts.errors import ModelError, UsageError
from slipstream.contracts.kv import GROUP, KvForm, KvScheme, affine

FILE = "kv_config.json"


def layers_of(scheme: KvScheme, folder: Path) -> Mapping[int, KvScheme] | None:
    """What the file of the model in `folder` says, where `scheme` asks for it. As read_layers."""
    return read_layers(folder) if scheme.form is KvForm.CONFIG else None


def read_layers(folder: Path) -> Mapping[int, KvScheme]:
    """The scheme of each layer that the file names; the others stay in the model's type.

    Raises ModelError, naming the file and what is wrong with it."""
    file = folder / FILE
    try:
        entries = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise ModelError(
            f"{file} is not there, and --kv-scheme config reads each layer's bits from it. "
            "Take another scheme, such as affine:8."
        ) from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{file} cannot be read: {error}") from error
    if not isinstance(entries, list):
        raise _wrong(file, "it is not a list")
    layers: dict[int, KvScheme] = {}
    for entry in entries:
        layer, scheme = _entry(file, entry)
        if layer in layers:
            raise _wrong(file, f"it names layer {layer} twice")
        layers[layer] = scheme
    return layers


def _entry(file: Path, entry: Any) -> tuple[int, KvScheme]:
    if not isinstance(entry, dict):
        raise _wrong(file, f"{entry!r} is not an object")
    numbers = [entry.get("layer_idx"), entry.get("bits"), entry.get("group_size", GROUP)]
    if not all(type(number) is int for number in numbers):
        raise _wrong(file, f"{entry!r} lacks whole numbers layer_idx and bits")
    try:
        return numbers[0], affine(numbers[1], numbers[2])
    except UsageError as error:
        reason = error.message.removeprefix("--kv-scheme ")
        raise _wrong(file, f"in {entry!r}, affine {reason}") from error


def _wrong(file: Path, what: str) -> ModelError:
    return ModelError(
        f'{file}: {what}. It is a list of {{"layer_idx": 0, "bits": 8, "group_size": 64}}.'
    )
