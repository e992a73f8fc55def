"""Attention with the softmax on the host is MLX's own attention."""

from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models.base import create_causal_mask

from slipstream.backends.mlx import attention

SCALE = 0.3


def arrays(
    queries: int, tokens: int, heads: int = 6, groups: int = 2, dtype: mx.Dtype = mx.float32
) -> tuple[mx.array, ...]:
    keys = mx.random.split(mx.random.key(queries * 1000 + tokens), 3)
    shapes = ((heads, queries, 16), (groups, tokens, 16), (groups, tokens, 24))
    return tuple(
        mx.random.normal((1, *shape), key=key).astype(dtype)
        for shape, key in zip(shapes, keys, strict=True)
    )


def twin(q: mx.array, k: mx.array, v: mx.array, mask: Any, sinks: Any = None) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=SCALE, mask=mask, sinks=sinks)


def found(q: mx.array, k: mx.array, v: mx.array, mask: Any, sinks: Any = None) -> mx.array:
    return attention.attend(q, k, v, scale=SCALE, mask=mask, sinks=sinks)


@settings(deadline=None, max_examples=40)
@given(
    queries=st.sampled_from([1, 2, 7, 64]),
    before=st.sampled_from([0, 1, 100]),
    block=st.sampled_from([1, 700, 1 << 20]),
    masked=st.sampled_from([None, "causal", "boolean", "added", "window"]),
    sinks=st.booleans(),
)
def test_it_is_what_mlx_makes(
    queries: int, before: int, block: int, masked: str | None, sinks: bool
) -> None:
    q, k, v = arrays(queries, before + queries)
    mask: Any = masked
    if masked in ("boolean", "added"):
        mask = create_causal_mask(queries, before)
    if masked == "added":
        mask = mx.where(mask, 0.5, mx.finfo(mx.float32).min)[None, None]
    if masked == "window":
        mask = create_causal_mask(queries, before, window_size=5)
    sunk = mx.random.normal((6,), key=mx.random.key(7)) if sinks else None
    before_block, attention.BLOCK = attention.BLOCK, block
    try:
        made = found(q, k, v, mask, sunk)
    finally:
        attention.BLOCK = before_block
    assert mx.allclose(made, twin(q, k, v, mask, sunk), atol=2e-6)


@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16])
def test_half_the_bits_come_and_go(dtype: mx.Dtype) -> None:
    q, k, v = arrays(9, 40, dtype=dtype)
    made = found(q, k, v, "causal")
    assert made.dtype == dtype
    assert mx.allclose(made, twin(q, k, v, "causal"), atol=2e-2)


def test_scores_that_would_run_over_do_not() -> None:
    q, k, v = arrays(5, 9)
    made = found(q * 1e4, k * 10, v, "causal")
    assert mx.allclose(made, twin(q * 1e4, k * 10, v, "causal"), atol=1e-5)


def test_what_it_is_given_stays_as_it_was() -> None:
    q, k, v = arrays(8, 12)
    mask = create_causal_mask(8, 4)
    copies = [mx.array(a) for a in (q, k, v, mask)]
    mx.eval(found(q, k, v, mask))
    assert all(mx.array_equal(a, b) for a, b in zip((q, k, v, mask), copies, strict=True))


@pytest.mark.parametrize(
    ("queries", "tokens", "asked"), [(1, 9000, False), (2, 9, False), (40, 40, True)]
)
def test_few_scores_are_left_to_mlx(queries: int, tokens: int, asked: bool) -> None:
    q, k, _ = arrays(queries, tokens)
    assert attention.worth(q, k, "causal") is asked


@pytest.mark.parametrize(("heads", "asked"), [(1, True), (6, False)])
def test_heads_with_masks_of_their_own_are_left_to_mlx(heads: int, asked: bool) -> None:
    q, k, _ = arrays(64, 64)
    assert attention.worth(q, k, mx.zeros((1, heads, 64, 64))) is asked
