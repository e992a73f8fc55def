"""The group: one forward over the tokens of many rows, built before the last one is read.

Chunks of prompts, single steps and drafts are the same here: n tokens of a row. Owns the launches
in flight; the rows own the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import mlx.core as mx
from mlx.utils import tree_flatten

from slipstream.backends.mlx.adapters.blend import Blends
from slipstream.backends.mlx.embed import Pooled, hearing, pool, pools
from slipstream.backends.mlx.launch import Guidance, Launch, contained
from slipstream.backends.mlx.opening import OpenModel
from slipstream.backends.mlx.packed import Slot
from slipstream.backends.mlx.row import DeviceRow, Tail
from slipstream.backends.mlx.sampler import Picked, Ranks, Sampler, rank
from slipstream.backends.mlx.segments import Packer
from slipstream.backends.mlx.step import Score, forward_over, heads_over, joined
from slipstream.contracts.backend import Advance, Drawn

RUN, PACKED_RUN = 2, 4  # certain tokens that are worth a forward of their own


@dataclass(frozen=True, slots=True)
class Done:
    """A forward's result, lazy: logits (rows drawing, vocabulary), or one line when none draws."""

    drawing: tuple[DeviceRow, ...]
    logits: mx.array
    scores: tuple[tuple[Score, Ranks], ...]
    pooled: tuple[Pooled, ...] = ()


class Group:
    """`can_wait`: see draw. `hands_over`: a row's state is wanted after its last draw."""

    def __init__(
        self, model: OpenModel, packer: Packer, *, can_wait: bool, hands_over: bool = False
    ) -> None:
        self._model = model
        self._packer = packer
        self._can_wait = can_wait
        self._hands_over = hands_over
        self._sampler = Sampler(can_wait=can_wait)
        self._blends = Blends()
        self._flying: deque[Launch] = deque()

    def launch(self, plan: Sequence[Advance], *, alone: bool) -> None:
        """Starts one forward. `alone`: the plan's only row takes the model as it came."""
        sizes: dict[DeviceRow, int] = {step.row: step.tokens for step in plan}  # type: ignore[misc]
        done = self.forward(sizes, alone=alone)
        guidance = self._guided(done)
        if done.drawing:
            picked = self._sampler(done.logits, done.drawing, guidance.masks)
        else:
            picked = Picked(mx.argmax(done.logits, axis=-1))
        waited = [picked.tokens, *(picked.ranks.arrays if picked.ranks else [])]
        waited += [array for _, ranks in done.scores for array in ranks.arrays]
        waited += [one.vector for one in done.pooled]
        waited += [row.pooled for row in sizes if row.pooled is not None and row.pending]
        mx.async_eval(waited, [states(row) for row in sizes if row.pending])
        self._flying.append(Launch(done.drawing, picked, done.scores, guidance, done.pooled))
        for one in done.pooled:
            one.row.feed(0)  # it stands for the vector
        if guidance.forced:
            self._sampler.forget()
        for place, row in enumerate(done.drawing):
            if row in guidance.forced:
                row.feed(*guidance.forced[row])
            else:
                row.draw(Tail(picked.tokens, place))
            if row.exhausted and row.segment is not None and not self._hands_over:
                row.segment.remove(row)
                row.caches = []  # nothing more is computed

    def forward(self, sizes: Mapping[DeviceRow, int], *, alone: bool = False) -> Done:
        """Advances each row by its size.

        A row whose caches turn to codes on the way gets there in a forward of its own, so that its
        tokens fall into forwards alike in any company."""
        start = self._model.turns_at
        first = {
            row: start - row.computed
            for row, size in sizes.items()
            if row.computed < start < row.computed + size
        }
        scores = self._forward(first, alone=alone).scores if first else ()
        self._turn([row for row in sizes if not row.turned and row.computed >= start > 0])
        done = self._forward(
            {row: size - first.get(row, 0) for row, size in sizes.items()}, alone=alone
        )
        return replace(done, scores=scores + done.scores)

    def _turn(self, rows: Sequence[DeviceRow]) -> None:
        """Puts what `rows` hold into codes; each stands where its model's scheme begins."""
        codings = self._model.codings
        for row in rows:
            assert codings is not None
            if row.segment is not None:
                row.segment.evict(row)
            codings.turn(row.caches)
            row.turned = True

    def _forward(self, sizes: Mapping[DeviceRow, int], *, alone: bool) -> Done:
        rows, segments = list(sizes), []
        if not alone:
            rows, segments = self._packer.arrange(rows, sizes)
        pieces = [row.take(sizes[row]) for row in rows]
        for segment in segments:
            segment.begin()
        tokens = joined(pieces)[None]
        heads = heads_over(rows, sizes)
        blend = self._blends.of(rows, sizes)
        with hearing(self._model.stage, pools(rows)) as heard:
            if alone:
                logits = self._model.plain(tokens, rows[0].caches, heads.tokens, blend)
            else:
                forward = forward_over(rows, sizes, segments)
                logits = self._model.logits(tokens, forward, heads.tokens, blend)
        scores = tuple((score, self._ranks(logits, score)) for score in heads.scores)
        if scores and heads.drawing:
            logits = logits[mx.array(heads.lines)]
        elif scores:
            logits = logits[-1:]
        return Done(heads.drawing, logits, scores, tuple(pool(rows, sizes, heard)))

    def forget_adapters(self) -> None:
        """One has gone: nothing of it stays behind."""
        self._blends.forget()

    def collect(self, keep: int) -> list[Drawn]:
        """Reads launches until `keep` are in flight. On an error no launch stays in flight."""
        found: list[Drawn] = []
        while len(self._flying) > keep:
            try:
                found += self._flying.popleft().read()
            except BaseException:
                self._flying.clear()
                raise
        return found

    def _ranks(self, logits: mx.array, score: Score) -> Ranks:
        count = len(score.targets)
        lines = logits[score.first : score.first + count]
        top = score.row.spec.prompt.logprobs or 0
        targets = mx.array(score.targets)
        return rank(lines, targets, top, range(count), can_wait=self._can_wait)

    def _guided(self, done: Done) -> Guidance:
        """What grammars allow next; computed while the device does the forward."""
        guidance = Guidance([None] * len(done.drawing))
        bound = [(i, row) for i, row in enumerate(done.drawing) if row.spec.prompt.matcher]
        if not bound:
            return guidance
        mx.async_eval(done.logits)
        for launch in self._flying:
            launch.read()
        for place, row in bound:
            fault = contained("matcher", partial(guide, guidance, place, row))
            if fault is not None:
                guidance.faults[row] = fault
        return guidance


def guide(guidance: Guidance, place: int, row: DeviceRow) -> None:
    """The mask of a row's next token; a run of certain tokens is taken whole, without drawing.

    A packed row leaves its rectangle to take several at once, which only a longer run repays. What
    is certain has a log-probability of 0, so a row that wants those takes one at a time."""
    prompt = row.spec.prompt
    assert prompt.matcher is not None
    guidance.masks[place] = prompt.matcher.allowed()
    if prompt.logprobs is not None:
        return
    forced = tuple(prompt.matcher.forced())[: row.spec.length_limit - row.known]
    if len(forced) >= (PACKED_RUN if row.segment is not None else RUN):
        for token in forced:
            prompt.matcher.accept(token)
        guidance.forced[row] = forced


def states(row: DeviceRow) -> list[mx.array]:
    """The arrays that a row rests in."""
    flat = tree_flatten([cache.state for cache in row.caches if not isinstance(cache, Slot)])
    return [value for _, value in flat if isinstance(value, mx.array)]
