"""Tables of rotary positions do what the modules of mlx-lm do."""

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx_lm.models.rope_utils import initialize_rope

from slipstream.backends.mlx.rotary import Rotary, shared

SIZE = 16
LLAMA3 = {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "mscale": 0.7}
LONG = {
    "type": "longrope",
    "original_max_position_embeddings": 64,
    "short_factor": [1.0] * 8,
    "long_factor": [2.0] * 8,
}
KINDS = {
    "halves": nn.RoPE(SIZE),
    "neighbours": nn.RoPE(SIZE, traditional=True),
    "part of a head": nn.RoPE(SIZE // 2),
    "neighbours, part of a head": nn.RoPE(SIZE // 2, traditional=True, base=500.0),
    "linear": initialize_rope(SIZE, 10000, False, {"type": "linear", "factor": 4.0}),
    "llama3": initialize_rope(SIZE, 10000, False, LLAMA3),
    "yarn": initialize_rope(SIZE, 10000, True, YARN),
    "longrope": initialize_rope(SIZE, 10000, False, LONG, 256),
    "proportional": initialize_rope(
        SIZE, 10000, False, {"type": "proportional", "partial_rotary_factor": 0.5}
    ),
}


class Tilts(nn.Module):
    """Takes a position, but turns nothing."""

    def __call__(self, x, offset):
        return x + offset.reshape(-1, 1, 1, 1)


class Alone(nn.Module):
    """Knows one position for all rows only."""

    def __call__(self, x, offset: int):
        return nn.RoPE(SIZE)(x, offset=max(offset, 3))


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_turns_as_its_module(kind):
    module = KINDS[kind]
    positions = mx.array([0, 5, 63, 64, 700, 131000], mx.int32)
    x = mx.random.normal((6, 3, 1, SIZE), key=mx.random.key(1))
    rotary = Rotary.of(module, SIZE)
    assert rotary is not None
    found = rotary.turned(x, rotary.table(positions, x.dtype))
    assert mx.allclose(found, module(x, offset=positions), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_turn_alike_alone_and_in_company(kind):
    rotary = Rotary.of(KINDS[kind], SIZE)
    positions = mx.array([9, 2, 400], mx.int32)
    x = mx.random.normal((3, 2, 1, SIZE), key=mx.random.key(2))
    together = rotary.turned(x, rotary.table(positions, x.dtype))
    for i in range(3):
        alone = rotary.turned(x[i : i + 1], rotary.table(positions[i : i + 1], x.dtype))
        assert mx.array_equal(alone[0], together[i])


@pytest.mark.parametrize("module", [Tilts(), Alone()])
def test_what_is_no_rotation_of_rows_keeps_its_module(module):
    assert Rotary.of(module, SIZE) is None


def test_layers_with_equal_modules_share_a_table():
    modules = [nn.RoPE(SIZE), nn.RoPE(SIZE, base=500.0), nn.RoPE(SIZE), Tilts()]
    modules += [initialize_rope(SIZE, 10000, False, LLAMA3) for _ in range(2)]
    found = shared({layer: Rotary.of(module, SIZE) for layer, module in enumerate(modules)})
    assert sorted(found) == [0, 1, 2, 4, 5]
    assert found[0] is found[2] and found[4] is found[5]
    assert len({id(rotary) for rotary in found.values()}) == 3
