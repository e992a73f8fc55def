"""How long a prompt may be, and how a text that cannot fit is found without reading all of it."""

from __future__ import annotations

from collections.abc import Iterable

from slipstream.contracts.errors import ContextExceeded, InvalidRequest
from slipstream.text.tokenizer import Tokenizer

LONG_TEXT = 1 << 18  # characters; a longer text is first counted piece by piece
DENSE_TEXT = 16  # characters per token: no ordinary text packs as many
SLICE = 1 << 16  # characters counted at a time


class Room:
    """The context in tokens, enforced, and the ids that there are: 0 to `vocabulary` - 1."""

    def __init__(self, tokenizer: Tokenizer, context: int, vocabulary: int) -> None:
        self.context = context
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._by_memory = False

    def limit(self, context: int) -> None:
        """From now on no prompt is longer than `context` tokens: memory holds no more."""
        self.context = context
        self._by_memory = True

    def exceeded(self, tokens: int, param: str, at_least: bool = False) -> ContextExceeded:
        return ContextExceeded(
            tokens, self.context, param=param, at_least=at_least, by_memory=self._by_memory
        )

    def check_length(self, text: str, param: str) -> None:
        """Raises ContextExceeded for a text so long that it cannot fit, without reading all of it:
        once there are twice as many tokens as can fit, which no seams between slices explain."""
        if len(text) <= max(LONG_TEXT, DENSE_TEXT * self.context):
            return
        tokens = 0
        for start in range(0, len(text), SLICE):
            piece = text[start : start + SLICE]
            tokens += len(self._tokenizer.encode(piece, add_special_tokens=False))
            if tokens > 2 * self.context:
                raise self.exceeded(tokens, param, at_least=True)

    def check_ids(self, ids: Iterable[int], param: str) -> None:
        """Raises InvalidRequest for an id that is none."""
        for token in ids:
            if not 0 <= token < self._vocabulary:
                raise InvalidRequest(
                    f"{token} is not a token of this model; ids are 0 to {self._vocabulary - 1}.",
                    param=param,
                )
