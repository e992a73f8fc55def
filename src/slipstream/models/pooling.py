"""How a model folder says it makes embeddings: the files that sentence-transformers writes.

modules.json lists the steps after the model, 1_Pooling/config.json says how states are pooled.
What is declared and cannot be done here is refused by name, never done half.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from slipstream.contracts.errors import ModelError
from slipstream.contracts.pooling import Pooling, PoolMode

FOLDER = "1_Pooling"
SIZES = ("word_embedding_dimension", "embedding_dimension")
MODES: Mapping[str, PoolMode] = MappingProxyType(
    {
        "pooling_mode_cls_token": PoolMode.FIRST,
        "pooling_mode_mean_tokens": PoolMode.MEAN,
        "pooling_mode_lasttoken": PoolMode.LAST,
    }
)
# Newer files name the mode in one word.
WORDS: Mapping[str, PoolMode] = MappingProxyType(
    {"cls": PoolMode.FIRST, "mean": PoolMode.MEAN, "lasttoken": PoolMode.LAST}
)


def read(path: Path, config: Mapping[str, Any]) -> Pooling | str:
    """What the folder `path` declares, or why this model makes no embeddings. `config`: its
    config.json, that of the language part included. Raises ModelError for a broken file."""
    steps = modules(path)
    where = path / (steps.get("Pooling") or FOLDER) / "config.json"
    if not where.exists():
        return f"its folder declares no pooling ({FOLDER}/config.json)"
    strange = [step for step in steps if step not in ("Transformer", "Pooling", "Normalize")]
    if strange:
        return f"its modules.json has a step that is not built in ({', '.join(strange)})"
    if config.get("use_bidirectional_attention") or config.get("is_causal") is False:
        return "it reads texts in both directions, which is not built in"
    declared = load(where)
    found = mode(declared)
    if not isinstance(found, PoolMode):
        return found
    sizes = (declared.get(name) for name in SIZES)
    size = next((one for one in sizes if one is not None), config.get("hidden_size"))
    if type(size) is not int or size < 1:
        raise ModelError(f"{where} has no word_embedding_dimension. Download the model again.")
    return Pooling(mode=found, size=size, normalized="Normalize" in steps)


def mode(declared: Mapping[str, Any]) -> PoolMode | str:
    """The one way in which states are pooled, or why it is none of ours."""
    word = declared.get("pooling_mode")
    asked = [name for name, on in declared.items() if name.startswith("pooling_mode_") and on]
    if isinstance(word, str):
        asked = [word]
    known = {**MODES, **WORDS}
    if len(asked) != 1 or asked[0] not in known:
        return f"its way of pooling is not built in ({', '.join(asked) or 'none is named'})"
    return known[asked[0]]


def modules(path: Path) -> Mapping[str, str]:
    """The steps of modules.json in order: the last word of each type, and its folder."""
    file = path / "modules.json"
    if not file.exists():
        return {}
    listed = load(file, list)
    try:
        return {str(one["type"]).rpartition(".")[2]: str(one["path"]) for one in listed}
    except (KeyError, TypeError) as error:
        raise ModelError(f"{file} is not a list of modules. Download the model again.") from error


def load(path: Path, kind: type[Any] = dict) -> Any:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read: {error}. Download the model again.") from error
    if not isinstance(found, kind):
        raise ModelError(f"{path} is not a JSON {kind.__name__}. Download the model again.")
    return found
