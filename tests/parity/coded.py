"""Models whose heads are wide enough for codes, and the plain twin of their rows' caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache, RotatingKVCache

from slipstream.backends.mlx.footprint import coded
from slipstream.backends.mlx.kv.cache import Coding
from slipstream.backends.mlx.kv.codec import Whole
from slipstream.backends.mlx.kv.plan import Codings
from slipstream.backends.mlx.opening import OpenModel
from slipstream.backends.mlx.paths import replaced, spread
from slipstream.contracts.kv import parse

from . import tiny

WIDER: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "llama": {"hidden_size": 128},
        "gemma3_text": {"head_dim": 32},
        "gemma4_text": {"head_dim": 32, "global_head_dim": 64},
        "qwen3_5": {"head_dim": 32},
        "deepseek_v3": {"kv_lora_rank": 32},
        "glm_moe_dsa": {"kv_lora_rank": 32},
        "gpt_oss": {"head_dim": 32},
    }
)
KINDS = tuple(WIDER)
SCHEMES = ("affine:8:32", "affine:4:32", "affine:8:32@20", "turbo:k8v3", "turbo:k4v4")


def build(kind: str) -> Any:
    return tiny.build(kind, **WIDER[kind])


@cache
def opened(kind: str, scheme: str) -> OpenModel:
    model = OpenModel(build(kind), tiny.VOCABULARY)
    model.code(coded(model, parse(scheme)))
    return model


@cache
def whole(kind: str, start: int) -> OpenModel:
    """Holds its parts unrounded: no number falls between two codes, so all schedules agree."""
    model = OpenModel(build(kind), tiny.VOCABULARY)
    found = coded(model, parse("affine:8:32"))
    assert found is not None
    by_path = {
        path: Coding.of(
            *(Whole(side.size, each.dtype) for side in (each.keys, each.values)),
            each.heads,
            each.dtype,
        )
        for path, each in found.by_path.items()
    }
    model.code(Codings("whole", start, by_path))
    return model


class RoundedKV(KVCache):
    """Keys and values are put into codes and out again before they are held."""

    coding: Coding

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> Any:
        return super().update_and_fetch(*rounded(self.coding, keys, values))


class RoundedWindow(RotatingKVCache):
    coding: Coding

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> Any:
        return super().update_and_fetch(*rounded(self.coding, keys, values))


def rounded(coding: Coding, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
    return coding.decode(coding.encode(keys, values))


def twins(codings: Codings, caches: Sequence[Any]) -> list[Any]:
    """Plain caches that hold what the codes of `caches` would say."""
    found = spread(caches)
    return replaced(caches, {p: twin(c, found[p]) for p, c in codings.by_path.items()})


def twin(coding: Coding, plain: Any) -> Any:
    kind = RoundedWindow if isinstance(plain, RotatingKVCache) else RoundedKV
    keys, values, *rest = plain.state
    if keys is not None:
        keys, values = rounded(coding, keys, values)
    made = kind.from_state((keys, values, *rest))
    made.coding = coding
    return made


def alone(model: OpenModel, ids: Sequence[int], cuts: Sequence[int]) -> dict[int, mx.array]:
    """The plain twin: one row on plain caches, whose forwards end at `cuts` and where codes begin.

    The logits after so many tokens."""
    codings = model.codings
    assert codings is not None
    start, caches, found = codings.start, model.plain_caches(), {}
    if not start:
        caches = twins(codings, caches)
    for begin, end in pairwise(sorted({*cuts, *([start] if start < max(cuts) else [])})):
        if begin == start > 0:
            caches = twins(codings, caches)
        found[end] = model.plain(mx.array([ids[begin:end]]), caches, [end - begin - 1])[0]
    mx.eval(found)
    return found
