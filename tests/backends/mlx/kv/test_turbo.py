"""TurboQuant on the device equals its plain reference, and keeps what the paper promises."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.backends.mlx.kv.codec import Codec, Parts
from slipstream.backends.mlx.kv.turbo import TurboCodec
from slipstream.backends.mlx.kv.turbo_bits import WIDTHS
from slipstream.backends.mlx.kv.turbo_codebook import codebook
from slipstream.backends.mlx.kv.turbo_rotation import Rotation

from . import turbo_reference as reference

TIE = 2e-6  # numbers of unit vectors this near to a bound may take either code
Through = Callable[[reference.Floats], reference.Floats]
LIMITS = settings(deadline=None, max_examples=20)


def drawn(*shape: int, seed: int = 0) -> reference.Floats:
    return np.random.default_rng(seed).normal(size=shape)


def units(*shape: int, seed: int = 0) -> reference.Floats:
    x = drawn(*shape, seed=seed)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def put(x: reference.Floats, dtype: mx.Dtype = mx.float32) -> mx.array:
    """(n, size) as one head's vectors."""
    return mx.array(x.astype(np.float32)).astype(dtype)[None, None]


def seen(x: mx.array) -> reference.Floats:
    return np.array(x[0, 0].astype(mx.float32)).astype(np.float64)


def squared(left: reference.Floats) -> float:
    return float(np.sum(left**2, axis=-1).mean())


def through(codec: Codec, x: reference.Floats) -> reference.Floats:
    return seen(codec.decode(codec.encode(put(x)), mx.float32))


@pytest.mark.parametrize("size", [8, 64, 128])
@pytest.mark.parametrize("bits", WIDTHS)
def test_codes_and_scales_are_those_of_the_reference(size: int, bits: int) -> None:
    turn, levels = reference.rotation(size), codebook(size, bits).levels
    x = drawn(60, size)
    codec = TurboCodec(size, bits)
    parts = codec.encode(put(x))
    codes = reference.unpacked(np.array(parts[0])[0, 0], bits)
    twins = [reference.encode(vector, turn, levels) for vector in x]
    clear = [place for place, twin in enumerate(twins) if twin.margin > TIE]
    assert len(clear) > 20
    assert codes[clear].tolist() == [twins[place].codes.tolist() for place in clear]
    scales = [twins[place].scale for place in clear]
    assert seen(parts[1])[clear, 0] == pytest.approx(scales, rel=1e-5)
    plain = np.array([reference.decode(twins[place], turn, levels) for place in clear])
    assert seen(codec.decode(parts, mx.float32))[clear] == pytest.approx(plain, abs=1e-5)


@pytest.mark.parametrize("codec", [TurboCodec(64, 8), TurboCodec(80, 3)])
@given(cuts=st.lists(st.integers(1, 39), max_size=5), seed=st.integers(0, 99))
@LIMITS
def test_any_chunks_give_the_same_bytes(codec: Codec, cuts: list[int], seed: int) -> None:
    x = mx.array(drawn(1, 2, 40, codec.size, seed=seed)).astype(mx.bfloat16)
    edges = [0, *sorted(set(cuts)), 40]
    chunks = [codec.encode(x[:, :, a:b]) for a, b in pairwise(edges)]
    for whole, *pieces in zip(codec.encode(x), *chunks, strict=True):
        assert mx.array_equal(whole, mx.concatenate(pieces, axis=2))


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("size", [8, 80, 128])
def test_products_with_the_parts_are_products_with_what_they_decode_to(
    bits: int, size: int
) -> None:
    codec = TurboCodec(size, bits)
    parts = codec.encode(mx.array(drawn(1, 2, 33, size)))
    q = mx.array(drawn(1, 6, 4, size, seed=1)).astype(mx.float32)
    weights = mx.softmax(mx.array(drawn(1, 6, 4, 33, seed=2)).astype(mx.float32), axis=-1)
    plain = mx.repeat(codec.decode(parts, mx.float32), 3, axis=1)
    scores = codec.scores(codec.query(q), parts)
    assert mx.allclose(scores, q @ plain.swapaxes(-1, -2), rtol=1e-4, atol=1e-4)
    mixed = codec.finish(codec.mix(weights, parts))
    assert mx.allclose(mixed, weights @ plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bits", WIDTHS)
def test_the_bytes_are_those_that_it_says(bits: int) -> None:
    codec = TurboCodec(80, bits)
    parts = codec.encode(put(drawn(7, 80)))
    assert sum(part.nbytes for part in parts) == 7 * codec.bytes_per_vector
    assert codec.bytes_per_vector == 80 * bits // 8 + 4


@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("bits", WIDTHS)
def test_the_error_is_within_the_papers_bound(size: int, bits: int) -> None:
    x = units(2000, size)
    assert squared(through(TurboCodec(size, bits), x) - x) <= reference.mse_bound(bits)


@pytest.mark.parametrize("bits", [2, 3, 8])
def test_vectors_of_one_large_number_are_within_the_bound_too(bits: int) -> None:
    x = np.eye(128) + 0.02 * drawn(128, 128)
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    assert squared(through(TurboCodec(128, bits), x) - x) <= reference.mse_bound(bits)


@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("bits", WIDTHS)
def test_the_error_of_products_is_a_quarter_of_the_papers(size: int, bits: int) -> None:
    """At equal bits, and so far below the bound."""
    x, queries = units(2000, size), units(200, size, seed=1)
    turn = np.array(Rotation(size).matrix)
    papers = reference.paper_product(x, turn, drawn(size, size), codebook(size, bits - 1).levels)
    ours, theirs = (
        np.mean(((y - x) @ queries.T) ** 2) for y in (through(TurboCodec(size, bits), x), papers)
    )
    assert ours < theirs / 4
    assert ours < reference.product_bound(size, bits) / 4


@pytest.mark.parametrize("bits", WIDTHS)
def test_the_product_of_a_vector_with_itself_is_exact(bits: int) -> None:
    x = drawn(200, 64)
    lengths = np.sum(x * x, axis=-1)
    assert np.sum(through(TurboCodec(64, bits), x) * x, axis=-1) == pytest.approx(lengths, rel=1e-5)


def under_rotations(decoded: Through, size: int, times: int = 400) -> tuple[float, float]:
    """The mean and its standard error of estimates of one product, 0.6, each turned anew."""
    x, other = np.eye(size)[0], np.eye(size)[1]
    turns = np.linalg.qr(drawn(times, size, size))[0]
    found = np.einsum("td,td->t", decoded(x @ turns), (0.6 * x + 0.8 * other) @ turns)
    return found.mean(), found.std() / np.sqrt(times)


@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("bits", WIDTHS)
def test_products_are_right_on_average_over_rotations(size: int, bits: int) -> None:
    mean, error = under_rotations(partial(through, TurboCodec(size, bits)), size)
    assert abs(mean - 0.6) < 4 * error


def test_without_the_scale_products_would_be_too_small() -> None:
    """Two bits shrink them by an eighth."""
    levels = codebook(64, 2).levels
    mean, error = under_rotations(lambda x: reference.paper_mse(x, np.eye(64), levels), 64)
    assert 0.6 - mean > 20 * error
    assert mean == pytest.approx(0.6 * (1 - 0.1145), rel=0.02)


@pytest.mark.parametrize("bits", WIDTHS)
def test_products_are_right_on_average_over_vectors(bits: int) -> None:
    x, noise = units(4000, 64), units(4000, 64, seed=1)
    decoded = through(TurboCodec(64, bits), x)
    errors = np.sum((decoded - x) * (x + noise), axis=-1)
    assert abs(errors.mean()) < 4 * errors.std() / np.sqrt(len(errors))


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("length", [0.0, 1e-38, 1e-20, 1e20, 1e37])
def test_vectors_of_any_length_stay_numbers(bits: int, length: float) -> None:
    codec = TurboCodec(64, bits)
    x = units(5, 64)
    parts = codec.encode(put(x * length))
    found = through(codec, x * length)
    weights = mx.full((1, 1, 1, 5), 0.2)
    scores = codec.scores(codec.query(put(units(1, 64))), parts)
    for numbers in (found, seen(scores), seen(codec.finish(codec.mix(weights, parts)))):
        assert np.all(np.isfinite(numbers))
    if length >= 1e-20:
        error = np.sum((found / length - x) ** 2, axis=-1).mean()
        assert error < 0.6


def test_zeros_stay_zeros() -> None:
    assert not np.any(through(TurboCodec(64, 3), np.zeros((2, 64))))


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_half_precision_is_encoded_as_what_it_says(dtype: mx.Dtype) -> None:
    codec = TurboCodec(64, 4)
    halves = put(drawn(5, 64), dtype)
    wide: Parts = codec.encode(halves.astype(mx.float32))
    assert all(map(mx.array_equal, codec.encode(halves), wide))
    assert codec.decode(wide, dtype).dtype == dtype
    assert codec.query(halves).dtype == mx.float32
