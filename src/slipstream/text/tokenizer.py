"""A model folder's tokenizer: text to ids, ids to text, ids to bytes.

It knows nothing of chat templates, and needs no transformers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tokenizers

from slipstream.contracts.errors import InvalidRequest, ModelError
from slipstream.text.pieces import Pieces

EXTRA = ("additional_special_tokens", "extra_special_tokens")
FLAGS = ("lstrip", "rstrip", "single_word", "normalized")


class Tokenizer:
    """Equal to the model's own tokenizer as transformers would load it.

    Safe to call from several threads: one lock guards the library underneath, which is not.
    Encoding costs 30 to 100 ms per 100 kB of text; everything else is cheap. `named` maps the
    names of special tokens, as chat templates use them, to their texts.
    """

    def __init__(
        self, backend: tokenizers.Tokenizer, config: Mapping[str, Any] | None = None
    ) -> None:
        """Takes `backend`; `config` is tokenizer_config.json. Raises ModelError."""
        config = config or {}
        self._backend = backend
        self._lock = threading.Lock()
        try:
            named = _named(config)
            special = [*named.values(), *_nameless(config)]
            _configure(backend, config, special)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise ModelError(f"tokenizer_config.json cannot be understood: {error!r}.") from error
        self.named = {name: token.content for name, token in named.items()}
        self.bos_id = self.id_of(self.named.get("bos_token", ""))
        self.eos_id = self.id_of(self.named.get("eos_token", ""))
        self._pieces = Pieces(backend)
        added = backend.get_added_tokens_decoder()
        declared = {token.content for token in special}
        self.special_ids = frozenset(
            index for index, token in added.items() if token.special or token.content in declared
        )

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """Reads `folder`. Raises ModelError saying which file is absent or broken."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise ModelError(f"{folder} has no tokenizer.json; this model cannot be tokenized.")
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            raise ModelError(f"{path} cannot be read: {error}.") from error
        config = _read_json(folder / "tokenizer_config.json")
        if "added_tokens_decoder" not in config:
            config = {**config, **_read_json(folder / "special_tokens_map.json")}
        return cls(backend, config)

    @property
    def vocab_size(self) -> int:
        """One more than the highest id."""
        return self._pieces.size

    def serialized(self) -> str:
        """All of it as tokenizer.json has it, brought in line with the configuration."""
        with self._lock:
            text: str = self._backend.to_str()
        return text

    def id_of(self, token: str) -> int | None:
        """The id of exactly this token, or None."""
        with self._lock:
            index: int | None = self._backend.token_to_id(token)
        return index

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Ids of `text`; special tokens written in it are read as such.

        Raises InvalidRequest when `text` is not Unicode (lone surrogates)."""
        ids: list[int] = self._encoded(text, add_special_tokens).ids
        return ids

    def encode_placed(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """As `encode` without special tokens around it; also where in `text` each token starts and
        ends, in characters. White space at its ends may count as its own, or as not."""
        encoded = self._encoded(text, False)
        return encoded.ids, encoded.offsets

    def _encoded(self, text: str, add_special_tokens: bool) -> tokenizers.Encoding:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidRequest("The text has half a surrogate pair in it.") from error
        with self._lock:
            return self._backend.encode(text, add_special_tokens=add_special_tokens)

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = False) -> str:
        """The text of `ids`; bytes that are no UTF-8 come out as U+FFFD, unknown ids as nothing."""
        skipped = self.special_ids if skip_special_tokens else frozenset()
        kept = [index for index in ids if index not in skipped]
        raw = b"".join(self._pieces.of(index, n == 0) for n, index in enumerate(kept))
        return raw.decode("utf-8", "replace")

    def token_bytes(self, index: int, first: bool = False) -> bytes:
        """The exact bytes that token `index` adds to a text, or begins it with when `first`."""
        return self._pieces.of(index, first)


def _read_json(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {error}.") from error
    if not isinstance(found, dict):
        raise ModelError(f"{path} is not a JSON object.")
    return found


def _special(token: str | Mapping[str, Any]) -> tokenizers.AddedToken:
    """Configurations write a token as its text, or as a record of text and flags."""
    if isinstance(token, str):
        return tokenizers.AddedToken(token, special=True, normalized=False)
    flags = {flag: bool(token[flag]) for flag in FLAGS if flag in token}
    return tokenizers.AddedToken(token["content"], special=True, **flags)


def _named(config: Mapping[str, Any]) -> dict[str, tokenizers.AddedToken]:
    """The special tokens that have a name: bos_token, eos_token, and what else there is."""
    named = {
        name: _special(value)
        for name, value in config.items()
        if name.endswith("_token") and isinstance(value, (str, dict))
    }
    for name in EXTRA:
        if isinstance(value := config.get(name), Mapping):
            named |= {key: _special(token) for key, token in value.items()}
    return named


def _nameless(config: Mapping[str, Any]) -> list[tokenizers.AddedToken]:
    """The special tokens that are only listed."""
    lists = (config.get(name) or () for name in EXTRA)
    return [_special(token) for found in lists if isinstance(found, list) for token in found]


def _configure(
    backend: tokenizers.Tokenizer,
    config: Mapping[str, Any],
    special: Iterable[tokenizers.AddedToken],
) -> None:
    """Brings tokenizer.json in line with tokenizer_config.json, as transformers does: which tokens
    go around a text is the former's to say, and add_bos_token of the latter does not count."""
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = bool(config.get("split_special_tokens", False))
    present = {repr(token) for token in backend.get_added_tokens_decoder().values()}
    listed = config.get("added_tokens_decoder") or {}
    for index in sorted(listed, key=int):
        token = tokenizers.AddedToken(**listed[index])
        if repr(token) not in present:
            backend.add_tokens([token])
    added = {token.content for token in backend.get_added_tokens_decoder().values()}
    missing = {token.content: token for token in special if token.content not in added}
    backend.add_special_tokens(list(missing.values()))
