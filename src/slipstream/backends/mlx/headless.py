"""Folders of embedding models hold a model without its head, under names that say so.

mlx-lm's classes are of whole models: names get the prefix that they have in those, and where the
folder has no head the embedding stands in for it, whose results nobody asks for.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.utils import MODEL_REMAPPING

PREFIX = "model."


def headless(path: Path) -> dict[str, Any]:
    """What mlx-lm's loader has to be told beside the folder; nothing for a whole model."""
    names = {name for file in sorted(path.glob("model*.safetensors")) for name in mx.load(file)}
    if "embed_tokens.weight" not in names or any(name.startswith(PREFIX) for name in names):
        return {}
    ties = {} if "lm_head.weight" in names else {"model_config": {"tie_word_embeddings": True}}
    return {"get_model_classes": prefixed, **ties}


def prefixed(config: dict[str, Any]) -> tuple[type[Any], type[Any]]:
    """The classes of `config`; the model's takes weights without the prefix."""
    kind = config["model_type"]
    module = importlib.import_module(f"mlx_lm.models.{MODEL_REMAPPING.get(kind, kind)}")
    model = module.Model

    class Prefixed(model):  # type: ignore[misc, valid-type]
        def sanitize(self, weights: Mapping[str, mx.array]) -> Any:
            named = {
                name if name.startswith("lm_head.") else PREFIX + name: weight
                for name, weight in weights.items()
            }
            return super().sanitize(named) if "sanitize" in dir(model) else named

    return Prefixed, module.ModelArgs
