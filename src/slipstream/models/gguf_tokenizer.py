"""The byte-level BPE tokenizer in a GGUF file's metadata as Hugging Face's tokenizer files.

It knows the metadata keys and the two JSON layouts; not where the files go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.contracts.errors import ModelError

CONTROL, USER_DEFINED = 3, 4  # of gguf.TokenType: matched in text before BPE runs


def tokenizer_json(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """tokenizer.json of a `smollm` byte-level BPE: digits stand alone, no space is put in front.

    Raises ModelError when the file has another kind of tokenizer.
    """
    kind = (metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise ModelError(f"The GGUF file's tokenizer is {kind}; only ('gpt2', 'smollm') is read.")
    tokens: Sequence[str] = metadata["tokenizer.ggml.tokens"]
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens(tokens, metadata["tokenizer.ggml.token_type"]),
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in metadata["tokenizer.ggml.merges"]],
        },
    }


def tokenizer_config(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """tokenizer_config.json: special tokens by role, the chat template, the longest input."""
    tokens: Sequence[str] = metadata["tokenizer.ggml.tokens"]
    types: Sequence[int] = metadata["tokenizer.ggml.token_type"]
    added = added_tokens(tokens, types)
    return {
        "added_tokens_decoder": {
            str(token["id"]): {key: value for key, value in token.items() if key != "id"}
            for token in added
        },
        "add_prefix_space": bool(metadata["tokenizer.ggml.add_space_prefix"]),
        "bos_token": tokens[metadata["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[metadata["tokenizer.ggml.eos_token_id"]],
        "unk_token": tokens[metadata["tokenizer.ggml.unknown_token_id"]],
        "pad_token": tokens[metadata["tokenizer.ggml.padding_token_id"]],
        "additional_special_tokens": [token["content"] for token in added if token["special"]],
        "chat_template": metadata["tokenizer.chat_template"],
        "clean_up_tokenization_spaces": False,
        "model_max_length": metadata["llama.context_length"],
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def added_tokens(tokens: Sequence[str], types: Sequence[int]) -> list[dict[str, Any]]:
    """The tokens that are matched whole, in tokenizer.json's form."""
    return [
        {
            "id": index,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind == CONTROL,
        }
        for index, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind in (CONTROL, USER_DEFINED)
    ]
