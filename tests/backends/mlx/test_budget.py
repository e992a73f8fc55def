"""What MLX keeps of freed buffers stays within the reserve."""

from __future__ import annotations

from collections.abc import Iterator

import mlx.core as mx
import pytest

from slipstream.backends.mlx.budget import RESERVE, Budget, hold
from slipstream.backends.mlx.device import open_device

MB = 1 << 20


@pytest.fixture
def held() -> Iterator[Budget]:
    """A budget of 200 MB beside what lives, held."""
    mx.clear_cache()
    budget = Budget(total=mx.get_active_memory() + 200 * MB, weights=0, kv=0, prefix=0)
    before = mx.set_cache_limit(0)
    hold(open_device(), budget)
    yield budget
    mx.clear_cache()
    mx.set_cache_limit(before)


def of(megabytes: int) -> mx.array:
    array = mx.zeros(megabytes * MB, mx.uint8)
    mx.eval(array)
    return array


def test_freed_buffers_stay_within_the_reserve(held: Budget) -> None:
    for size in (5, 7, 11, 13, 17):
        of(size)
    assert 0 < mx.get_cache_memory() <= held.total * RESERVE
