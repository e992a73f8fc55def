"""The codebooks fit the distribution, and numbers get the codes of their nearest levels."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from slipstream.backends.mlx.kv.turbo_codebook import codebook
from slipstream.backends.mlx.kv.turbo_quantiser import Quantiser

from . import turbo_reference as reference

BITS = (1, 2, 3, 4, 7, 8)


def distortion(size: int, levels: reference.Floats) -> float:
    """Of unit vectors, by integration over one coordinate."""
    x, share = reference.coordinate(size)
    return float(size * np.sum(share * (x - levels[reference.nearest(levels, x)]) ** 2))


@pytest.mark.parametrize("size", [8, 64, 128])
@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_each_level_is_the_mean_of_what_is_nearest_to_it(size: int, bits: int) -> None:
    """Lloyd and Max's condition; for these densities only the best levels meet it."""
    levels = codebook(size, bits).levels
    x, share = reference.coordinate(size)
    codes = reference.nearest(levels, x)
    means = np.bincount(codes, share * x) / np.bincount(codes, share)
    assert means == pytest.approx(levels, abs=2e-5)


@pytest.mark.parametrize("size", [64, 128, 512])
@pytest.mark.parametrize("bits", BITS)
def test_the_error_is_within_the_papers_bound(size: int, bits: int) -> None:
    found = distortion(size, codebook(size, bits).levels)
    assert found <= reference.mse_bound(bits)
    if bits in reference.MSE_TABLE:
        assert found == pytest.approx(reference.MSE_TABLE[bits], rel=0.15)


@pytest.mark.parametrize("size", [8, 64, 1024])
@pytest.mark.parametrize("bits", BITS)
def test_levels_ascend_inside_the_sphere_and_mirror_each_other(size: int, bits: int) -> None:
    levels = codebook(size, bits).levels
    assert np.all(np.diff(levels) > 0)
    assert np.all(levels == -levels[::-1])
    assert levels[-1] < 1


@pytest.mark.parametrize("size", [8, 64, 1024])
@pytest.mark.parametrize("bits", BITS)
def test_the_grid_finds_the_code_that_counting_finds(size: int, bits: int) -> None:
    quantiser = Quantiser(codebook(size, bits))
    bounds = codebook(size, bits).bounds.astype(np.float32)
    drawn = np.random.default_rng(0).normal(0, size**-0.5, 10_000).astype(np.float32)
    beside = [bounds, np.nextafter(bounds, np.float32(2)), np.nextafter(bounds, np.float32(-2))]
    x = np.concatenate([drawn, *beside, np.array([-np.inf, -1, 0, 1, np.inf], np.float32)])
    assert quantiser.looked_up(mx.array(x)).tolist() == quantiser.counted(mx.array(x)).tolist()
    assert quantiser.codes(mx.array(x)).tolist() == np.searchsorted(bounds, x).tolist()


def test_what_is_not_a_number_gets_some_code() -> None:
    quantiser = Quantiser(codebook(64, 7))
    assert quantiser.codes(mx.array([float("nan")])).item() < 128
