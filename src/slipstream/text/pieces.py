"""Which bytes a token adds to a text, for every kind of vocabulary.

Byte-level tokens go through GPT-2's alphabet, byte tokens (<0x0A>) are themselves, and for all
others the vocabulary's own decoder is asked. It does not know what an id is used for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import tokenizers

BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
ANCHOR = "a"  # an ordinary token, so that a decoder shows what a later one adds to it


def byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in -> the byte. Printable Latin-1 stands for itself, the rest for
    the characters from U+0100 on, in the order of the bytes."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in printable]
    shown = {chr(byte): byte for byte in printable}
    return shown | {chr(0x100 + n): byte for n, byte in enumerate(hidden)}


def decoder_kinds(serialized: Mapping[str, Any] | None) -> set[str]:
    """The `type` of a decoder as tokenizer.json writes it, and of its parts."""
    if serialized is None:
        return set()
    parts: list[Mapping[str, Any]] = serialized.get("decoders", [])
    return {serialized["type"]}.union(*(decoder_kinds(part) for part in parts))


class Pieces:
    """Token id -> bytes. Reads the vocabulary once and keeps what it worked out.

    Unknown ids add nothing. Never locks: it has its own decoder and its own list of tokens.
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        vocabulary = backend.get_vocab(with_added_tokens=True)
        self.size = max(vocabulary.values(), default=-1) + 1
        self._tokens: list[str | None] = [None] * self.size
        for token, index in vocabulary.items():
            self._tokens[index] = token
        self._added = frozenset(backend.get_added_tokens_decoder())
        self._decoder = backend.decoder
        kinds = decoder_kinds(json.loads(backend.to_str())["decoder"])
        self._alphabet = byte_alphabet() if "ByteLevel" in kinds else None
        self._byte_tokens = "ByteFallback" in kinds
        self._known: dict[tuple[int, bool], bytes] = {}

    def token(self, index: int) -> str | None:
        return self._tokens[index] if 0 <= index < self.size else None

    def of(self, index: int, first: bool) -> bytes:
        """What `index` adds to a text, at its very beginning (`first`) or later on.

        The two differ where a vocabulary writes a word's leading space into its token."""
        key = (index, first)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._work_out(index, first)
        return found

    def _work_out(self, index: int, first: bool) -> bytes:
        token = self.token(index)
        if token is None:
            return b""
        if self._alphabet is not None:
            return self._byte_level(token, self._alphabet, index in self._added)
        if self._byte_tokens and (match := BYTE_TOKEN.fullmatch(token)):
            byte = int(match[1], 16)
            if byte >= 0x80:  # half a character; ASCII is left to the decoder, which may strip it
                return bytes([byte])
        if first:
            return self._decode([token]).encode()
        return self._decode([ANCHOR, token])[len(self._decode([ANCHOR])) :].encode()

    @staticmethod
    def _byte_level(token: str, alphabet: Mapping[str, int], added: bool) -> bytes:
        if added or any(char not in alphabet for char in token):
            return token.encode()  # an added token is plain text, not written in the alphabet
        return bytes(alphabet[char] for char in token)

    def _decode(self, tokens: list[str]) -> str:
        if self._decoder is None:
            return " ".join(tokens)
        return str(self._decoder.decode(tokens))
