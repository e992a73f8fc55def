"""What is known of a model from its folder, before a byte of weights is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """A readable model folder.

    `config` is config.json, `generation` generation_config.json (or empty), `tokenizer`
    tokenizer_config.json (or empty), as parsed. `context` is the model's own limit in tokens.
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
