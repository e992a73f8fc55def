"""Tiny random models of every cache kind, built in milliseconds, in float32 on the CPU."""

from __future__ import annotations

import importlib
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map

VOCABULARY = 97
WINDOW = 8

_MOE = {
    "n_shared_experts": 1,
    "n_routed_experts": 4,
    "routed_scaling_factor": 1.0,
    "moe_intermediate_size": 16,
    "topk_method": "noaux_tc",
    "n_group": 1,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "moe_layer_freq": 1,
    "first_k_dense_replace": 1,
}
_MLA = {
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "qk_nope_head_dim": 8,
}
_COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-5,
}

CONFIGS: dict[str, dict[str, Any]] = {
    # full attention
    "llama": {"num_hidden_layers": 3, "num_key_value_heads": 2},
    # sliding windows between full layers
    "gemma3_text": {
        "num_hidden_layers": 6,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "sliding_window": WINDOW,
        "sliding_window_pattern": 3,
        "query_pre_attn_scalar": 8,
    },
    # keys and values shared between layers
    "gemma4_text": {
        "num_hidden_layers": 6,
        "num_key_value_heads": 2,
        "num_global_key_value_heads": 2,
        "head_dim": 8,
        "global_head_dim": 16,
        "sliding_window": WINDOW,
        "sliding_window_pattern": 3,
        "num_kv_shared_layers": 3,
        "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": VOCABULARY,
        "attention_k_eq_v": False,
        "enable_moe_block": False,
        "tie_word_embeddings": True,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
    },
    # linear attention between full layers
    "qwen3_5": {
        "num_hidden_layers": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 32,
        "linear_value_head_dim": 8,
        "full_attention_interval": 2,
    },
    # latent attention, experts
    "deepseek_v3": {
        "num_hidden_layers": 3,
        "num_key_value_heads": 4,
        "rope_theta": 1e4,
        "rope_scaling": None,
        "attention_bias": False,
        **_MOE,
        **_MLA,
    },
    # a list of caches a layer: latent attention with a sparse indexer
    "glm_moe_dsa": {
        "num_hidden_layers": 3,
        "num_key_value_heads": 4,
        "index_head_dim": 16,
        "index_n_heads": 2,
        "index_topk": 24,
        "scoring_func": "sigmoid",
        "norm_topk_prob": True,
        "rope_parameters": {"rope_theta": 1e4, "rope_type": "default"},
        "attention_bias": False,
        **_MOE,
        **_MLA,
    },
    # sinks, windows, experts
    "gpt_oss": {
        "num_hidden_layers": 4,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "head_dim": 8,
        "num_key_value_heads": 2,
        "sliding_window": WINDOW,
        "rope_theta": 1e4,
        "intermediate_size": 32,
    },
    # recurrent state and nothing else
    "mamba2": {
        "num_hidden_layers": 3,
        "num_heads": 4,
        "head_dim": 16,
        "state_size": 8,
        "ssm_state_size": 8,
        "layer_norm_epsilon": 1e-5,
        "conv_kernel": 4,
        "n_groups": 1,
        "use_bias": False,
        "use_conv_bias": True,
        "tie_word_embeddings": True,
        "time_step_limit": (0.0, 10.0),
        "time_step_rank": "auto",
    },
}


def build(kind: str, seed: int = 0, **other: Any) -> nn.Module:
    """A model of `kind` with random weights that make its logits differ by a few units.

    `other` are fields of its configuration."""
    module = importlib.import_module(f"mlx_lm.models.{kind}")
    config = {**_COMMON, "model_type": kind, **CONFIGS[kind], **other}
    mx.random.seed(seed)
    model: nn.Module = module.Model(module.ModelArgs.from_dict(config))
    model.update(tree_map(_random, model.parameters()))
    mx.eval(model.parameters())
    model.eval()
    return model


def _random(array: mx.array) -> mx.array:
    if not mx.issubdtype(array.dtype, mx.floating):
        return array
    centre = 1.0 if array.ndim == 1 else 0.0
    return centre + 0.2 * mx.random.normal(array.shape)
