"""Attention over parts, block by block, is attention over what they say."""

from __future__ import annotations

import mlx.core as mx
import pytest

from slipstream.backends.mlx.kv import attention
from slipstream.backends.mlx.kv.affine import AffineCodec
from slipstream.backends.mlx.kv.attention import attend
from slipstream.backends.mlx.kv.cache import Coding
from slipstream.backends.mlx.kv.codec import Codec, Whole
from slipstream.backends.mlx.kv.turbo import TurboCodec

SIZE, SCALE = 64, 0.2


def affine(bits: int) -> Codec:
    return AffineCodec(SIZE, bits, 32, mx.float32, 4)


PAIRS: dict[str, tuple[Codec, Codec]] = {
    "affine:8": (affine(8), affine(8)),
    "affine:4": (affine(4), affine(4)),
    "whole values": (affine(4), Whole(SIZE, mx.float32)),
    "turbo": (TurboCodec(SIZE, 4), TurboCodec(SIZE, 3)),
}
LENGTHS = (1, 5, attention.BLOCK - 1, attention.BLOCK, attention.BLOCK + 1, 2500)


def drawn(seed: int, *shape: int) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed))


def both(
    name: str, heads: int, queries: int, tokens: int, mask: object, sinks: mx.array | None
) -> tuple[mx.array, mx.array]:
    coding = Coding.of(*PAIRS[name], 2, mx.float32)
    keys, values = coding.sides(
        coding.encode(drawn(1, 1, 2, tokens, SIZE), drawn(2, 1, 2, tokens, SIZE))
    )
    q = drawn(3, 1, heads, queries, SIZE)
    mine = attend(q, keys, values, coding, scale=SCALE, mask=mask, sinks=sinks)
    k, v = coding.decode((*keys, *values))
    plain = mx.fast.scaled_dot_product_attention(q, k, v, scale=SCALE, mask=mask, sinks=sinks)
    return mine, plain


def near(pair: tuple[mx.array, mx.array]) -> bool:
    return bool(mx.allclose(*pair, rtol=1e-3, atol=1e-4).item())


@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("name", PAIRS)
def test_one_query(name, sinks, tokens):
    sink = drawn(4, 6) if sinks else None
    assert near(both(name, 6, 1, tokens, None, sink))


@pytest.mark.parametrize("queries", [2, 7, 300])
@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("name", PAIRS)
def test_many_queries_that_see_only_what_came_before(name, sinks, queries):
    sink = drawn(4, 6) if sinks else None
    for tokens in (queries, queries + 1, 1500):
        assert near(both(name, 6, queries, tokens, "causal", sink))


@pytest.mark.parametrize("name", PAIRS)
def test_masks_of_windows_and_of_padding(name):
    tokens, queries = 1500, 40
    place = mx.arange(tokens - queries, tokens)[:, None]
    column = mx.arange(tokens)[None]
    window = (column <= place) & (column > place - 30)
    assert near(both(name, 6, queries, tokens, window, drawn(4, 6)))
    padded = mx.broadcast_to((column >= 1400)[None, None], (1, 1, 1, tokens))
    assert near(both(name, 6, 1, tokens, padded, None))
    assert near(both(name, 6, 1, tokens, (column >= 1400)[0], None))
    added = mx.where(window, 0.0, mx.finfo(mx.float32).min)
    assert near(both(name, 6, queries, tokens, added, None))


def test_large_scores_do_not_overflow():
    coding = Coding.of(*PAIRS["affine:8"], 1, mx.float32)
    parts = coding.encode(300 * drawn(1, 1, 1, 3000, SIZE), drawn(2, 1, 1, 3000, SIZE))
    keys, values = coding.sides(parts)
    out = attend(300 * drawn(3, 1, 1, 1, SIZE), keys, values, coding, scale=1.0)
    assert mx.all(mx.isfinite(out)).item()


def test_what_is_half_as_wide_stays_so():
    codec = AffineCodec(SIZE, 8, 32, mx.bfloat16, 4)
    coding = Coding.of(codec, codec, 2, mx.bfloat16)
    x = drawn(1, 1, 2, 50, SIZE).astype(mx.bfloat16)
    keys, values = coding.sides(coding.encode(x, x))
    out = attend(drawn(3, 1, 4, 1, SIZE).astype(mx.bfloat16), keys, values, coding, scale=SCALE)
    assert out.dtype == mx.bfloat16
