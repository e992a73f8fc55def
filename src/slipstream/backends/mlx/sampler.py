"""From logits to tokens for all rows of a step: processors, log-probabilities, draw, history.

Every number is the row's own, and a stage that no row needs is not in the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from slipstream.backends.mlx.draw import Draw, draw, likeliest
from slipstream.backends.mlx.exponential import exponentials
from slipstream.backends.mlx.processors import Processors
from slipstream.backends.mlx.row import DeviceRow
from slipstream.contracts.row import Ranked

MOST_TOP = 20
FINITE = -9999.0  # stands for a log-probability of minus infinity, which JSON cannot say


@dataclass(frozen=True, slots=True)
class Ranks:
    """Log-probabilities of some lines, lazy. Shapes (lines,), (lines, top), (lines, top).

    `lines` says where each stands among what was asked for."""

    lines: tuple[int, ...]
    chosen: mx.array
    ids: mx.array
    top: mx.array

    def read(self) -> list[tuple[float, list[Ranked]]]:
        """(log-probability of the chosen token, the likeliest ones) of each line."""
        chosen, ids, top = self.chosen.tolist(), self.ids.tolist(), self.top.tolist()
        return [
            (c, [Ranked(i, t) for i, t in zip(own, tops, strict=True)])
            for c, own, tops in zip(chosen, ids, top, strict=True)
        ]

    @property
    def arrays(self) -> list[mx.array]:
        return [self.chosen, self.ids, self.top]


@dataclass(frozen=True, slots=True)
class Picked:
    """One step's draws, lazy: `tokens` (rows,), and ranks of the rows that want them."""

    tokens: mx.array
    ranks: Ranks | None = None


class Sampler:
    """Keeps what belongs to the set of rows from step to step. `can_wait`: see draw."""

    def __init__(self, *, can_wait: bool) -> None:
        self._can_wait = can_wait
        self._processors: Processors | None = None

    def __call__(
        self, logits: mx.array, rows: Sequence[DeviceRow], masks: Sequence[bytes | None]
    ) -> Picked:
        """logits (rows, vocabulary), of the token after each row's newest one."""
        processors = self._processors
        if processors is None or not processors.serves(rows):
            processors = self._processors = Processors(rows, logits.shape[-1])
        raw = logits
        logits = processors.apply(logits, masks)
        draws = [
            Draw(row.spec.prompt.sampling, row.known, row.spec.prompt.stop_ids) for row in rows
        ]
        tokens = draw(logits, draws, can_wait=self._can_wait)
        processors.append(tokens)
        return Picked(tokens, self._ranks(raw, logits, rows, tokens))

    def forget(self) -> None:
        """Rows have taken tokens that were not drawn here."""
        self._processors = None

    def _ranks(
        self, raw: mx.array, logits: mx.array, rows: Sequence[DeviceRow], tokens: mx.array
    ) -> Ranks | None:
        prompts = [row.spec.prompt for row in rows]
        lines = [i for i, prompt in enumerate(prompts) if prompt.logprobs is not None]
        if not lines:
            return None
        places = mx.array(lines)
        chosen = logits[places]
        if any(prompts[i].logprobs_raw for i in lines):
            early = mx.array([prompts[i].logprobs_raw for i in lines])[:, None]
            chosen = mx.where(early, raw[places], chosen)
        top = max(prompts[i].logprobs or 0 for i in lines)
        return rank(chosen, tokens[places], top, lines, can_wait=self._can_wait)


def rank(
    logits: mx.array, tokens: mx.array, top: int, lines: Sequence[int], *, can_wait: bool
) -> Ranks:
    """Log-probabilities of `tokens` (lines,) and of the `top` likeliest, under `logits`."""
    logits = logits.astype(mx.float32)
    _, total = exponentials(logits, can_wait=can_wait)
    chosen = mx.take_along_axis(logits, tokens[:, None].astype(mx.int32), axis=-1) - total
    if top:
        values, ids = likeliest(logits, top)
    else:
        values, ids = logits[:, :0], mx.zeros((len(lines), 0), mx.int32)
    return Ranks(
        tuple(lines),
        mx.maximum(chosen[:, 0], FINITE),
        ids,
        mx.maximum(values - total, FINITE),
    )
