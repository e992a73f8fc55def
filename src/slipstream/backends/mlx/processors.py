"""What happens to logits before a token is drawn, for all rows at once.

Order: logit bias, repetition, presence and frequency penalties, banned ends, grammar mask. A stage
that no row needs is not in the graph. Presence and frequency look at what the row drew, repetition
at its prompt too.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from slipstream.backends.mlx.history import History
from slipstream.backends.mlx.row import DeviceRow
from slipstream.contracts.sampling import Sampling

NEVER = -float("inf")


def penalised(sampling: Sampling) -> bool:
    return (
        sampling.repetition_penalty != 1.0
        or sampling.presence_penalty != 0.0
        or sampling.frequency_penalty != 0.0
    )


class Processors:
    """Bound to the rows of a step, in their order; remade when those change."""

    def __init__(self, rows: Sequence[DeviceRow], vocabulary: int) -> None:
        self._rows = tuple(rows)
        self._epochs = [row.epoch for row in rows]
        self._vocabulary = vocabulary
        self._samplings = [row.spec.prompt.sampling for row in rows]
        self._bias = self._biases()
        self._looking = [i for i, s in enumerate(self._samplings) if penalised(s)]
        self._history = self._remember()

    def serves(self, rows: Sequence[DeviceRow]) -> bool:
        """Whether these are the rows, none of them restarted since."""
        return self._rows == tuple(rows) and self._epochs == [row.epoch for row in rows]

    def apply(self, logits: mx.array, masks: Sequence[bytes | None]) -> mx.array:
        """logits (rows, vocabulary) -> the same; `masks` are the grammars' bits, or None."""
        if self._bias is not None:
            places, values = self._bias
            logits = logits.reshape(-1).at[places].add(values).reshape(logits.shape)
        if self._history is not None:
            if self._history.full:
                self._history = self._remember()
            logits = self._penalise(logits, self._history)
        banned = self._banned_ends()
        if banned is not None:
            flat = logits.reshape(-1)
            flat[banned] = NEVER
            logits = flat.reshape(logits.shape)
        if any(mask is not None for mask in masks):
            logits = masked(logits, masks)
        return logits

    def append(self, tokens: mx.array) -> None:
        """The step drew `tokens`, (rows,), lazy."""
        if self._history is not None:
            self._history.append(tokens[mx.array(self._looking)])

    def _remember(self) -> History | None:
        return History([self._rows[i] for i in self._looking]) if self._looking else None

    def _biases(self) -> tuple[mx.array, mx.array] | None:
        entries = [
            (row * self._vocabulary + token, value)
            for row, sampling in enumerate(self._samplings)
            for token, value in sampling.logit_bias.items()
        ]
        if not entries:
            return None
        return mx.array([e[0] for e in entries]), mx.array([e[1] for e in entries], mx.float32)

    def _banned_ends(self) -> mx.array | None:
        """Places of the stop tokens of rows that have not drawn their minimum yet.

        A grammar that is through allows nothing else, and then has the last word."""
        places = [
            i * self._vocabulary + token
            for i, (row, sampling) in enumerate(zip(self._rows, self._samplings, strict=True))
            if row.drawn < sampling.min_tokens and not through(row)
            for token in row.spec.prompt.stop_ids
        ]
        return mx.array(places) if places else None

    def _penalise(self, logits: mx.array, history: History) -> mx.array:
        samplings = [self._samplings[i] for i in self._looking]
        base = mx.array([i * self._vocabulary for i in self._looking])[:, None]
        flat = logits.reshape(-1)
        if any(s.repetition_penalty != 1.0 for s in samplings):
            factor = mx.array([s.repetition_penalty for s in samplings])[:, None]
            ids, _ = history.window([s.repetition_context_size for s in samplings], own=False)
            old = flat[base + ids]
            flat[base + ids] = mx.where(old > 0, old / factor, old * factor)
        if any(s.presence_penalty for s in samplings):
            ids, inside = history.window([s.presence_context_size for s in samplings], own=True)
            said = inside.any(axis=1, keepdims=True)
            fine = mx.array([s.presence_penalty for s in samplings])[:, None]
            flat[base + ids] = flat[base + ids] - mx.where(said, fine, 0)
        if any(s.frequency_penalty for s in samplings):
            ids, inside = history.window([s.frequency_context_size for s in samplings], own=True)
            fine = mx.array([-s.frequency_penalty for s in samplings])[:, None]
            flat = flat.at[base + ids].add(mx.where(inside, fine, 0))
        return flat.reshape(logits.shape)


def through(row: DeviceRow) -> bool:
    matcher = row.spec.prompt.matcher
    return matcher is not None and matcher.stopped


def masked(logits: mx.array, masks: Sequence[bytes | None]) -> mx.array:
    """Bars what a grammar does not allow, and what lies beyond its vocabulary; a row without one
    keeps everything."""
    vocabulary = logits.shape[-1]
    bound = [i for i, mask in enumerate(masks) if mask is not None]
    words = np.zeros((len(bound), -(-vocabulary // 32)), np.uint32)
    for line, i in zip(words, bound, strict=True):
        bits = np.frombuffer(masks[i] or b"", np.uint32)[: len(line)]
        line[: len(bits)] = bits
    spread = (mx.array(words)[:, :, None] >> mx.arange(32, dtype=mx.uint32)) & 1
    allowed = spread.reshape(len(bound), -1)[:, :vocabulary].astype(mx.bool_)
    if len(bound) == len(masks):
        return mx.where(allowed, logits, NEVER)
    places = mx.array(bound)
    changed = logits.reshape(logits.shape)  # another handle, so that the caller's stays as it is
    changed[places] = mx.where(allowed, logits[places], NEVER)
    return changed
