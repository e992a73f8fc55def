"""What a row will hold is known before it holds it."""

from __future__ import annotations

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from parity import tiny
from slipstream.backends.mlx.footprint import footprint, leaves
from slipstream.backends.mlx.opening import OpenModel


def held(model: OpenModel, tokens: int) -> int:
    caches = model.new_caches()
    model.plain(mx.zeros((1, tokens), mx.int32), caches, [tokens - 1])
    arrays = [a for _, a in tree_flatten([c.state for c in leaves(caches)])]
    return sum(a.nbytes for a in arrays if isinstance(a, mx.array))


@pytest.mark.parametrize("tokens", [1, 5, 255, 256, 257, 300])
@pytest.mark.parametrize("kind", tiny.CONFIGS)
def test_the_projection_holds_and_is_near(kind: str, tokens: int) -> None:
    model = OpenModel(tiny.build(kind), tiny.VOCABULARY)
    foot = footprint(model)
    projected, real = foot.at(tokens, chunk=tokens), held(model, tokens)
    assert real <= projected
    slack = sum((most + tokens) * each for most, each in foot.windows)
    assert projected <= real + slack


@pytest.mark.parametrize("kind", tiny.CONFIGS)
def test_the_longest_row_fits_and_a_longer_one_does_not(kind: str) -> None:
    foot = footprint(OpenModel(tiny.build(kind), tiny.VOCABULARY))
    budget = 5_000_000
    longest = foot.longest(budget, chunk=64)
    if longest is None:
        assert foot.per_token == 0
        return
    assert foot.at(longest, chunk=64) <= budget < foot.at(longest + 1, chunk=64)
