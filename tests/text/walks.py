"""A random model: walks through a grammar by drawing tokens that its masks allow."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from slipstream.contracts.completion import GrammarText
from slipstream.text.grammar import Compiled, GrammarCompiler
from slipstream.text.tokenizer import Tokenizer

from .vocabularies import tokenizer

BYTES = tokenizer("byte_level")
END = BYTES.eos_id
CLOSING = frozenset(i for i in range(BYTES.vocab_size) if BYTES.token_bytes(i) in b'"]}')


def compiler(made: Tokenizer = BYTES, extra: int = 0, **options) -> GrammarCompiler:
    """`extra`: ids that the model has and the tokenizer has not."""
    return GrammarCompiler(made, [made.eos_id], made.vocab_size + extra, **options)


def compiled(kind: str, text: str, made: Tokenizer = BYTES) -> Compiled:
    return compiler(made).start(GrammarText(kind, text, "asked")).result()


def tokens(mask: bytes) -> list[int]:
    """The ids whose bits are set."""
    bits = np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")
    return np.flatnonzero(bits).tolist()


def draw(allowed: Sequence[int], chance: random.Random) -> int:
    """Any of them, but often one that brings the end nearer: few answers would be whole else."""
    if chance.random() < 0.4:
        closing = [token for token in allowed if token in CLOSING or token == END]
        allowed = closing or allowed
    return chance.choice(allowed)


def walk(grammar: Compiled, seed: int, longest: int = 600) -> tuple[bytes, bool]:
    """What a random model writes, and whether it came to the end by itself."""
    chance = random.Random(seed)
    matcher = grammar.matcher()
    written = b""
    for _ in range(longest):
        token = draw(tokens(matcher.allowed()), chance)
        matcher.accept(token)
        if token == END:
            return written, True
        written += BYTES.token_bytes(token)
    return written, False


def takes(grammar: Compiled, text: str) -> bool:
    """Whether `text`, token by token, is a whole answer."""
    matcher = grammar.matcher()
    for token in [*BYTES.encode(text), END]:
        if token not in tokens(matcher.allowed()):
            return False
        matcher.accept(token)
    return matcher.stopped
