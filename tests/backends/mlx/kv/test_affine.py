"""Affine codes: what they take, what they say, and that a vector's neighbours do not matter."""

from __future__ import annotations

from itertools import pairwise

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.backends.mlx.kv.affine import AffineCodec

KINDS = [(64, 8, 64), (64, 4, 64), (96, 8, 32), (256, 4, 128), (32, 4, 32)]


def vectors(count: int, size: int, heads: int = 2, dtype: mx.Dtype = mx.float32) -> mx.array:
    mx.random.seed(count * size)
    return (3 * mx.random.normal((1, heads, count, size))).astype(dtype)


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.float16])
@pytest.mark.parametrize(("size", "bits", "group"), KINDS)
def test_parts_take_the_bytes_that_are_said(size, bits, group, dtype):
    codec = AffineCodec(size, bits, group, dtype, 4)
    parts = codec.encode(vectors(5, size, dtype=dtype))
    assert sum(part.nbytes for part in parts) == 5 * 2 * codec.bytes_per_vector
    assert codec.decode(parts, dtype).dtype == dtype


@pytest.mark.parametrize(("size", "bits", "group"), KINDS)
def test_no_number_is_off_by_more_than_half_a_step(size, bits, group):
    codec = AffineCodec(size, bits, group, mx.float32, 4)
    x = vectors(7, size)
    groups = x.reshape(*x.shape[:-1], -1, group)
    step = (groups.max(axis=-1) - groups.min(axis=-1)) / (2**bits - 1)
    error = mx.abs(codec.decode(codec.encode(x), mx.float32) - x).reshape(groups.shape).max(axis=-1)
    # MLX bends the offset a little so that zero is met; that shifts the ends by under a step.
    assert mx.all(error <= 1.01 * step).item()


@settings(max_examples=20, deadline=None)
@given(cuts=st.sets(st.integers(1, 29)), kind=st.sampled_from(KINDS))
def test_chunks_of_any_size_give_the_same_bytes(cuts, kind):
    size, bits, group = kind
    codec = AffineCodec(size, bits, group, mx.float32, 4)
    x = vectors(30, size)
    whole = codec.encode(x)
    edges = [0, *sorted(cuts), 30]
    pieces = [codec.encode(x[:, :, a:b]) for a, b in pairwise(edges)]
    for part, cut in zip(whole, zip(*pieces, strict=True), strict=True):
        assert mx.array_equal(part, mx.concatenate(list(cut), axis=2))


@pytest.mark.parametrize("direct", [0, 100])
@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize(("size", "bits", "group"), KINDS)
def test_products_are_those_of_what_is_decoded(size, bits, group, queries, direct):
    codec = AffineCodec(size, bits, group, mx.float32, direct)
    parts = codec.encode(vectors(33, size))
    told = mx.repeat(codec.decode(parts, mx.float32), 3, axis=1)
    q, weights = vectors(queries, size, heads=6), vectors(queries, 33, heads=6)
    scores = codec.scores(codec.query(q), parts)
    mixed = codec.finish(codec.mix(weights, parts))
    assert mx.allclose(scores, q @ told.swapaxes(-1, -2), rtol=1e-4, atol=1e-2).item()
    assert mx.allclose(mixed, weights @ told, rtol=1e-4, atol=1e-2).item()
