"""The models on this disk: the hub's cache and the converted starter. Lists, removes.

It uses no network. `hub` is the hub's cache folder, None for the hub library's default.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from huggingface_hub import CachedRepoInfo, constants, scan_cache_dir
from huggingface_hub.errors import CacheNotFound

from slipstream.contracts.errors import ModelError
from slipstream.models import folder, starter


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A model on disk. `size` is in bytes; `problem` says why it cannot run, None if it can."""

    id: str
    path: Path
    size: int
    problem: str | None = None


def hub_home() -> Path:
    """The hub's cache folder by default, as the hub library has it."""
    return Path(constants.HF_HUB_CACHE)


def models(cache: Path, hub: Path | None = None) -> Sequence[Stored]:
    """All models on disk, by id; repositories that hold no model config are left out."""
    found = [*starter_on(cache), *in_hub(hub)]
    return sorted(found, key=lambda stored: stored.id.lower())


def remove(stored: Stored, cache: Path, hub: Path | None = None) -> None:
    """Deletes every file of `stored`. Raises ModelError when the disk refuses."""
    if stored.path == starter.folder(cache):
        shutil.rmtree(stored.path, ignore_errors=True)
    else:
        info = scan_cache_dir(hub)
        # Alone, as a copy of a repository has the same revisions under another id.
        repos = frozenset(
            repo for repo in info.repos if (repo.repo_type, repo.repo_id) == ("model", stored.id)
        )
        revisions = [revision.commit_hash for repo in repos for revision in repo.revisions]
        replace(info, repos=repos).delete_revisions(*revisions).execute()
    if stored.path.exists():
        raise ModelError(f"{stored.path} cannot be removed; are its folder and files yours?")


def starter_on(cache: Path) -> Iterator[Stored]:
    path = starter.folder(cache)
    if path.is_dir():
        size = sum(file.stat().st_size for file in path.iterdir())
        yield Stored(id=starter.NAME, path=path, size=size, problem=problem(path))


def in_hub(hub: Path | None) -> Iterator[Stored]:
    """The newest revision of each repository; `main` if it is there."""
    for repo in scan(hub):
        revisions = sorted(repo.revisions, key=lambda r: ("main" in r.refs, r.last_modified))
        if repo.repo_type != "model" or not revisions:
            continue
        path = Path(revisions[-1].snapshot_path)
        if (path / "config.json").exists():
            yield Stored(id=repo.repo_id, path=path, size=repo.size_on_disk, problem=problem(path))


def scan(hub: Path | None) -> frozenset[CachedRepoInfo]:
    try:
        return scan_cache_dir(hub).repos
    except CacheNotFound:
        return frozenset()


def problem(path: Path) -> str | None:
    try:
        folder.check(path)
    except ModelError as error:
        return error.message
    return None
