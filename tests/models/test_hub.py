"""Fetching from the hub: what comes, what stays out, and every way to fail with advice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipstream.contracts.errors import ModelError
from slipstream.models import disk, hub

from . import fake_hub, folders
from .fake_hub import ID, FakeHub

DOWNLOAD = """
import sys
from pathlib import Path
from slipstream.contracts.errors import ModelError
from slipstream.models import hub

try:
    print(hub.download(sys.argv[1], Path(sys.argv[2])))
except ModelError as error:
    sys.exit(error.message)
"""


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeHub]:
    folder = folders.model(tmp_path / "origin")
    folders.shard(
        folder / "model.safetensors", rows=1_000_000
    )  # 16 MB: the library writes 10 at a time
    (folder / "pytorch_model.bin").write_bytes(b"the same weights again")
    (folder / "README.md").write_text("words")
    with fake_hub.serving(folder) as served:
        yield served


def download(fake: FakeHub, cache: Path, id: str = ID) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the hub library reads its address when it is imported."""
    environment = {
        **os.environ,
        "HF_ENDPOINT": fake.address,
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DOWNLOAD_TIMEOUT": "5",
    }
    command = [sys.executable, "-c", DOWNLOAD, id, str(cache)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_model_comes_whole_and_without_what_is_not_needed(fake: FakeHub, tmp_path: Path) -> None:
    done = download(fake, tmp_path / "hub")
    assert done.returncode == 0, done.stderr
    assert fake.fetched == {"config.json", "model.safetensors"}
    assert done.stderr == "", "not a terminal: no bars"
    (stored,) = disk.models(tmp_path, tmp_path / "hub")
    assert (stored.id, stored.problem, str(stored.path)) == (ID, None, done.stdout.strip())


def test_after_a_cut_only_the_cut_file_is_fetched_again(fake: FakeHub, tmp_path: Path) -> None:
    fake.limit = 5000
    cut = download(fake, tmp_path / "hub")
    assert cut.returncode == 1 and "whole files stay" in cut.stderr
    assert not list((tmp_path / "hub").rglob("model.safetensors"))
    fake.limit = None
    fake.fetched.clear()
    done = download(fake, tmp_path / "hub")
    assert done.returncode == 0, done.stderr
    assert [model.problem for model in disk.models(tmp_path, tmp_path / "hub")] == [None]
    assert fake.fetched == {"model.safetensors"}


def test_an_unknown_repository_is_named(fake: FakeHub, tmp_path: Path) -> None:
    done = download(fake, tmp_path / "hub", "org/absent")
    assert done.returncode == 1 and "The hub has no model org/absent" in done.stderr


def test_without_a_network_it_says_what_works(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the starter needs no hub"):
        hub.download("org/absent", tmp_path)


def test_a_name_that_no_repository_can_have_is_no_id(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a hub id"):
        hub.download("a/b/c", tmp_path)
