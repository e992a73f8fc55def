"""Compiles grammars for one vocabulary, off the event loop, each once.

It does not know requests, rows or HTTP. The language of grammars is llguidance's.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from slipstream.contracts.completion import GrammarText
from slipstream.contracts.errors import InvalidRequest, QueueFull
from slipstream.text.grammar_matcher import GrammarMatcher, GroupMasks
from slipstream.text.grammar_source import translate
from slipstream.text.grammar_thinking import Lead, ThinkingMatcher
from slipstream.text.tokenizer import Tokenizer

KEPT = 64  # compiled grammars
MOST_WAITING = 32  # grammars not yet compiled
PATIENCE = 10.0  # seconds that one request waits for its grammar
THREADS = 2  # for compiling, and as many for masks: they take turns with the device's own
LONGEST_REASON = 400  # characters
SILENT = 0

# A byte that no UTF-8 has: llguidance uses it to mark special tokens, and shows its token as empty.
MARK = b"\xff"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens as llguidance knows them, and what all matchers over them share."""

    tokens: LLTokenizer
    masks: GroupMasks


@dataclass(frozen=True, slots=True)
class Compiled:
    """A grammar ready for any number of rows."""

    start: LLMatcher
    vocabulary: Vocabulary

    def matcher(self, ends: Iterable[int] = (), lead: Lead | None = None) -> GrammarMatcher:
        """A fresh one for one row, which `ends` end beside the model's own. Costs some 20 us.

        `lead`: reasoning that comes before what the grammar binds."""
        tokens, masks = self.vocabulary.tokens, self.vocabulary.masks
        if lead is None:
            return GrammarMatcher(self.start, tokens, masks, ends)
        return ThinkingMatcher(self.start, tokens, masks, ends, lead)


class GrammarCompiler:
    """Safe in threads. The first use costs 0.2 s for the vocabulary, a schema some milliseconds.

    Requests with the same grammar share one compilation, while it runs and after, be it good or
    refused; the `KEPT` newest stay.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        eos_ids: Iterable[int],
        vocab_size: int,
        *,
        kept: int = KEPT,
        most_waiting: int = MOST_WAITING,
        patience: float = PATIENCE,
    ) -> None:
        """`eos_ids`: the model's ends, the one to be forced first. `vocab_size`: of its logits."""
        self._tokenizer = tokenizer
        self._eos_ids = list(eos_ids)
        self._size = max(vocab_size, tokenizer.vocab_size)
        self._kept = kept
        self._most_waiting = most_waiting
        self._patience = patience
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], Future[Compiled]] = OrderedDict()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="grammar")
        self._vocabulary_lock = threading.Lock()
        self._vocabulary: Vocabulary | None = None

    async def compile(self, grammar: GrammarText) -> Compiled:
        """Raises InvalidRequest naming `grammar.param`, and QueueFull.

        Cancelling the caller leaves the compilation to whoever else waits for it."""
        future = self.start(grammar)
        try:
            async with asyncio.timeout(self._patience):
                return await asyncio.shield(asyncio.wrap_future(future))
        except InvalidRequest as error:
            raise InvalidRequest(
                f"{grammar.param} cannot be applied: {error.message}.", param=grammar.param
            ) from error
        except TimeoutError as error:
            raise InvalidRequest(
                f"{grammar.param} took longer than {self._patience:g} s to compile; shorten it.",
                param=grammar.param,
            ) from error

    def start(self, grammar: GrammarText) -> Future[Compiled]:
        """The compilation, begun now or earlier. It may end in InvalidRequest without a param."""
        key = (grammar.kind, grammar.text)
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
                return found
            waiting = sum(not future.done() for future in self._known.values())
            if waiting >= self._most_waiting:
                raise QueueFull(f"{waiting} grammars wait to be compiled; try again soon.")
            self._forget_oldest()
            future = self._known[key] = self._threads.submit(self._build, grammar)
        return future

    def _forget_oldest(self) -> None:
        """Makes room for one more; what is still compiled is kept."""
        done = [key for key, future in self._known.items() if future.done()]
        for key in done[: len(self._known) - self._kept + 1]:
            del self._known[key]

    def close(self) -> None:
        """Lets go of what waits; what is being compiled is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _build(self, grammar: GrammarText) -> Compiled:
        vocabulary = self._tokens()
        limits = LLParserLimits(
            step_max_items=20_000, max_lexer_states=50_000, verbose_errors=False
        )
        start = LLMatcher(vocabulary.tokens, translate(grammar), log_level=SILENT, limits=limits)
        if not start.is_error():
            start.compute_bitmask()  # the first mask is the costly one, and shows a dead grammar
        if start.is_error():
            raise InvalidRequest(reason(start.get_error()))
        return Compiled(start, vocabulary)

    def _tokens(self) -> Vocabulary:
        with self._vocabulary_lock:
            if self._vocabulary is None:
                tokens = read_vocabulary(self._tokenizer, self._eos_ids, self._size)
                self._vocabulary = Vocabulary(tokens, GroupMasks(tokens.vocab_size, THREADS))
            return self._vocabulary


def read_vocabulary(tokenizer: Tokenizer, eos_ids: list[int], size: int) -> LLTokenizer:
    """`tokenizer` as llguidance reads it. Raises InvalidRequest where the two would disagree about
    a token's bytes: such a model cannot be bound to a grammar."""
    if not eos_ids:
        raise InvalidRequest("this model has no token that ends a text")
    try:
        tokens = LLTokenizer(tokenizer.serialized(), n_vocab=size, eos_token=eos_ids)
    except ValueError as error:
        raise InvalidRequest(f"this model's vocabulary cannot be read: {error}") from error
    for token in range(tokenizer.vocab_size):
        expected = tokenizer.token_bytes(token)
        if expected != MARK and tokens.decode_bytes([token]) != expected:
            raise InvalidRequest(f"this model's token {token} is not known by its bytes")
    return tokens


def reason(error: str) -> str:
    """The library's message without the frame it draws around it, on one line."""
    kept = re.sub(r"^at (?=\d)|<non-verbose/>", "", error).partition("\n   1 |")[0]
    return " ".join(kept.split()).rstrip(".")[:LONGEST_REASON]
