"""The tokenizer: ids, bytes and text of every kind of vocabulary."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.contracts.errors import InvalidRequest, ModelError
from slipstream.text.pieces import byte_alphabet
from slipstream.text.tokenizer import Tokenizer

from .vocabularies import KINDS, NAMED, TEXTS, byte_level, sentencepiece, tokenizer, write_folder

kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
@pytest.mark.parametrize("text", TEXTS)
def test_ids_are_those_of_the_library(kind, text):
    assert tokenizer(kind).encode(text) == KINDS[kind]().encode(text).ids


@kinds
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("skip", [True, False])
def test_text_is_that_of_the_library(kind, text, skip):
    ids = tokenizer(kind).encode(text)
    expected = KINDS[kind]().decode(ids, skip_special_tokens=skip)
    assert tokenizer(kind).decode(ids, skip_special_tokens=skip) == expected


@given(st.text())
def test_byte_level_text_survives_the_round_trip(text):
    made = tokenizer("byte_level")
    assert made.decode(made.encode(text)) == text


@given(st.binary(max_size=12))
def test_bytes_that_are_no_text_decode_as_in_the_library(raw):
    back = {byte: char for char, byte in byte_alphabet().items()}
    made = tokenizer("byte_level")
    ids = [made.id_of(back[byte]) for byte in raw]
    assert made.decode(ids) == byte_level().decode(ids)


def test_the_alphabet_stands_for_every_byte_once():
    assert sorted(byte_alphabet().values()) == list(range(256))


@kinds
def test_the_bytes_of_tokens_are_the_bytes_of_the_text(kind):
    made = tokenizer(kind)
    for text in TEXTS:
        ids = made.encode(text)
        raw = b"".join(made.token_bytes(token, n == 0) for n, token in enumerate(ids))
        assert raw.decode() == made.decode(ids)


def test_a_byte_token_is_its_byte():
    made = tokenizer("sentencepiece")
    assert made.token_bytes(made.id_of("<0xE6>")) == b"\xe6"
    assert made.token_bytes(made.id_of("<0x0A>")) == b"\n"


def test_a_word_brings_its_space_unless_it_comes_first():
    made = tokenizer("sentencepiece")
    hello = made.id_of("▁hello")
    assert made.token_bytes(hello) == b" hello"
    assert made.token_bytes(hello, first=True) == b"hello"


def test_an_added_token_is_its_own_text():
    made = tokenizer("byte_level")
    assert made.token_bytes(made.id_of("<tool call>")) == b"<tool call>"


def test_an_added_token_written_in_the_alphabet_of_bytes_is_still_text():
    backend = byte_level()
    backend.add_tokens(["né"])
    made = Tokenizer(backend)
    assert made.decode(made.encode("né")) == "né"


def test_an_unknown_id_adds_nothing():
    made = tokenizer("byte_level")
    assert made.token_bytes(10**6) == b""
    assert made.token_bytes(-1) == b""


def test_special_tokens_are_known_by_id():
    made = tokenizer("byte_level")
    assert made.special_ids == {made.id_of(t) for t in ("<s>", "</s>", "<|im_end|>")}
    assert (made.bos_id, made.eos_id) == (0, 1)


def test_ids_end_below_the_vocabulary_size():
    made = tokenizer("byte_level")
    assert made.vocab_size == byte_level().get_vocab_size()


def test_half_a_surrogate_pair_is_refused():
    with pytest.raises(InvalidRequest, match="surrogate"):
        tokenizer("byte_level").encode("\ud800")


def test_a_folder_without_a_tokenizer_is_named(tmp_path):
    with pytest.raises(ModelError, match=r"no tokenizer\.json"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_broken_file_is_named(tmp_path, name):
    write_folder(tmp_path, byte_level())
    (tmp_path / name).write_text('{"broken', "utf-8")
    with pytest.raises(ModelError, match=name):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    "config", [{"bos_token": {"text": "<s>"}}, {"added_tokens_decoder": {"x": {}}}]
)
def test_a_config_that_makes_no_sense_is_a_model_error(config):
    with pytest.raises(ModelError, match="tokenizer_config"):
        Tokenizer(byte_level(), config)


def test_truncation_and_padding_of_the_file_do_not_count():
    backend = byte_level()
    backend.enable_truncation(3)
    backend.enable_padding(length=50)
    text = "the quick brown fox jumps"
    assert Tokenizer(backend, NAMED).encode(text) == tokenizer("byte_level").encode(text)


def test_threads_do_not_get_in_each_others_way():
    made = Tokenizer(sentencepiece(), NAMED)
    expected = [made.encode(text) for text in TEXTS]
    seen = []

    def work():
        for _ in range(50):
            seen.append([made.encode(text) for text in TEXTS] == expected)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(seen) and len(seen) == 200


@pytest.mark.parametrize("text", ["a" * 500_000, "hello wörld 日本語 " * 25_000, " " * 500_000])
@pytest.mark.timeout(20)
def test_half_a_megabyte_is_encoded_in_seconds(text):
    made = tokenizer("byte_level")
    assert made.decode(made.encode(text)) == text
