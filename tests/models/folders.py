"""Small model folders and hub caches on disk, for the tests of models/ and cli/."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

CONFIG = {"model_type": "llama", "vocab_size": 8, "max_position_embeddings": 64, "eos_token_id": 2}
HASH = "0123456789abcdef0123456789abcdef01234567"


def write_json(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), "utf-8")
    return path


def shard(path: Path, rows: int = 4) -> Path:
    save_file({"layer.weight": np.ones((rows, 8), np.float16)}, path)
    return path


def model(path: Path, **config: object) -> Path:
    """A folder that `folder.read` and `folder.check` like."""
    write_json(path / "config.json", {**CONFIG, **config})
    shard(path / "model.safetensors")
    return path


def hub_model(hub: Path, id: str) -> Path:
    """`model` as the hub library keeps it: a snapshot folder in a repository's folder."""
    repo = hub / f"models--{id.replace('/', '--')}"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text(HASH)
    (repo / "blobs").mkdir()
    return model(repo / "snapshots" / HASH)
