"""Tokens to whole characters, one token at a time and without looking back.

It does not know where an answer ends; see `stops` and `sink`.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection

from slipstream.text.tokenizer import Tokenizer


class Detokenizer:
    """`push` a token, get the characters that it completes. Constant work for each token.

    `continues`: the text goes on after a prompt's text, so a first word keeps its leading space.
    `keep`: special tokens that are shown all the same. The others are silent.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, keep: Collection[int] = (), continues: bool = False
    ) -> None:
        self._tokenizer = tokenizer
        self._silent = tokenizer.special_ids.difference(keep)
        self._first = not continues
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def raw(self, token: int) -> bytes:
        """The exact bytes of `token` if it came next; those of a silent one too."""
        return self._tokenizer.token_bytes(token, self._first)

    def silent(self, token: int) -> bool:
        """Whether `token` adds nothing to the text."""
        return token in self._silent

    def push(self, token: int) -> str:
        if self.silent(token):
            return ""
        raw = self.raw(token)
        self._first = False
        return self._utf8.decode(raw)

    def flush(self) -> str:
        """Ends the text. A character that is still incomplete is dropped."""
        self._utf8.reset()
        return ""
