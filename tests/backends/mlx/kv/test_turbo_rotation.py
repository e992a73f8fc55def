"""The rotation keeps lengths, and treats a vector alike alone and in company."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from slipstream.backends.mlx.kv.turbo_rotation import SIZES, Rotation
from slipstream.contracts.errors import ModelError

from . import turbo_reference as reference


@pytest.mark.parametrize("size", SIZES)
def test_the_matrix_is_orthogonal(size: int) -> None:
    matrix = np.array(Rotation(size).matrix)
    assert np.allclose(matrix @ matrix.T, np.eye(size), atol=1e-5)


@pytest.mark.parametrize("size", [8, 64, 128])
def test_it_is_signs_and_sylvesters_matrix_in_turns(size: int) -> None:
    expected = reference.rotation(size)
    assert np.allclose(np.array(Rotation(size).matrix), expected, atol=1e-6)


@pytest.mark.parametrize("size", [64, 80, 112, 192])
def test_a_vector_alone_is_turned_to_the_same_bits(size: int) -> None:
    turn = Rotation(size)
    x = mx.array(np.random.default_rng(0).normal(size=(1, 3, 21, size)).astype(np.float32))
    together = np.array(turn(x))
    alone = [np.array(turn(x[:, :, place : place + 1])) for place in range(21)]
    assert np.array_equal(np.concatenate(alone, axis=2), together)


@pytest.mark.parametrize(("size", "instead"), [(72, "bf16"), (288, "affine:8:32")])
def test_another_size_is_refused_with_what_works(size: int, instead: str) -> None:
    with pytest.raises(ModelError, match=rf"64.*keeps some of {size}.*--kv-scheme {instead}"):
        Rotation(size)
