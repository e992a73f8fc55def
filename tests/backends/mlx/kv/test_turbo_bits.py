"""Codes go into bytes without a gap, and come back."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.backends.mlx.kv.turbo_bits import MULTIPLE, WIDTHS, Packing
from slipstream.backends.mlx.kv.turbo_lookup import Table

from . import turbo_reference as reference


@st.composite
def vectors_of_codes(draw: st.DrawFn) -> tuple[int, list[list[int]]]:
    bits = draw(st.sampled_from(WIDTHS))
    size = MULTIPLE * draw(st.integers(1, 20))
    codes = st.lists(st.integers(0, 2**bits - 1), min_size=size, max_size=size)
    return bits, draw(st.lists(codes, min_size=1, max_size=3))


@given(vectors_of_codes())
def test_codes_come_back(drawn: tuple[int, list[list[int]]]) -> None:
    bits, codes = drawn
    packed = np.array(Packing(bits).pack(mx.array(codes, mx.uint8)))
    assert reference.unpacked(packed, bits).tolist() == codes


@given(vectors_of_codes())
def test_no_bit_is_wasted(drawn: tuple[int, list[list[int]]]) -> None:
    bits, codes = drawn
    packed = Packing(bits).pack(mx.array(codes, mx.uint8))
    assert packed.dtype == mx.uint8
    assert packed.shape[-1] * 8 == len(codes[0]) * bits == Packing(bits).bytes(len(codes[0])) * 8


@pytest.mark.parametrize("bits", WIDTHS)
def test_a_table_of_symbols_says_what_a_table_of_codes_says(bits: int) -> None:
    packing = Packing(bits)
    rng = np.random.default_rng(0)
    meanings = rng.normal(size=2**bits)
    codes = rng.integers(0, 2**bits, (5, 48))
    symbols = packing.symbols(packing.pack(mx.array(codes.astype(np.uint8))))
    found = np.array(packing.table(meanings)(symbols))
    assert np.array_equal(found, meanings[codes].astype(np.float32))


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
def test_a_table_finds_rows_by_their_places(width: int, kind: type[np.unsignedinteger]) -> None:
    rng = np.random.default_rng(0)
    rows, places = rng.normal(size=(200, width)), rng.integers(0, 200, (3, 2, 7))
    found = np.array(Table(rows)(mx.array(places.astype(kind))[:, :, 1:6]))
    assert np.array_equal(found, rows.astype(np.float32)[places[:, :, 1:6]].reshape(3, 2, -1))
