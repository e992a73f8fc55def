"""Texts of a given length, no two of which begin alike."""

from __future__ import annotations

import random
from collections.abc import Mapping

from slipstream.text.tokenizer import Tokenizer

WORDS = (
    *("river", "mountain", "harbour", "window", "paper", "engine", "garden", "letter", "bridge"),
    *("morning", "silver", "copper", "question", "market", "winter", "journey", "village"),
)
Message = Mapping[str, str]


class Words:
    """Texts by their number of words, for servers whose tokenizer is not known."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def of(self, count: int) -> str:
        head = f"Case {self.chance.getrandbits(40)}:"
        return " ".join([head, *self.chance.choices(WORDS, k=max(1, count - 1))])


class Texts:
    """`seed` makes them repeatable. Lengths are met to within a few tokens."""

    def __init__(self, tokenizer: Tokenizer, seed: int) -> None:
        self._tokenizer = tokenizer
        self._chance = random.Random(seed)

    def of(self, tokens: int) -> str:
        words = [f"Case {self._chance.getrandbits(40)}:"]
        words += (self._chance.choice(WORDS) for _ in range(tokens))
        ids = self._tokenizer.encode(" ".join(words), add_special_tokens=False)
        return self._tokenizer.decode(ids[:tokens])


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}
