"""A forward in flight, and how it is read: once, row by row, so that one row's fault is its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slipstream.backends.mlx.row import DeviceRow
from slipstream.backends.mlx.sampler import Picked, Ranks
from slipstream.backends.mlx.step import Score
from slipstream.contracts.backend import Drawn
from slipstream.contracts.errors import RowFault
from slipstream.contracts.row import Ranked, Scored

Faults = dict[DeviceRow, RowFault]


class Launch:
    """`picked` holds one draw for each of `rows`, in order; `faults` are known already."""

    def __init__(
        self,
        rows: Sequence[DeviceRow],
        picked: Picked,
        scores: Sequence[tuple[Score, Ranks]],
        faults: Faults,
    ) -> None:
        self._rows = tuple(rows)
        self._epochs = tuple(row.epoch for row in rows)
        self._picked = picked
        self._scores = tuple(scores)
        self._faults = faults
        self._drawn: list[Drawn] | None = None

    def read(self) -> list[Drawn]:
        """Waits for the forward; rows that are gone or were restarted are left out."""
        if self._drawn is None:
            self._drawn = self._read()
        return [drawn for drawn in self._drawn if not drawn.row.released]  # type: ignore[attr-defined]

    def _read(self) -> list[Drawn]:
        tokens = self._picked.tokens.tolist()
        for score, ranks in self._scores:
            score.row.scored += _scored(score, ranks)
        ranked: dict[int, tuple[float, list[Ranked]]] = {}
        if self._picked.ranks is not None:
            ranks = self._picked.ranks
            ranked = dict(zip(ranks.lines, ranks.read(), strict=True))
        return [
            self._one(row, tokens[place], ranked.get(place))
            for place, (row, epoch) in enumerate(zip(self._rows, self._epochs, strict=True))
            if not row.released and row.epoch == epoch
        ]

    def _one(self, row: DeviceRow, token: int, ranked: tuple[float, list[Ranked]] | None) -> Drawn:
        row.read(token)
        prompt = row.spec.prompt
        fault = self._faults.get(row)
        if fault is None and prompt.matcher is not None:
            fault = contained("matcher", lambda: accept(row, token))
        if fault is not None:
            return Drawn(row, token, fault=fault)
        scored, row.scored = tuple(row.scored), []
        if ranked is None:
            return Drawn(row, token, scored=scored)
        return Drawn(row, token, ranked[0], tuple(ranked[1][: prompt.logprobs or 0]), scored)


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
