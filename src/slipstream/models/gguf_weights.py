"""Tensors of a llama GGUF file as the arrays of an MLX folder, bit for bit.

Both formats store groups of 32 weights as `scale * q + bias`, so nothing is rounded: only nibbles
and rows change places. It knows no tokenizer and no folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, ReaderTensor
from numpy.typing import NDArray

from slipstream.contracts.errors import ModelError

GROUP = 32
NIBBLE_BLOCK = 20  # bytes of a Q4_1 block: scale, minimum (float16), 16 bytes of two nibbles
BYTE_BLOCK = 34  # bytes of a Q8_0 block: scale (float16), 32 signed bytes

OUTER: Mapping[str, str] = MappingProxyType(
    {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
)
INNER: Mapping[str, str] = MappingProxyType(
    {
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
)
Arrays = dict[str, NDArray[Any]]


def module(name: str) -> str:
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj`. Raises ModelError."""
    stem = name.removesuffix(".weight")
    if stem in OUTER:
        return OUTER[stem]
    if (match := re.fullmatch(r"blk\.(\d+)\.(\w+)", stem)) and match[2] in INNER:
        return f"model.layers.{match[1]}.{INNER[match[2]]}"
    raise ModelError(f"The GGUF file has a tensor that no llama model has: {name}.")


def convert(tensors: Sequence[ReaderTensor], heads: int, kv_heads: int) -> Iterator[Arrays]:
    """For each tensor in turn its arrays by MLX name: `.weight`, and `.scales`, `.biases`.

    Raises ModelError for a tensor or an encoding that is not known here.
    """
    for tensor in tensors:
        name = module(tensor.name)
        arrays = unpack(tensor)
        if name.endswith("q_proj"):
            arrays = {key: half_split(value, heads) for key, value in arrays.items()}
        elif name.endswith("k_proj"):
            arrays = {key: half_split(value, kv_heads) for key, value in arrays.items()}
        yield {f"{name}.{key}": np.ascontiguousarray(value) for key, value in arrays.items()}


def unpack(tensor: ReaderTensor) -> Arrays:
    """One tensor's arrays under the names of a quantised MLX layer, rows in GGUF's order."""
    match tensor.tensor_type:
        case GGMLQuantizationType.Q4_1:
            return from_q4_1(tensor.data)
        case GGMLQuantizationType.Q8_0:
            return from_q8_0(tensor.data)
        case GGMLQuantizationType.F32 | GGMLQuantizationType.F16:
            return {"weight": tensor.data.astype(np.float16)}
        case other:
            raise ModelError(f"The GGUF tensor {tensor.name} is {other.name}, which is not read.")


def from_q4_1(data: NDArray[np.uint8]) -> Arrays:
    """(rows, blocks * 20) bytes -> weight (rows, blocks * 4) uint32, scales, biases (rows, blocks).

    A byte of GGUF holds weights j and j + 16 of its block; a byte of MLX holds 2j and 2j + 1.
    """
    blocks = data.reshape(data.shape[0], -1, NIBBLE_BLOCK)
    heads = np.ascontiguousarray(blocks[..., :4]).view(np.float16)
    pairs = blocks[..., 4:]
    nibbles = np.concatenate([pairs & 0x0F, pairs >> 4], axis=-1)
    packed = nibbles[..., 0::2] | nibbles[..., 1::2] << 4
    return {
        "weight": packed.reshape(data.shape[0], -1).view("<u4"),
        "scales": heads[..., 0],
        "biases": heads[..., 1],
    }


def from_q8_0(data: NDArray[np.uint8]) -> Arrays:
    """(rows, blocks * 34) bytes -> weight (rows, blocks * 8) uint32, scales, biases (rows, blocks).

    Signed q becomes q + 128 with a bias of -128 scales: exact, as 128 is a power of two.
    """
    blocks = data.reshape(data.shape[0], -1, BYTE_BLOCK)
    scales = np.ascontiguousarray(blocks[..., :2]).view(np.float16)[..., 0]
    unsigned = blocks[..., 2:] ^ 0x80  # adding 128 to a two's complement byte flips its top bit
    return {
        "weight": unsigned.reshape(data.shape[0], -1).view("<u4"),
        "scales": scales,
        "biases": scales * np.float16(-128),
    }


def half_split(rows: NDArray[Any], heads: int) -> NDArray[Any]:
    """Rows of Q or K from GGML's order, where rotary pairs are neighbours, to MLX's.

    Within a head, rows (0, 1), (2, 3), ... become (0, half), (1, half + 1), ...
    """
    paired = rows.reshape(heads, -1, 2, *rows.shape[1:])
    return paired.swapaxes(1, 2).reshape(rows.shape)
