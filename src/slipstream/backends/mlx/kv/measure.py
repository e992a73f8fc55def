"""What a scheme costs and what it is worth, for `bench kv`: measured on a model, not guessed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from slipstream.backends.mlx.device import open_device
from slipstream.backends.mlx.footprint import coded, footprint
from slipstream.backends.mlx.kv.attention import BLOCK
from slipstream.backends.mlx.kv.cache import CodedCache, Coding
from slipstream.backends.mlx.kv.codec import Whole
from slipstream.backends.mlx.kv.plan import Codings
from slipstream.backends.mlx.load import load_model
from slipstream.backends.mlx.opening import FUSED, OpenModel
from slipstream.contracts.kv import KvScheme

CHUNK = 256  # tokens of a forward, whose logits are held at once
ROW = 4000  # tokens
GB = 1 << 30
REPEATS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """Bytes a token, `measured` on a row and `projected`; rows of ROW tokens in one GB; seconds of
    a write of CHUNK tokens, and of products with BLOCK of them for one query, in one layer; and
    how the model foretells a text: perplexity, and the mean divergence from itself without codes,
    in nats a token."""

    measured: float
    projected: int
    rows: int
    write: float
    scores: float
    mix: float
    perplexity: float
    divergence: float


def worths(
    path: Path, vocab_size: int, schemes: Sequence[KvScheme], ids: Sequence[int]
) -> Mapping[KvScheme, Worth]:
    """Of the model folder `path`, over the text `ids`. Raises ModelError."""
    device = open_device()
    model = OpenModel(load_model(path, device), vocab_size)
    if model.fusible:
        model.set_level(FUSED)
    plans = {scheme: coded(model, scheme) for scheme in schemes}
    quality = _quality(model, plans, ids)
    costs = _costs(model, plans)
    found = {}
    for scheme, plan in plans.items():
        model.code(plan)
        foot = footprint(model)
        caches = model.coded_caches()
        mx.eval(model.plain(mx.array([ids[:CHUNK]]), caches, [CHUNK - 1]))
        held = sum(cache.nbytes for cache in caches)
        found[scheme] = Worth(
            measured=held / (-(-CHUNK // KVCache.step) * KVCache.step),
            projected=foot.per_token,
            rows=GB // foot.most(ROW),
            **costs[scheme],
            **quality[scheme],
        )
    return found


def _quality(
    model: OpenModel, plans: Mapping[KvScheme, Codings | None], ids: Sequence[int]
) -> dict[KvScheme, dict[str, float]]:
    """Each token attends to codes of all before it, itself included, as it does when it decodes."""
    plain = model.plain_caches()
    rows = {s: p.coded(model.plain_caches()) if p else plain for s, p in plans.items()}
    losses = dict.fromkeys(plans, 0.0)
    apart = dict.fromkeys(plans, 0.0)
    for start in range(0, len(ids) - 1, CHUNK):
        stop = min(start + CHUNK, len(ids) - 1)
        said = mx.array(ids[start + 1 : stop + 1])[:, None]
        truth = _foretold(model, ids[start:stop], plain)
        for scheme, caches in rows.items():
            mine = truth if caches is plain else _foretold(model, ids[start:stop], caches)
            losses[scheme] -= mx.take_along_axis(mine, said, axis=-1).sum().item()
            apart[scheme] += (mx.exp(truth) * (truth - mine)).sum().item()
    count = len(ids) - 1
    return {
        scheme: {
            "perplexity": mx.exp(mx.array(losses[scheme] / count)).item(),
            "divergence": apart[scheme] / count,
        }
        for scheme in plans
    }


def _foretold(model: OpenModel, ids: Sequence[int], caches: list[Any]) -> mx.array:
    """Log-probabilities (tokens, vocabulary) of what follows each of `ids`."""
    logits = model.plain(mx.array([ids]), caches, range(len(ids))).astype(mx.float32)
    found = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    mx.eval(found, [cache.state for cache in caches])
    return found


def _costs(
    model: OpenModel, plans: Mapping[KvScheme, Codings | None]
) -> dict[KvScheme, dict[str, float]]:
    """Medians, the schemes in turn."""
    layer = model.fusible[0]
    keys, _ = model.blank(layer, CHUNK)
    size, heads = keys.shape[-1], keys.shape[1]
    whole = Whole(size, keys.dtype)
    plain = Coding.of(whole, whole, heads, keys.dtype)
    queries = int(model.mixer(layer).held.q_proj.weight.shape[0]) // size
    parts: dict[KvScheme, list[Callable[[], Any]]] = {
        scheme: list(_parts(plan.by_path[(layer,)] if plan else plain, heads, queries, size))
        for scheme, plan in plans.items()
    }
    times: dict[KvScheme, list[list[float]]] = {s: [[], [], []] for s in plans}
    for repeat in range(REPEATS + 1):
        for scheme, steps in parts.items():
            for place, step in enumerate(steps):
                start = time.perf_counter()
                mx.eval(step())
                if repeat:
                    times[scheme][place].append(time.perf_counter() - start)
    names = ("write", "scores", "mix")
    return {
        scheme: dict(zip(names, map(statistics.median, taken), strict=True))
        for scheme, taken in times.items()
    }


def _parts(coding: Coding, heads: int, queries: int, size: int) -> Iterator[Callable[[], Any]]:
    """A write, the scores of one token's queries, and the mix of values under its weights."""
    keys, values = (
        mx.random.normal((1, heads, BLOCK, size), coding.dtype, key=mx.random.key(seed))
        for seed in (1, 2)
    )
    q = mx.random.normal((1, queries, 1, size), coding.dtype, key=mx.random.key(3))
    weights = mx.softmax(mx.random.normal((1, queries, 1, BLOCK), coding.dtype), axis=-1)
    key_parts, value_parts = coding.sides(coding.encode(keys, values))
    prepared = coding.keys.query(q)
    mx.eval(keys, values, key_parts, value_parts, prepared, weights)
    few = keys[:, :, :CHUNK], values[:, :, :CHUNK]
    yield lambda: CodedCache(coding, KVCache()).append(*few)
    yield lambda: coding.keys.scores(prepared, key_parts)
    yield lambda: coding.values.mix(weights, value_parts)
