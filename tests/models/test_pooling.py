"""How a folder declares that its model makes embeddings, and what of that is not built in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slipstream.contracts.errors import ModelError
from slipstream.contracts.pooling import Pooling, PoolMode
from slipstream.models import folder

from . import folders

STEP = "sentence_transformers.models."
STEPS = ("Transformer", "Pooling", "Normalize")


def declared(path: Path, pooling: Any, steps: tuple[str, ...] = STEPS, **config: Any) -> Path:
    folders.model(path, **config)
    listed = [
        {"idx": n, "path": f"{n}_{one}" if n else "", "type": STEP + one}
        for n, one in enumerate(steps)
    ]
    folders.write_json(path / "modules.json", listed)
    folders.write_json(path / "1_Pooling" / "config.json", pooling)
    return path


def flags(*on: str, size: int = 32) -> dict[str, Any]:
    names = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "lasttoken")
    return {
        "word_embedding_dimension": size,
        **{f"pooling_mode_{name}": name in on for name in names},
        "include_prompt": True,
    }


@pytest.mark.parametrize(
    ("pooling", "mode"),
    [
        (flags("cls_token"), PoolMode.FIRST),
        (flags("mean_tokens"), PoolMode.MEAN),
        (flags("lasttoken"), PoolMode.LAST),
        ({"embedding_dimension": 32, "pooling_mode": "mean"}, PoolMode.MEAN),
    ],
)
def test_the_mode_the_size_and_the_length_are_read(tmp_path: Path, pooling, mode) -> None:
    info = folder.read(declared(tmp_path, pooling, hidden_size=32))
    assert info.pooling == Pooling(mode=mode, size=32, normalized=True)
    assert info.no_pooling == ""


def test_without_that_step_vectors_keep_their_length(tmp_path: Path) -> None:
    info = folder.read(declared(tmp_path, flags("lasttoken"), STEPS[:2]))
    assert info.pooling is not None
    assert not info.pooling.normalized


def test_a_pooling_folder_is_enough(tmp_path: Path) -> None:
    folders.write_json(folders.model(tmp_path) / "1_Pooling" / "config.json", flags("lasttoken"))
    assert folder.read(tmp_path).pooling is not None


@pytest.mark.parametrize(
    ("pooling", "steps", "config", "why"),
    [
        (flags("max_tokens"), STEPS, {}, "max_tokens"),
        (flags("cls_token", "mean_tokens"), STEPS, {}, "cls_token"),
        (flags(), STEPS, {}, "none is named"),
        (flags("mean_tokens"), (*STEPS[:2], "Dense", "Normalize"), {}, "Dense"),
        (flags("mean_tokens"), STEPS, {"use_bidirectional_attention": True}, "both directions"),
    ],
)
def test_what_is_not_built_in_is_named(tmp_path: Path, pooling, steps, config, why) -> None:
    info = folder.read(declared(tmp_path, pooling, steps, **config))
    assert info.pooling is None
    assert why in info.no_pooling


def test_a_model_that_declares_nothing_says_so(tmp_path: Path) -> None:
    assert "declares no pooling" in folder.read(folders.model(tmp_path)).no_pooling


@pytest.mark.parametrize("broken", [[], {"pooling_mode": "mean"}])
def test_a_broken_file_is_named(tmp_path: Path, broken: Any) -> None:
    with pytest.raises(ModelError, match="1_Pooling"):
        folder.read(declared(tmp_path, broken))
