"""A forward in flight, and how it is read: once, row by row, so that one row's fault is its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slipstream.backends.mlx.embed import Pooled
from slipstream.backends.mlx.row import DeviceRow
from slipstream.backends.mlx.sampler import Picked, Ranks
from slipstream.backends.mlx.step import Score
from slipstream.contracts.backend import Drawn
from slipstream.contracts.errors import RowFault
from slipstream.contracts.row import Ranked, Scored


class Guidance:
    """What grammars say of a step: masks in the order of the rows, certain tokens, faults."""

    def __init__(self, masks: Sequence[bytes | None] = ()) -> None:
        self.masks = list(masks)
        self.forced: dict[DeviceRow, tuple[int, ...]] = {}
        self.faults: dict[DeviceRow, RowFault] = {}


class Launch:
    """`picked` holds one draw for each of `rows`, in order."""

    def __init__(
        self,
        rows: Sequence[DeviceRow],
        picked: Picked,
        scores: Sequence[tuple[Score, Ranks]],
        guidance: Guidance,
        pooled: Sequence[Pooled] = (),
    ) -> None:
        self._rows = tuple(rows)
        self._epochs = tuple(row.epoch for row in rows)
        self._picked = picked
        self._scores = tuple(scores)
        self._guidance = guidance
        self._pooled = tuple(pooled)
        self._drawn: list[tuple[DeviceRow, Drawn]] | None = None

    def read(self) -> list[Drawn]:
        """Waits for the forward; rows that are gone or were restarted are left out."""
        if self._drawn is None:
            self._drawn = self._read()
        return [drawn for row, drawn in self._drawn if not row.released]

    def _read(self) -> list[tuple[DeviceRow, Drawn]]:
        tokens = self._picked.tokens.tolist()
        for score, ranks in self._scores:
            if score.epoch == score.row.epoch:
                score.row.scored += _scored(score, ranks)
        ranked: dict[int, tuple[float, list[Ranked]]] = {}
        if self._picked.ranks is not None:
            ranks = self._picked.ranks
            ranked = dict(zip(ranks.lines, ranks.read(), strict=True))
        found: list[tuple[DeviceRow, Drawn]] = []
        for place, (row, epoch) in enumerate(zip(self._rows, self._epochs, strict=True)):
            if not row.released and row.epoch == epoch:
                found += ((row, drawn) for drawn in self._of(row, tokens[place], ranked.get(place)))
        vectors = ((one.row, one.read()) for one in self._pooled)
        return found + [(row, drawn) for row, drawn in vectors if drawn is not None]

    def _of(
        self, row: DeviceRow, token: int, ranked: tuple[float, list[Ranked]] | None
    ) -> list[Drawn]:
        scored, row.scored = tuple(row.scored), []
        if row in self._guidance.forced:
            first, *rest = self._guidance.forced[row]
            return [Drawn(row, first, scored=scored), *(Drawn(row, t, forced=True) for t in rest)]
        row.read(token)
        fault = self._guidance.faults.get(row) or contained("matcher", lambda: accept(row, token))
        if fault is not None:
            return [Drawn(row, token, fault=fault)]
        if ranked is None:
            return [Drawn(row, token, scored=scored)]
        top = tuple(ranked[1][: row.spec.prompt.logprobs or 0])
        return [Drawn(row, token, ranked[0], top, scored)]


def accept(row: DeviceRow, token: int) -> None:
    """Moves the row's grammar on; what ends the row is not part of its text."""
    matcher = row.spec.prompt.matcher
    if matcher is not None and token not in row.spec.prompt.stop_ids:
        matcher.accept(token)


def contained(part: str, action: Callable[[], None]) -> RowFault | None:
    """Runs a row's own code; whatever it raises becomes that row's fault."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 a matcher is a guest, and only its row may suffer
        return RowFault(part, error)
    return None


def _scored(score: Score, ranks: Ranks) -> list[Scored]:
    first = [Scored(score.row.ids[0], None)] if not score.row.scored else []
    top = score.row.spec.prompt.logprobs or 0
    return first + [
        Scored(token, logprob, tuple(tops[:top]))
        for token, (logprob, tops) in zip(score.targets, ranks.read(), strict=True)
    ]
