"""Who advances by how many tokens: a fair chunk that keeps the gap of running rows.

Knows no lanes, and no reasons why a row must stop on its way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType

from slipstream.contracts.backend import Advance, Row
from slipstream.contracts.limits import Limits
from slipstream.engine.price import Price

# Where a prompt's own tokens are scored, the logits of a whole chunk are held at once, and each
# token's are as wide as the vocabulary.
SCORED_CHUNK = 256
QUIET_GAP = 0.5  # seconds that a turn should last at most when no row runs
QUIET_FLOOR = 256  # tokens of such a turn, at least: smaller ones make a lone prompt slow
LEAST = 32  # tokens of a share: each row that advances costs attention of its own
NO_STOPS: Mapping[int, int] = MappingProxyType({})


class Planner:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._price = Price()
        self._turns = 0

    def plan(
        self, rows: Sequence[Row], running: bool, rooms: Mapping[int, int] = NO_STOPS
    ) -> list[Advance]:
        """One step for every row that decodes; the others share one budget of prompt tokens.

        `running`: some wait for their next token. A row whose key is in `rooms` advances by no more
        than that, possibly by nothing."""
        wants = {row.spec.key: wanted(row, rooms.get(row.spec.key)) for row in rows}
        fills = {key: wants[key] for row in rows if row.pending > 1 and wants[key := row.spec.key]}
        shares = {row.spec.key: wants[row.spec.key] for row in rows if row.pending == 1}
        shares |= shared_out(fills, self.budget(running), self._turns)
        self._turns += 1
        tokens = ((row, shares.get(row.spec.key, 0)) for row in rows)
        return [Advance(row, count) for row, count in tokens if count]

    def budget(self, running: bool) -> int:
        """Prompt tokens for one turn; fewer when `running` rows wait for their next token.

        With none, a turn is kept short all the same: a newcomer, a cancel and a job wait for it."""
        limits = self._limits
        if running:
            tokens = max(limits.prefill_floor, self._price.fitting(limits.target_gap))
        else:
            fitting = self._price.fitting(max(QUIET_GAP, limits.target_gap))
            tokens = max(QUIET_FLOOR, power_of_two(fitting))
        return min(limits.prefill_chunk, tokens)

    def measure(self, filled: int, seconds: float) -> None:
        """A turn took `seconds`, and `filled` tokens beyond one per row were in it."""
        self._price.measure(filled, seconds)


def power_of_two(tokens: int) -> int:
    """About `tokens`, rounded down: equal prompts are cut alike though the price wavers."""
    return 1 << (tokens + tokens // 8).bit_length() >> 1


def shared_out(wants: Mapping[int, int], budget: int, turn: int) -> dict[int, int]:
    """`budget` tokens for rows that want some, by key.

    Half goes to those that lack the least, one after another, so that few wait for long. The other
    half is shared equally, by so many in each `turn` that all get some of it in time."""
    shares = dict.fromkeys(wants, 0)
    if not wants:
        return shares
    equal = budget // 2
    keys = list(wants)
    count = min(len(keys), max(1, equal // LEAST))
    first = turn * count % len(keys)
    for key in [*keys[first:], *keys[:first]][:count]:
        shares[key] = min(wants[key], equal // count)
    left = budget - sum(shares.values())
    for key, want in sorted(wants.items(), key=itemgetter(1)):
        more = min(want - shares[key], left)
        shares[key] += more
        left -= more
    return shares


def wanted(row: Row, room: int | None) -> int:
    """The most tokens that `row` may advance by in one turn."""
    tokens = row.pending if room is None else min(row.pending, room)
    return min(tokens, SCORED_CHUNK) if row.spec.prompt.prompt_logprobs else tokens
