"""A llama GGUF file written out as a model folder that MLX loads. Knows no cache and no digests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader
from safetensors.numpy import save

from slipstream.contracts.errors import ModelError
from slipstream.models.gguf_tokenizer import tokenizer_config, tokenizer_json
from slipstream.models.gguf_weights import GROUP, Arrays, convert, module
from slipstream.models.progress import Progress

BITS: Mapping[int, int] = MappingProxyType(
    {GGMLQuantizationType.Q4_1: 4, GGMLQuantizationType.Q8_0: 8}
)
DEFAULT_BITS = 4


def write(source: Path, folder: Path, progress: Progress) -> None:
    """Writes the weights, configuration and tokenizer of `source` into the empty `folder`.

    Raises ModelError when `source` is no llama GGUF file, OSError when the disk refuses.
    """
    try:
        reader = GGUFReader(source)
        metadata = {key: field.contents() for key, field in reader.fields.items()}
        documents = {
            "config.json": config(metadata, reader),
            "generation_config.json": generation_config(metadata),
            "tokenizer.json": tokenizer_json(metadata),
            "tokenizer_config.json": tokenizer_config(metadata),
        }
    except (ValueError, KeyError, IndexError) as error:
        raise ModelError(f"{source} cannot be read as a llama GGUF file: {error!r}") from error
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, indent=1, ensure_ascii=False), "utf-8")
    arrays: Arrays = {}
    heads = metadata["llama.attention.head_count"]
    kv_heads = metadata["llama.attention.head_count_kv"]
    for done, converted in enumerate(convert(reader.tensors, heads, kv_heads), start=1):
        arrays.update(converted)
        progress(f"Converting {source.name}", done, len(reader.tensors))
    (folder / "model.safetensors").write_bytes(save(arrays, metadata={"format": "mlx"}))


def config(metadata: Mapping[str, Any], reader: GGUFReader) -> dict[str, Any]:
    """config.json; layers that are not in DEFAULT_BITS have their own entry in `quantization`."""
    if metadata["general.architecture"] != "llama":
        raise ModelError(f"The GGUF file holds a {metadata['general.architecture']}, not a llama.")
    heads = metadata["llama.attention.head_count"]
    own = {
        module(tensor.name): {"group_size": GROUP, "bits": BITS[tensor.tensor_type]}
        for tensor in reader.tensors
        if BITS.get(tensor.tensor_type, DEFAULT_BITS) != DEFAULT_BITS
    }
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"],
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
        "pad_token_id": metadata["tokenizer.ggml.padding_token_id"],
        "head_dim": metadata["llama.embedding_length"] // heads,
        "hidden_act": "silu",
        "hidden_size": metadata["llama.embedding_length"],
        "intermediate_size": metadata["llama.feed_forward_length"],
        "max_position_embeddings": metadata["llama.context_length"],
        "mlp_bias": False,
        "num_attention_heads": heads,
        "num_hidden_layers": metadata["llama.block_count"],
        "num_key_value_heads": metadata["llama.attention.head_count_kv"],
        "quantization": {"group_size": GROUP, "bits": DEFAULT_BITS, **own},
        "rms_norm_eps": shortest(metadata["llama.attention.layer_norm_rms_epsilon"]),
        "rope_theta": shortest(metadata["llama.rope.freq_base"]),
        "tie_word_embeddings": all(tensor.name != "output.weight" for tensor in reader.tensors),
        "torch_dtype": "float16",
        "vocab_size": metadata["llama.vocab_size"],
    }


def generation_config(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"],
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
        "pad_token_id": metadata["tokenizer.ggml.padding_token_id"],
    }


def shortest(value: float) -> float:
    """The shortest decimal that is the same float32: 9.999999747e-06 was meant as 1e-05."""
    return float(str(np.float32(value)))
