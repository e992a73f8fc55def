"""TurboQuant on keys and values of the starter model. `pytest -m slow -s` prints the figures."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from slipstream.backends.mlx.kv.codec import Codec
from slipstream.backends.mlx.kv.turbo import TurboCodec
from slipstream.backends.mlx.kv.turbo_bits import WIDTHS
from slipstream.models import starter
from slipstream.settings import cache_home

from . import turbo_reference as reference

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not starter.present(cache_home()), reason="the starter model is not here"),
]
# In a process of its own, as the matrix library must be loaded before mlx is.
READS_A_PAGE = """
import pydoc_data.topics, pathlib, sys
from slipstream.backends.mlx.device import load_blas, open_device
load_blas()
import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache
from slipstream.backends.mlx.load import load_model
from slipstream.text.tokenizer import Tokenizer

folder = pathlib.Path(sys.argv[1])
model = load_model(folder, open_device())
ids = Tokenizer.load(folder).encode(pydoc_data.topics.topics["assignment"])[:1000]
caches = make_prompt_cache(model)
model(mx.array([ids]), cache=caches)
keys, values = zip(*(cache.keys_and_values() for cache in caches))
mx.savez(sys.argv[2], keys=mx.stack(keys), values=mx.stack(values))
"""
Layers = list[reference.Floats]


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> tuple[Layers, Layers]:
    """Unit vectors (n, size) of each layer: of the keys and of the values of a page of English."""
    file = tmp_path_factory.mktemp("held") / "held.npz"
    command = [sys.executable, "-c", READS_A_PAGE, str(starter.folder(cache_home())), str(file)]
    subprocess.run(command, check=True)
    with np.load(file) as arrays:
        return tuple(list(map(unit, arrays[side])) for side in ("keys", "values"))


def unit(x: reference.Floats) -> reference.Floats:
    flat = x.reshape(-1, x.shape[-1]).astype(np.float64)
    return flat / np.linalg.norm(flat, axis=-1, keepdims=True)


def mse(codec: Codec, x: reference.Floats) -> float:
    return float(np.mean(np.sum((_through(codec, x) - x) ** 2, axis=-1)))


def product_error(codec: Codec, x: reference.Floats) -> float:
    queries = np.random.default_rng(1).normal(size=(64, x.shape[-1]))
    queries /= np.linalg.norm(queries, axis=-1, keepdims=True)
    return float(np.mean(((_through(codec, x) - x) @ queries.T) ** 2))


def _through(codec: Codec, x: reference.Floats) -> reference.Floats:
    decoded = codec.decode(codec.encode(mx.array(x.astype(np.float32))[None, None]), mx.float32)
    return np.array(decoded[0, 0]).astype(np.float64)


def show(what: str, bits: int, bound: float, found: list[float]) -> None:
    mean, worst = np.mean(found), np.max(found)
    print(f"{what:8} {bits} bits: bound {bound:.3g}, mean {mean:.3g}, worst layer {worst:.3g}")


@pytest.mark.parametrize("bits", WIDTHS)
def test_values_and_keys_are_within_the_bounds(held: tuple[Layers, Layers], bits: int) -> None:
    keys, values = held
    size = keys[0].shape[-1]
    codec = TurboCodec(size, bits)
    sides: list[tuple[str, Layers, Callable[..., float], float]] = [
        ("values", values, mse, reference.mse_bound(bits)),
        ("keys", keys, product_error, reference.product_bound(size, bits)),
    ]
    for what, layers, measured, bound in sides:
        found = [measured(codec, x) for x in layers]
        show(what, bits, bound, found)
        assert np.mean(found) <= bound
