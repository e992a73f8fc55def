"""Who advances by how many tokens: a fair chunk that keeps the gap of running rows.

Learns the price of a prompt token from the time that forwards took. Knows no lanes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from slipstream.contracts.backend import Advance, Row
from slipstream.contracts.limits import Limits

SMOOTHING = 0.3  # weight of the newest measurement
# Where a prompt's own tokens are scored, the logits of a whole chunk are held at once, and each
# token's are as wide as the vocabulary.
SCORED_CHUNK = 256


class Planner:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._base: float | None = None  # seconds of a turn in which no row fills
        self._price: float | None = None  # seconds per prompt token on top

    def plan(
        self, rows: Sequence[Row], running: bool, leading: Collection[int] = ()
    ) -> list[Advance]:
        """One step for every row that decodes; the others share one budget of prompt tokens.

        Shares are equal, and what a short row leaves of its share goes to the longer ones.
        Where the budget has fewer tokens than there are rows, the first rows get them.
        Rows whose keys are in `leading` keep one token pending, for others to begin with."""
        left = self.budget(running)
        wants = {row.spec.key: wanted(row, row.spec.key in leading) for row in rows}
        fills = [row for row in rows if row.pending > 1][:left]
        shares = {row.spec.key: wants[row.spec.key] for row in rows if row.pending == 1}
        for served, row in enumerate(sorted(fills, key=lambda row: wants[row.spec.key])):
            fair = -(-left // (len(fills) - served))
            shares[row.spec.key] = min(wants[row.spec.key], fair)
            left -= shares[row.spec.key]
        tokens = ((row, shares.get(row.spec.key, 0)) for row in rows)
        return [Advance(row, count) for row, count in tokens if count]

    def budget(self, running: bool) -> int:
        """Prompt tokens for one turn; fewer when `running` rows wait for their next token."""
        limits = self._limits
        if not running or self._price == 0:
            return limits.prefill_chunk
        if self._price is None:
            return min(limits.prefill_floor, limits.prefill_chunk)
        fitting = int((limits.target_gap - (self._base or 0.0)) / self._price)
        return min(limits.prefill_chunk, max(limits.prefill_floor, fitting))

    def measure(self, filled: int, seconds: float) -> None:
        """A turn took `seconds`, and `filled` tokens beyond one per row were in it."""
        if filled == 0:
            self._base = smooth(self._base, seconds)
        else:
            spent = max(0.0, seconds - (self._base or 0.0))
            self._price = smooth(self._price, spent / filled)


def wanted(row: Row, leads: bool) -> int:
    """The most tokens that `row` may advance by in one turn."""
    tokens = row.pending - leads
    return min(tokens, SCORED_CHUNK) if row.spec.prompt.prompt_logprobs else tokens


def smooth(known: float | None, newest: float) -> float:
    return newest if known is None else known + SMOOTHING * (newest - known)
