"""Who advances by how many tokens: a fair chunk that keeps the gap of running rows.

Knows no lanes, and no reasons why a row must stop on its way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from slipstream.contracts.backend import Advance, Row
from slipstream.contracts.limits import Limits
from slipstream.engine.price import Price

# Where a prompt's own tokens are scored, the logits of a whole chunk are held at once, and each
# token's are as wide as the vocabulary.
SCORED_CHUNK = 256
NO_STOPS: Mapping[int, int] = MappingProxyType({})


class Planner:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._price = Price()

    def plan(
        self, rows: Sequence[Row], running: bool, rooms: Mapping[int, int] = NO_STOPS
    ) -> list[Advance]:
        """One step for every row that decodes; the others share one budget of prompt tokens.

        Shares are equal, and what a short row leaves of its share goes to the longer ones.
        Where the budget has fewer tokens than there are rows, the first rows get them.
        A row whose key is in `rooms` advances by no more than that, possibly by nothing."""
        left = self.budget(running)
        wants = {row.spec.key: wanted(row, rooms.get(row.spec.key)) for row in rows}
        fills = [row for row in rows if row.pending > 1 and wants[row.spec.key]][:left]
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
        if not running:
            return limits.prefill_chunk
        fitting = self._price.fitting(limits.target_gap)
        return min(limits.prefill_chunk, max(limits.prefill_floor, fitting))

    def measure(self, filled: int, seconds: float) -> None:
        """A turn took `seconds`, and `filled` tokens beyond one per row were in it."""
        self._price.measure(filled, seconds)


def wanted(row: Row, room: int | None) -> int:
    """The most tokens that `row` may advance by in one turn."""
    tokens = row.pending if room is None else min(row.pending, room)
    return min(tokens, SCORED_CHUNK) if row.spec.prompt.prompt_logprobs else tokens
