"""The list of models on disk, and removing one."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstream.contracts.errors import ModelError
from slipstream.models import disk, starter
from slipstream.models.obtain import obtain

from . import folders


def test_an_empty_machine_has_no_models(tmp_path: Path) -> None:
    assert disk.models(tmp_path / "cache", tmp_path / "hub") == []


def test_both_caches_are_listed(tmp_path: Path) -> None:
    cache, hub = tmp_path / "cache", tmp_path / "hub"
    folders.model(starter.folder(cache))
    path = folders.hub_model(hub, "org/tiny")
    listed = disk.models(cache, hub)
    assert [(model.id, model.problem) for model in listed] == [
        ("org/tiny", None),
        (starter.NAME, None),
    ]
    assert listed[0].path == path and all(model.size > 0 for model in listed)


def test_a_repository_without_a_model_is_left_out(tmp_path: Path) -> None:
    (folders.hub_model(tmp_path, "org/data") / "config.json").unlink()
    assert disk.models(tmp_path, tmp_path) == []


def test_a_model_that_is_not_whole_says_why(tmp_path: Path) -> None:
    (folders.hub_model(tmp_path, "org/tiny") / "model.safetensors").unlink()
    assert "has no weights" in str(disk.models(tmp_path, tmp_path)[0].problem)


def test_a_removed_model_is_gone_and_the_others_stay(tmp_path: Path) -> None:
    folders.hub_model(tmp_path, "org/a")
    folders.hub_model(tmp_path, "org/b")
    first, second = disk.models(tmp_path, tmp_path)
    disk.remove(first, tmp_path, tmp_path)
    assert disk.models(tmp_path, tmp_path) == [second]


def test_the_starter_can_be_removed(tmp_path: Path) -> None:
    folders.model(starter.folder(tmp_path))
    disk.remove(disk.models(tmp_path, tmp_path)[0], tmp_path, tmp_path)
    assert disk.models(tmp_path, tmp_path) == []


def test_a_model_on_disk_is_obtained_by_a_part_of_its_name(tmp_path: Path) -> None:
    path = folders.hub_model(tmp_path / "hub", "org/tiny")
    info = obtain("tiny", tmp_path / "cache", hub_cache=tmp_path / "hub")
    assert (info.id, info.path) == ("org/tiny", path)


def test_nothing_is_downloaded_unless_asked(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="slipstream get org/absent"):
        obtain("org/absent", tmp_path, hub_cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_broken_folder_is_not_obtained(tmp_path: Path) -> None:
    (folders.model(tmp_path / "m") / "model.safetensors").write_bytes(b"short")
    with pytest.raises(ModelError, match="truncated"):
        obtain(str(tmp_path / "m"), tmp_path, hub_cache=tmp_path)
