"""The prompt as the first part of its answer: its text, and its tokens with log-probabilities.

It does not know how the answer goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slipstream.contracts.delta import TextLogprob
from slipstream.contracts.row import Scored
from slipstream.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Echo:
    text: str
    tokenizer: Tokenizer

    def entries(self, scored: Sequence[Scored]) -> list[TextLogprob]:
        """One for each of the prompt's tokens. A special token that was put before or after the
        text, and does not stand in it, is silent."""
        whole = self.text.encode()
        found: list[TextLogprob] = []
        at, first = 0, True  # bytes of the text that the tokens so far account for
        for token in scored:
            raw = self.tokenizer.token_bytes(token.token, first)
            special = token.token in self.tokenizer.special_ids
            silent = special and not whole.startswith(raw, at)
            top = tuple(
                named(self.tokenizer.token_bytes(one.token, first), one.logprob)
                for one in token.top
            )
            found.append(named(raw, token.logprob, top, silent=silent))
            if not silent:
                at, first = at + len(raw), False
        return found


def named(
    raw: bytes, logprob: float | None, top: tuple[TextLogprob, ...] = (), *, silent: bool = False
) -> TextLogprob:
    """The entry of a token that is written as `raw`."""
    return TextLogprob(raw.decode("utf-8", "replace"), raw, logprob, top, silent)
