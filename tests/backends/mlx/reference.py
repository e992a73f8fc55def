"""The plain twin of the logits pipeline: one row, one stage at a time, in float64 NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slipstream.backends.mlx.noise import uniform
from slipstream.contracts.sampling import Sampling

FINITE = -9999.0


def processed(
    logits: np.ndarray,
    sampling: Sampling,
    prompt: Sequence[int],
    said: Sequence[int],
    ends: frozenset[int] = frozenset(),
    allowed: np.ndarray | None = None,
) -> np.ndarray:
    """Logits (vocabulary,) after bias, penalties, banned ends and mask."""
    x = logits.astype(np.float64).copy()
    for token, bias in sampling.logit_bias.items():
        x[token] += bias
    for token in set(last([*prompt, *said], sampling.repetition_context_size)):
        if sampling.repetition_penalty != 1.0:
            x[token] = (
                x[token] / sampling.repetition_penalty
                if x[token] > 0
                else x[token] * sampling.repetition_penalty
            )
    for token in set(last(said, sampling.presence_context_size)):
        x[token] -= sampling.presence_penalty
    for token in last(said, sampling.frequency_context_size):
        x[token] -= sampling.frequency_penalty
    if len(said) < sampling.min_tokens:
        for token in ends:
            x[token] = -np.inf
    if allowed is not None:
        x[~allowed] = -np.inf
    return x


def last(tokens: Sequence[int], size: int) -> Sequence[int]:
    return tokens[-size:] if size else tokens


def log_softmax(x: np.ndarray) -> np.ndarray:
    top = x.max()
    return x - top - np.log(np.exp(x - top).sum())


def drawn(
    x: np.ndarray, sampling: Sampling, position: int, ends: frozenset[int] = frozenset()
) -> tuple[int, float]:
    """(token, how near the uniform came to another token's share) from processed logits."""
    if sampling.temperature == 0.0:
        best = np.sort(x)[::-1]
        return int(np.argmax(x)), float(best[0] - best[1])
    p = np.exp(log_softmax(x / sampling.temperature))
    order = np.argsort(-p, kind="stable") if cuts(sampling) else np.arange(len(p))
    kept = p[order]
    if sampling.top_k > 0:
        kept[sampling.top_k :] = 0
        kept = kept / kept.sum()
    if sampling.top_p < 1.0:
        before = np.cumsum(kept) - kept
        kept = np.where((before < sampling.top_p) | (np.arange(len(kept)) == 0), kept, 0)
    if sampling.min_p > 0:
        kept = np.where(p[order] >= sampling.min_p * p[order][0], kept, 0)
    if sampling.xtc_probability > uniform(sampling.seed, position, 1):
        kept = without_top(kept / kept.sum(), order, sampling.xtc_threshold, ends)
    mass = np.cumsum(kept) / kept.sum()
    u = uniform(sampling.seed, position)
    place = int(np.searchsorted(mass, u, side="right"))
    gap = float(np.min(np.abs(mass - u)))
    return int(order[min(place, len(order) - 1)]), gap


def cuts(sampling: Sampling) -> bool:
    return (
        sampling.top_k > 0
        or sampling.top_p < 1.0
        or sampling.min_p > 0
        or sampling.xtc_probability > 0
    )


def without_top(
    share: np.ndarray, order: np.ndarray, threshold: float, ends: frozenset[int]
) -> np.ndarray:
    above = np.flatnonzero(share > threshold)
    gone = [i for i in above[:-1] if int(order[i]) not in ends]
    share = share.copy()
    share[gone] = 0
    return share
