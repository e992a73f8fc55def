"""What is known of a model from its folder, before a byte of weights is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipstream.contracts.pooling import Pooling


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """A readable model folder.

    `config` is config.json, `generation` generation_config.json (or empty), `tokenizer`
    tokenizer_config.json (or empty), as parsed. `context` is the model's own limit in tokens.
    Without `pooling` it makes no embeddings, and `no_pooling` says why.
    """

    id: str
    path: Path
    context: int
    vocab_size: int
    eos_ids: tuple[int, ...]
    config: Mapping[str, Any] = field(repr=False)
    generation: Mapping[str, Any] = field(default_factory=dict, repr=False)
    tokenizer: Mapping[str, Any] = field(default_factory=dict, repr=False)
    chat_template: str | None = field(default=None, repr=False)
    pooling: Pooling | None = None  # how it makes embeddings
    no_pooling: str = "its folder declares no pooling (1_Pooling/config.json)"
