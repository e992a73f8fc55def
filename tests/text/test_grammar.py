"""Compiling: each grammar once, off the loop, bounded, and every refusal names the field."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from slipstream.contracts.completion import GrammarText
from slipstream.contracts.errors import InvalidRequest, QueueFull
from slipstream.models import starter
from slipstream.settings import cache_home
from slipstream.text.grammar import GrammarCompiler, read_vocabulary
from slipstream.text.tokenizer import Tokenizer

from .vocabularies import KINDS, NAMED, byte_level, tokenizer
from .walks import BYTES, END, compiled, compiler, takes, tokens

pytestmark = pytest.mark.anyio
YES = GrammarText("choice", '["yes"]', "guided_choice")
NO = GrammarText("choice", '["no"]', "guided_choice")


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Held(Tokenizer):
    """Lets nothing be compiled before `go`."""

    go: threading.Event

    def serialized(self) -> str:
        self.go.wait()
        return super().serialized()


@pytest.fixture
def held():
    made = Held(byte_level(), NAMED)
    made.go = threading.Event()
    yield made
    made.go.set()


@pytest.mark.parametrize("kind", ["byte_level", "sentencepiece", "metaspace"])
def test_every_token_is_known_by_its_exact_bytes(kind):
    made = tokenizer(kind)
    read = read_vocabulary(made, [made.eos_id], made.vocab_size)
    marks = [i for i in range(made.vocab_size) if made.token_bytes(i) == b"\xff"]
    for index in set(range(made.vocab_size)) - set(marks):
        assert read.decode_bytes([index]) == made.token_bytes(index)


@pytest.mark.skipif(not starter.present(cache_home()), reason="the starter model is not here")
def test_the_starters_vocabulary_is_exact_and_its_texts_are_tokenized_as_it_would():
    made = Tokenizer.load(starter.folder(cache_home()))
    read = read_vocabulary(made, [made.eos_id], made.vocab_size)
    assert read.vocab_size == made.vocab_size == 49152
    for text in ('{"name": "Zoë 🙂", "n": [1, 2]}', " two  words\n\n", "漢字"):
        ids = read.tokenize_str(text)
        assert ids == made.encode(text, add_special_tokens=False)
        assert read.decode_bytes(ids) == text.encode()


@pytest.mark.parametrize("kind", ["sentencepiece", "metaspace"])
@pytest.mark.parametrize("text", ["hello", " hello", "a hello", "é漢"])
def test_a_forced_text_comes_out_the_same_from_a_vocabulary_that_joins_spaces(kind, text):
    made = tokenizer(kind)
    matcher = compiled("choice", f'["{text}"]', made).matcher()
    written = b""
    while not matcher.stopped:
        (token,) = tokens(matcher.allowed())
        matcher.accept(token)
        written += made.token_bytes(token)
    assert written == text.encode()


async def test_a_vocabulary_that_cannot_be_read_refuses_grammars():
    words = Tokenizer(KINDS["word_level"](), NAMED)
    with pytest.raises(InvalidRequest, match="vocabulary") as refusal:
        await compiler(words).compile(YES)
    assert refusal.value.param == "guided_choice"


async def test_a_model_without_an_end_refuses_grammars():
    with pytest.raises(InvalidRequest, match="no token that ends"):
        await GrammarCompiler(BYTES, [], BYTES.vocab_size).compile(YES)


def test_threads_that_ask_for_one_grammar_share_one_compilation(held):
    shared = compiler(held)
    barrier = threading.Barrier(8)

    def ask(_):
        barrier.wait()
        return shared.start(YES)

    with ThreadPoolExecutor(8) as pool:
        futures = set(pool.map(ask, range(8)))
    held.go.set()
    assert len(futures) == 1 and takes(futures.pop().result(), "yes")


async def test_a_grammar_is_compiled_once_for_all_fields_that_ask_for_it():
    shared = compiler()
    first = await shared.compile(YES)
    assert await shared.compile(GrammarText(YES.kind, YES.text, "structured_outputs")) is first
    assert await shared.compile(NO) is not first


async def test_a_refusal_is_kept_and_names_the_field_of_each_who_asks():
    shared = compiler()
    for param in ("guided_regex", "structured_outputs"):
        with pytest.raises(InvalidRequest, match=param) as refusal:
            await shared.compile(GrammarText("regex", "(a", param))
        assert refusal.value.param == param


async def test_only_the_newest_grammars_are_kept():
    shared = compiler(kept=2)
    first = await shared.compile(YES)
    await shared.compile(NO)
    assert await shared.compile(YES) is first
    await shared.compile(GrammarText("regex", "a", "x"))  # NO is the one used longest ago
    assert await shared.compile(YES) is first


async def test_the_loop_lives_while_a_grammar_is_compiled(held):
    compiling = asyncio.create_task(compiler(held).compile(YES))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not compiling.done()
    held.go.set()
    assert takes(await compiling, "yes")


async def test_a_caller_that_leaves_does_not_take_the_compilation_along(held):
    shared = compiler(held)
    leaving, staying = (asyncio.create_task(shared.compile(YES)) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    held.go.set()
    assert takes(await staying, "yes")


async def test_more_grammars_than_may_wait_are_put_off(held):
    shared = compiler(held, most_waiting=1)
    waiting = asyncio.create_task(shared.compile(YES))
    await asyncio.sleep(0)
    with pytest.raises(QueueFull):
        await shared.compile(NO)
    held.go.set()
    await waiting
    assert takes(await shared.compile(NO), "no")


async def test_patience_has_an_end(held):
    with pytest.raises(InvalidRequest, match="longer than") as refusal:
        await compiler(held, patience=0.01).compile(YES)
    assert refusal.value.param == "guided_choice"


async def test_closing_lets_go_of_what_waits(held):
    shared = compiler(held)
    futures = [shared.start(GrammarText("regex", "a" * n, "x")) for n in range(1, 6)]
    shared.close()
    held.go.set()
    assert futures[-1].cancelled()
    assert takes(await asyncio.wrap_future(futures[0]), "a")


async def test_ids_beyond_the_tokenizers_are_never_allowed():
    grammar = await compiler(extra=100).compile(GrammarText("regex", "(?s).*", "x"))
    allowed = tokens(grammar.matcher().allowed())
    assert max(allowed) < BYTES.vocab_size and END in allowed
    assert len(grammar.matcher().allowed()) == (BYTES.vocab_size + 100 + 31) // 32 * 4
