"""What an evaluation harness reads of a server is what mlx-lm says of the same weights."""

from __future__ import annotations

import runpy
from pathlib import Path

import httpx
import pytest
from tokenizers import Tokenizer

from slipstream.models.obtain import obtain
from slipstream.settings import cache_home

from .shapes import TEXT, reply

pytestmark = pytest.mark.anyio

CHECK = runpy.run_path(str(Path(__file__).resolve().parents[2] / "scripts" / "lm_eval_check.py"))
REQUEST = {"temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True}


@pytest.mark.parametrize("count", [3, pytest.param(32, marks=pytest.mark.slow)])
async def test_log_likelihoods_of_continuations_are_those_of_the_model(
    http: httpx.AsyncClient, count: int
) -> None:
    path = obtain(None, cache_home()).path
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    model = CHECK["open_model"](path)
    for item in CHECK["items"]()[:count]:
        pairs = [CHECK["split"](tokenizer, *pair) for pair in CHECK["texts"](item)]
        asked = {**REQUEST, "prompt": [ids for ids, _ in pairs]}
        found = (await reply(http, TEXT, asked))["choices"]
        for choice, (ids, known) in zip(found, pairs, strict=True):
            own = CHECK["direct"](model, ids, known)
            logprobs = choice["logprobs"]
            chosen = logprobs["token_logprobs"][known:-1]
            tops = logprobs["top_logprobs"][known:-1]
            greedy = all(one == max(top.values()) for one, top in zip(chosen, tops, strict=True))
            assert sum(chosen) == pytest.approx(own.loglikelihood, abs=CHECK["CLOSE"])
            assert greedy == own.greedy
