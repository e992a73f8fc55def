"""A model folder read without its weights: what it says of itself, and whether it is complete.

It knows the files' names and keys, of which there are many spellings; no device and no hub.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slipstream.contracts.errors import ModelError
from slipstream.contracts.model import ModelInfo
from slipstream.models import pooling

AGAIN = "Download or convert the model again."
INDEX = "model.safetensors.index.json"
CONTEXT_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "n_ctx",
    "max_seq_len",
    "max_seq_length",
    "max_sequence_length",
    "seq_length",
    "model_max_length",
)
UNSTATED_CONTEXT = 131_072  # recurrent models often name no limit, and have none
PLACEHOLDER_LENGTH = 10**9  # tokenizers that know no limit state a number beyond this
HEADER_LIMIT = 100_000_000  # the safetensors format's own


def read(path: Path, id: str | None = None) -> ModelInfo:
    """What the JSON files of `path` say. `id` defaults to the hub id or the folder's name.

    Raises ModelError naming the file and what to do.
    """
    if not path.is_dir():
        raise ModelError(f"{path} is not a folder.")
    config = required(path / "config.json")
    generation = optional(path / "generation_config.json")
    tokenizer = optional(path / "tokenizer_config.json")
    text = {**config, **nested(config)}
    pooled = pooling.read(path, text)
    return ModelInfo(
        id=id or name_of(path),
        path=path,
        context=context(text, tokenizer),
        vocab_size=vocab_size(text, path),
        eos_ids=eos_ids(generation, text, tokenizer, path),
        config=config,
        generation=generation,
        tokenizer=tokenizer,
        chat_template=chat_template(tokenizer, path),
        pooling=None if isinstance(pooled, str) else pooled,
        no_pooling=pooled if isinstance(pooled, str) else "",
    )


def check(path: Path) -> None:
    """Raises ModelError unless every weight file is there and as long as its header says."""
    for shard in shards(path):
        check_length(shard)


def stored_bytes(path: Path) -> int:
    """Bytes of the weight files. Raises ModelError when one is missing."""
    return sum(shard.stat().st_size for shard in shards(path))


def name_of(path: Path) -> str:
    """The hub id when `path` is a snapshot in a hub cache, else the folder's name."""
    repo = path.resolve().parent.parent.name
    if path.resolve().parent.name == "snapshots" and repo.startswith("models--"):
        return repo.removeprefix("models--").replace("--", "/", 1)
    return path.resolve().name


def required(path: Path) -> dict[str, Any]:
    if not path.exists():
        hint = "GGUF files are not read" if any(path.parent.glob("*.gguf")) else AGAIN[:-1]
        raise ModelError(
            f"{path.parent} is not a whole model folder: it has no {path.name}. {hint}."
        )
    return load(path)


def optional(path: Path) -> dict[str, Any]:
    return load(path) if path.exists() else {}


def load(path: Path) -> dict[str, Any]:
    """One JSON object. Raises ModelError."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not valid JSON ({error}). {AGAIN}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} is not a JSON object. {AGAIN}")
    return value


def nested(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language part of a multimodal model's config."""
    for key in ("text_config", "language_config", "llm_config"):
        if isinstance(part := config.get(key), dict):
            return part
    return {}


def context(config: Mapping[str, Any], tokenizer: Mapping[str, Any]) -> int:
    for key in CONTEXT_KEYS:
        if isinstance(value := config.get(key), int) and value > 0:
            return value
    length = tokenizer.get("model_max_length")
    if isinstance(length, int | float) and 0 < length < PLACEHOLDER_LENGTH:
        return int(length)
    return UNSTATED_CONTEXT


def vocab_size(config: Mapping[str, Any], path: Path) -> int:
    if isinstance(value := config.get("vocab_size"), int) and value > 0:
        return value
    if ids := token_ids(path):
        return max(ids.values()) + 1
    raise ModelError(f"{path / 'config.json'} has no vocab_size. {AGAIN}")


def eos_ids(
    generation: Mapping[str, Any],
    config: Mapping[str, Any],
    tokenizer: Mapping[str, Any],
    path: Path,
) -> tuple[int, ...]:
    """generation_config before config before the tokenizer's eos_token; none is possible."""
    for source in (generation, config):
        value = source.get("eos_token_id")
        ids = value if isinstance(value, list) else [value]
        if ids and all(isinstance(each, int) for each in ids):
            return tuple(dict.fromkeys(ids))
    token = tokenizer.get("eos_token")
    content = token.get("content") if isinstance(token, dict) else token
    found = token_ids(path).get(content) if isinstance(content, str) else None
    return () if found is None else (found,)


def token_ids(path: Path) -> dict[str, int]:
    """Token -> id of tokenizer.json, added tokens included; empty without one."""
    document = optional(path / "tokenizer.json")
    try:
        vocab = document.get("model", {}).get("vocab", {})
        # A unigram vocabulary is a list of [token, score]; ids are the places.
        ids = dict(vocab) if isinstance(vocab, dict) else {row[0]: i for i, row in enumerate(vocab)}
        ids.update({token["content"]: token["id"] for token in document.get("added_tokens", [])})
    except (AttributeError, KeyError, TypeError, IndexError) as error:
        raise ModelError(f"{path / 'tokenizer.json'} is not a tokenizer. {AGAIN}") from error
    return ids


def chat_template(tokenizer: Mapping[str, Any], path: Path) -> str | None:
    """chat_template.jinja before chat_template.json before tokenizer_config.json."""
    jinja = path / "chat_template.jinja"
    if jinja.exists():
        try:
            return jinja.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(f"{jinja} cannot be read: {error}. {AGAIN}") from error
    template = optional(path / "chat_template.json").get("chat_template")
    template = template or tokenizer.get("chat_template")
    if isinstance(template, list):  # several by name
        named = {each["name"]: each["template"] for each in template}
        template = named.get("default", next(iter(named.values()), None))
    return template if isinstance(template, str) else None


def shards(path: Path) -> Iterator[Path]:
    """The weight files that must be there. Raises ModelError when one is not named or missing."""
    index = path / INDEX
    if index.exists():
        weights = load(index).get("weight_map")
        if not isinstance(weights, dict) or not weights:
            raise ModelError(f"{index} names no weight file. {AGAIN}")
        names = sorted(set(weights.values()))
    else:
        names = sorted(file.name for file in path.glob("model*.safetensors"))
        names = [sibling for name in names for sibling in siblings(name)]
        if not names:
            raise ModelError(f"{path} has no weights (model*.safetensors). {AGAIN}")
    for name in dict.fromkeys(names):
        if not (path / name).exists():  # a dangling link of an interrupted download, too
            raise ModelError(f"{path / name} is missing. {AGAIN}")
        yield path / name


def siblings(name: str) -> list[str]:
    """`model-00001-of-00003.safetensors` -> all three names; any other name alone."""
    match = re.fullmatch(r"(.*-)(\d+)-of-(\d+)(\.safetensors)", name)
    if match is None:
        return [name]
    start, number, count, end = match.groups()
    width = len(number)
    return [f"{start}{i:0{width}}-of-{count}{end}" for i in range(1, int(count) + 1)]


def check_length(path: Path) -> None:
    """Compares a safetensors file's length with its header. Raises ModelError."""
    try:
        actual = path.stat().st_size
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(size, HEADER_LIMIT)))
        tensors = [entry for name, entry in header.items() if name != "__metadata__"]
        expected = 8 + size + max((entry["data_offsets"][1] for entry in tensors), default=0)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, AttributeError, KeyError, TypeError, IndexError) as error:
        raise ModelError(f"{path} is truncated or not a safetensors file. {AGAIN}") from error
    if actual < expected:
        raise ModelError(f"{path} is truncated: {actual} of {expected} bytes. {AGAIN}")
    if actual > expected:
        raise ModelError(f"{path} has {actual - expected} bytes too many. {AGAIN}")
