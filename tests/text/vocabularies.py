"""Small tokenizers of each kind that models come with, made in memory."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers

from slipstream.text.tokenizer import Tokenizer

CORPUS = [
    "the quick brown fox jumps over the lazy dog, and the dog sleeps on",
    "naïve café – „ok“ 漢字 日本語 🙂 Ελλάδα",
    "hello world, hello words: a stop string here",
] * 4
TEXTS = (
    "",
    " ",
    "hello world",
    "  two  spaces and\ttabs\n\n",
    "naïve café – „ok“ 🇩🇪",
    "👩‍👩‍👧‍👦 漢字 🙂 🏴‍☠️",
    "<s>begins</s> and <|im_end|> ends",
    "don't 12345 ...\r\n",
    "\ufeffmarked \ufffd already",
)
NAMED = {"bos_token": "<s>", "eos_token": "</s>"}


def byte_level() -> tokenizers.Tokenizer:
    """As GPT-2, Llama 3, Qwen and SmolLM2 have it."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=["<s>", "</s>", "<|im_end|>"],
        show_progress=False,
    )
    made.train_from_iterator(CORPUS, trainer)
    made.add_tokens([AddedToken("<tool call>", special=False)])
    return made


def sentencepiece(metaspace: bool = False) -> tokenizers.Tokenizer:
    """As Llama 2 and Mistral have it: byte fallback and a space before the first word.

    `metaspace`: the newer of the two forms in which it is written."""
    vocabulary = ["<unk>", "<s>", "</s>", "<|im_end|>"]
    vocabulary += [f"<0x{byte:02X}>" for byte in range(256)]
    vocabulary += ["▁", "a", "e", "h", "l", "o", "r", "t", "w", "d"]
    merges = [("h", "e"), ("▁", "he"), ("l", "l"), ("▁he", "ll"), ("▁hell", "o"), ("▁", "w")]
    merges += [("o", "r"), ("▁w", "or"), ("▁", "▁"), ("t", "he")]
    vocabulary += [left + right for left, right in merges]
    numbered = {token: n for n, token in enumerate(vocabulary)}
    made = tokenizers.Tokenizer(
        models.BPE(numbered, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    if metaspace:
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        prepared = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        made.normalizer = normalizers.Sequence(prepared)
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    made.add_special_tokens(["<unk>", "<s>", "</s>", "<|im_end|>"])
    return made


def word_level() -> tokenizers.Tokenizer:
    """Words joined by spaces, with no decoder at all."""
    words = {"<unk>": 0, "<s>": 1, "</s>": 2, "<|im_end|>": 3, "hello": 4, "world": 5, "dog": 6}
    made = tokenizers.Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(["<unk>", "<s>", "</s>", "<|im_end|>"])
    return made


KINDS = {
    "byte_level": byte_level,
    "sentencepiece": sentencepiece,
    "metaspace": functools.partial(sentencepiece, metaspace=True),
    "word_level": word_level,
}


@functools.cache
def tokenizer(kind: str) -> Tokenizer:
    return Tokenizer(KINDS[kind](), NAMED)


def write_folder(
    folder: Path, backend: tokenizers.Tokenizer, config: Mapping[str, Any] | None = None
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    backend.save(str(folder / "tokenizer.json"))
    written = {"tokenizer_class": "PreTrainedTokenizerFast", **NAMED, **(config or {})}
    (folder / "tokenizer_config.json").write_text(json.dumps(written), "utf-8")
    return folder
