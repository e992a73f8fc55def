"""The conversion of GGUF tensors against gguf's own dequantisation, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, dequantize
from gguf.quants import quantize
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from slipstream.contracts.errors import ModelError
from slipstream.models import gguf_weights as gw
from slipstream.models import starter

Q4_1, Q8_0 = GGMLQuantizationType.Q4_1, GGMLQuantizationType.Q8_0


def affine(arrays: gw.Arrays, bits: int) -> NDArray[np.float32]:
    """MLX's formula, slow and plain: element i of a word sits in its bits from i * bits."""
    words = arrays["weight"][..., None]
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    q = (words >> shifts & (1 << bits) - 1).reshape(len(words), -1, gw.GROUP)
    scales = arrays["scales"].astype(np.float32)[..., None]
    biases = arrays["biases"].astype(np.float32)[..., None]
    return (q.astype(np.float32) * scales + biases).reshape(len(words), -1)


def rotated(head: NDArray[Any], angles: NDArray[Any], *, neighbours: bool) -> NDArray[Any]:
    """Rotary embedding of one head; pairs are neighbours (GGML) or half a head apart (MLX)."""
    half = len(head) // 2
    first, second = (head[0::2], head[1::2]) if neighbours else (head[:half], head[half:])
    turned = first + 1j * second
    turned = turned * np.exp(1j * angles)
    result = np.empty_like(head)
    if neighbours:
        result[0::2], result[1::2] = turned.real, turned.imag
    else:
        result[:half], result[half:] = turned.real, turned.imag
    return result


@pytest.mark.parametrize(
    ("encoding", "convert", "bits"), [(Q4_1, gw.from_q4_1, 4), (Q8_0, gw.from_q8_0, 8)]
)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 3))
def test_no_weight_changes(
    encoding: GGMLQuantizationType, convert: Any, bits: int, seed: int, rows: int, blocks: int
) -> None:
    values = np.random.default_rng(seed).normal(size=(rows, blocks * 32)).astype(np.float32)
    data = quantize(values, encoding)
    arrays = convert(data)
    assert arrays["weight"].shape == (rows, blocks * 32 * bits // 32)
    assert arrays["scales"].shape == arrays["biases"].shape == (rows, blocks)
    np.testing.assert_array_equal(affine(arrays, bits), dequantize(data, encoding))


def test_the_starters_tensors_do_not_change() -> None:
    tensors = GGUFReader(starter.installed()).tensors
    wanted = {"token_embd.weight", "blk.0.attn_v.weight", "blk.29.ffn_down.weight"}
    for tensor in (tensor for tensor in tensors if tensor.name in wanted):
        arrays = gw.unpack(tensor)
        first = {name: values[:500] for name, values in arrays.items()}
        bits = 8 if tensor.tensor_type == Q8_0 else 4
        expected = dequantize(tensor.data[:500], tensor.tensor_type)
        np.testing.assert_array_equal(affine(first, bits), expected)


def test_the_starters_norms_fit_in_half_precision() -> None:
    norms = [t for t in GGUFReader(starter.installed()).tensors if t.name.endswith("norm.weight")]
    assert len(norms) == 61
    for norm in norms:
        np.testing.assert_array_equal(gw.unpack(norm)["weight"].astype(np.float32), norm.data)


def test_half_split_is_written_out_for_one_head() -> None:
    rows = np.arange(8)[:, None]
    assert gw.half_split(rows, heads=1)[:, 0].tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    assert gw.half_split(rows, heads=2)[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_attention_scores_are_the_same_in_both_orders() -> None:
    rng = np.random.default_rng(0)
    heads, size, width = 3, 8, 5
    q, k = rng.normal(size=(2, heads * size, width))
    x, y = rng.normal(size=(2, width))
    angles_x, angles_y = rng.normal(size=(2, size // 2))
    for head in range(heads):
        rows = slice(head * size, (head + 1) * size)
        ggml = rotated(q[rows] @ x, angles_x, neighbours=True) @ rotated(
            k[rows] @ y, angles_y, neighbours=True
        )
        q_mlx, k_mlx = gw.half_split(q, heads)[rows], gw.half_split(k, heads)[rows]
        mlx = rotated(q_mlx @ x, angles_x, neighbours=False) @ rotated(
            k_mlx @ y, angles_y, neighbours=False
        )
        np.testing.assert_allclose(ggml, mlx)


@pytest.mark.parametrize(
    ("gguf_name", "mlx_name"),
    [
        ("token_embd.weight", "model.embed_tokens"),
        ("output_norm.weight", "model.norm"),
        ("blk.12.ffn_gate.weight", "model.layers.12.mlp.gate_proj"),
        ("blk.0.attn_output.weight", "model.layers.0.self_attn.o_proj"),
    ],
)
def test_tensors_have_mlx_names(gguf_name: str, mlx_name: str) -> None:
    assert gw.module(gguf_name) == mlx_name


@pytest.mark.parametrize("name", ["blk.0.ssm_in.weight", "rope_freqs.weight", "blk.x.attn_q"])
def test_an_unknown_tensor_is_refused(name: str) -> None:
    with pytest.raises(ModelError, match="no llama model has"):
        gw.module(name)
