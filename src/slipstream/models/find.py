"""Which model a name means: a folder, a hub id, a part of a name on disk, or nothing at all.

A decision over what is on disk; it downloads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from slipstream.contracts.errors import ModelError
from slipstream.models import starter
from slipstream.models.disk import Stored

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
PATH_STARTS = ("/", "./", "../", "~")


@dataclass(frozen=True, slots=True)
class Starter:
    """The starter model, converted already or not."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A model on disk. `id` is None where its folder has to tell."""

    path: Path
    id: str | None = None


@dataclass(frozen=True, slots=True)
class HubId:
    """A hub repository that is not on this disk, or not whole: to be downloaded."""

    id: str


Found = Starter | Folder | HubId


def resolve(name: str | None, on_disk: Callable[[], Sequence[Stored]]) -> Found:
    """What `name` means; None and `starter` are the starter. `on_disk` is asked only when needed.

    Raises ModelError with the candidates when it means nothing, or several things.
    """
    if name is None or name.lower() in ("starter", starter.NAME.lower()):
        return Starter()
    path = Path(name).expanduser()
    if path.is_dir():
        return Folder(path)
    if name.startswith(PATH_STARTS):
        raise ModelError(f"There is no folder {path}.")
    stored = on_disk()
    known = any(model.id.lower() == name.lower() for model in stored)
    if not known and is_hub_id(name):
        return HubId(name)
    model = only(name, stored)
    if model.id == starter.NAME:
        return Starter()
    return Folder(model.path, model.id) if model.problem is None else HubId(model.id)


def is_hub_id(name: str) -> bool:
    return HUB_ID.fullmatch(name) is not None


def only(name: str, stored: Sequence[Stored]) -> Stored:
    """The model on disk with `name` as its id, as the last part of it, or anywhere in it.

    Raises ModelError when there is none, or several fit equally well.
    """
    lower = name.lower()
    matches = [model for model in stored if lower in model.id.lower()]
    for fits in (
        [model for model in matches if model.id.lower() == lower],
        [model for model in matches if model.id.lower().rpartition("/")[2] == lower],
        matches,
    ):
        if len(fits) == 1:
            return fits[0]
    if matches:
        candidates = ", ".join(model.id for model in matches)
        raise ModelError(f"{name!r} is a part of several models' names: {candidates}. Say which.")
    ids = [model.id for model in stored]
    close = get_close_matches(name, ids, n=3, cutoff=0.4)
    here = f"On disk: {', '.join(close or ids)}." if ids else "No model is on this disk yet."
    raise ModelError(
        f"There is no model {name!r} here. {here} "
        "A folder, or an id like org/name to get it from the hub, works too."
    )
