"""The disk tier tells adapters apart by content and scale, across a restart."""

from __future__ import annotations

from pathlib import Path

from parity import adapted, loras, tiny
from slipstream.backends.mlx.adapters.files import read
from slipstream.backends.mlx.prefix.disk.folder import Folder
from slipstream.contracts.backend import Advance

from .disk import IDS, opened, serving


def test_a_prefix_comes_back_for_the_same_adapter_and_for_no_other(tmp_path: Path) -> None:
    ids = IDS[:200]
    files = read(loras.write_mlx(tmp_path / "a", loras.random(tiny.build("llama"), 1)))
    with serving("llama", Folder(tmp_path / "cache")) as engine:
        engine.adapters.mount("a", files)
        row = opened(engine, adapted.spec(ids, [("a", 1.0)]))
        engine.launch([Advance(row, len(ids) - 1)])
        engine.collect(0)
        engine.release(row)
    with serving("llama", Folder(tmp_path / "cache")) as engine:
        engine.adapters.mount("renamed", files)
        found = {}
        for uses in ((), (("renamed", 0.5),), (("renamed", 1.0),)):
            row = opened(engine, adapted.spec(ids, uses))
            found[uses] = row.cached
            engine.release(row)
    assert found == {(): 0, (("renamed", 0.5),): 0, (("renamed", 1.0),): len(ids) - 1}
