"""The incremental detokenizer equals one decode of everything, wherever tokens cut a character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.text.detokenize import Detokenizer

from .vocabularies import KINDS, TEXTS, tokenizer

kinds = pytest.mark.parametrize("kind", KINDS)


def pieces(made, ids, **options):
    detokenizer = Detokenizer(made, **options)
    return [*map(detokenizer.push, ids), detokenizer.flush()]


@kinds
@given(text=st.text() | st.text("helo wrd日🙂é\n"))
def test_the_pieces_add_up_to_one_decode(kind, text):
    made = tokenizer(kind)
    ids = made.encode(text)
    assert "".join(pieces(made, ids)) == made.decode(ids, skip_special_tokens=True)


@kinds
@pytest.mark.parametrize("text", TEXTS)
def test_the_pieces_add_up_to_the_librarys_decode(kind, text):
    ids = tokenizer(kind).encode(text)
    assert "".join(pieces(tokenizer(kind), ids)) == KINDS[kind]().decode(ids)


@given(text=st.text(), cut=st.integers(0, 400))
def test_a_cut_answer_is_a_prefix_of_the_whole(text, cut):
    for kind in ("byte_level", "sentencepiece"):
        made = tokenizer(kind)
        ids = made.encode(text)
        whole = made.decode(ids, skip_special_tokens=True)
        assert whole.startswith("".join(pieces(made, ids[:cut])))


@given(st.text("日本🙂👩‍👧é a"))
def test_no_piece_shows_half_a_character(text):
    for kind in ("byte_level", "sentencepiece"):
        made = tokenizer(kind)
        assert "\ufffd" not in "".join(pieces(made, made.encode(text)))


def test_bytes_that_never_become_a_character_are_shown_at_once():
    made = tokenizer("sentencepiece")
    lone = made.id_of("<0xE6>")
    hello = made.id_of("▁hello")
    assert pieces(made, [lone, hello], continues=True) == ["", "\ufffd hello", ""]


def test_special_tokens_are_silent_unless_kept():
    made = tokenizer("byte_level")
    ids = made.encode("a<s>b<|im_end|>")
    kept = made.id_of("<|im_end|>")
    assert "".join(pieces(made, ids)) == "ab"
    assert "".join(pieces(made, ids, keep=[kept])) == "ab<|im_end|>"


def test_a_special_token_inside_a_character_does_not_break_it():
    made = tokenizer("sentencepiece")
    first, *rest = (made.id_of(f"<0x{byte:02X}>") for byte in "日".encode())
    assert "".join(pieces(made, [first, made.bos_id, *rest])) == "日"


def test_a_text_that_goes_on_keeps_the_space_of_its_first_word():
    made = tokenizer("sentencepiece")
    hello = made.id_of("▁hello")
    assert pieces(made, [hello], continues=True) == [" hello", ""]
    assert pieces(made, [hello]) == ["hello", ""]
