"""`cache ls`, `gc` and `verify` on a folder that has whole, broken, foreign and half files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from slipstream.backends.mlx.prefix.disk.file import Kind, Label, Tensor
from slipstream.backends.mlx.prefix.disk.folder import Folder
from slipstream.backends.mlx.prefix.disk.tier import DiskTier
from slipstream.cli import main

SIZE = 1000  # bytes of tensors in each file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four segments of two models."""
    tier = DiskTier(Folder(tmp_path), 1 << 30)
    for number in range(4):
        label = Label(
            kind=Kind.KEYS,
            space="s",
            model=f"model {number % 2}",
            begin=str(number),
            start=0,
            ids=(number, 1, 2),
        )
        tier.put(label, {"0.keys": Tensor("U8", (SIZE,), bytes(SIZE))})
    tier.close()
    return tmp_path


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main.app(), ["cache", *map(str, arguments)])


def answer(*arguments: str | Path) -> dict:
    result = call(*arguments, "--json")
    return json.loads(result.stdout)


def break_one(folder: Path) -> str:
    path = segments(folder)[1]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    return path.stem


def test_ls_counts_by_model(folder):
    found = answer("ls", folder)
    assert found["bytes"] == sum(path.stat().st_size for path in segments(folder))
    assert {name: one["files"] for name, one in found["models"].items()} == {
        "model 0": 2,
        "model 1": 2,
    }
    assert {one["name"] for one in found["entries"]} == {path.stem for path in segments(folder)}
    assert "model 0  2 files  6 tokens" in call("ls", folder).stdout


def test_ls_of_an_empty_folder_is_empty(tmp_path):
    assert answer("ls", tmp_path) == {"bytes": 0, "models": {}, "entries": [], "bad": []}
    assert list(tmp_path.iterdir()) == []


def test_verify_is_content_with_whole_files(folder):
    assert call("verify", folder).exit_code == 0
    assert answer("verify", folder) == {"files": 4, "bad": [], "repaired": False}


def test_verify_finds_a_flipped_bit_and_fails(folder):
    name = break_one(folder)
    assert call("verify", folder).exit_code == 1
    assert [one["name"] for one in answer("verify", folder)["bad"]] == [name]
    assert len(segments(folder)) == 4


def test_verify_removes_what_is_bad_when_it_may(folder):
    break_one(folder)
    assert call("verify", folder, "--repair").exit_code == 0
    assert len(segments(folder)) == 3
    assert answer("verify", folder)["bad"] == []
    assert len(answer("ls", folder)["entries"]) == 3


def test_gc_removes_what_nobody_can_use_and_nothing_else(folder):
    os.truncate(segments(folder)[0], 50)
    half = folder / f".{'a' * 64}.1.tmp"
    half.write_bytes(b"half")
    os.utime(half, (0, 0))
    holiday = folder / "holiday.safetensors"
    holiday.write_bytes(b"mine")
    assert answer("gc", folder) == {"removed": 2, "bytes": 54}
    assert not half.exists()
    assert holiday.exists()
    assert len(answer("ls", folder)["entries"]) == 3


def test_gc_goes_down_to_a_size(folder):
    two = sum(path.stat().st_size for path in segments(folder)[:2]) + 10
    assert answer("gc", folder, "--size", str(two / (1 << 30)))["removed"] == 2
    assert len(segments(folder)) == 2


def test_a_server_starts_well_after_gc(folder):
    call("gc", folder, "--size", "0")
    tier = DiskTier(Folder(folder), 1 << 30)
    assert tier.nbytes == 0
    tier.close()


@pytest.mark.parametrize("verb", ["ls", "gc", "verify"])
def test_a_folder_that_is_not_there_is_wrong_usage(verb, tmp_path):
    result = call(verb, tmp_path / "gone")
    assert result.exit_code == 2
    assert "is not a folder" in result.stderr


def test_a_negative_size_is_wrong_usage(folder):
    assert call("gc", folder, "--size", "-1").exit_code == 2
