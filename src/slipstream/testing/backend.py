"""A Backend without tensors: deterministic tokens, real lag, scripted faults, strict rules.

It notes every breach of the protocol in `breaches`, since an exception may be contained.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from slipstream.contracts.backend import Advance, Drawn, Memory, Row
from slipstream.contracts.errors import RowFault
from slipstream.contracts.placement import Abilities, Lane
from slipstream.contracts.row import Prompt, RowSpec
from slipstream.testing.clock import ManualClock
from slipstream.testing.prefixes import FakePrefixes

VOCAB_SIZE = 97
WORD = (1 << 64) - 1

Fault = Callable[[str, Sequence[RowSpec]], Exception | None]
"""What to raise with these rows at a moment: project, open, fork, keep, launch, collect, draw,
rewind or park."""


def mix(state: int, value: int) -> int:
    """One step of a 64-bit hash: the fake's stand-in for computing a token."""
    state = (state ^ (value + 1)) * 0x9E3779B97F4A7C15 & WORD
    return state ^ (state >> 29)


def solo_run(prompt: Prompt) -> list[int]:
    """The plain twin: the tokens of `prompt` when nothing else runs and nothing fails."""
    known = list(prompt.ids)
    state = 0
    for token in known:
        state = mix(state, token)
    while len(known) < len(prompt.ids) + prompt.max_tokens:
        token = draw(state, prompt.sampling.seed, len(known))
        known.append(token)
        if token in prompt.stop_ids:
            break
        state = mix(state, token)
    return known[len(prompt.ids) :]


def draw(state: int, seed: int, position: int) -> int:
    return mix(mix(state, seed), position) % VOCAB_SIZE


@dataclass(slots=True, eq=False)
class FakeRow:
    spec: RowSpec
    known: list[int]
    states: list[int] = field(default_factory=lambda: [0])  # after none, one, ... of known
    cached: int = 0
    tainted: bool = False
    released: bool = False

    @property
    def computed(self) -> int:
        return len(self.states) - 1

    @property
    def pending(self) -> int:
        return len(self.known) - self.computed

    def advance(self, tokens: int) -> int | None:
        """Computes `tokens` known ones; draws one when none is left."""
        for token in self.known[self.computed : self.computed + tokens]:
            self.states.append(mix(self.states[-1], token))
        if self.pending:
            return None
        token = draw(self.states[-1], self.spec.prompt.sampling.seed, len(self.known))
        self.known.append(token)
        return token


@dataclass(slots=True)
class Launched:
    moves: Sequence[tuple[FakeRow, int]]
    seconds: float
    draws: list[tuple[FakeRow, int]] = field(default_factory=list)


def no_fault(moment: str, specs: Sequence[RowSpec]) -> Exception | None:
    return None


class FakeBackend:
    """Belongs to the first thread that opens, launches or collects.

    `fault` is asked at every moment that may fail. With a `clock`, reading a launch takes
    `seconds_per_step`, `seconds_per_token` for each token in it, and `seconds_per_pair` for each
    token of the same row before that one. A row takes a byte a token; `kv_budget` 0 is no bound.
    Where `abilities` have prefixes, what is kept or released is found again. A row opens only when
    it is asked for once more than `late` times, as if what it begins with came from a disk."""

    def __init__(
        self,
        *,
        abilities: Abilities | None = None,
        fault: Fault = no_fault,
        clock: ManualClock | None = None,
        seconds_per_step: float = 0.0,
        seconds_per_token: float = 0.0,
        seconds_per_pair: float = 0.0,
        kv_budget: int = 0,
        late: int = 0,
    ) -> None:
        self.abilities = abilities or Abilities()
        self.closed = False
        self.breaches: list[str] = []
        self.opened: list[int] = []  # keys, in order
        self.forks: dict[int, int] = {}  # key -> that of the row it began with
        self.kept: list[tuple[int, int]] = []  # key and length, in order
        self.plans: list[dict[int, int]] = []  # of every launch: key -> tokens
        self._fault = fault
        self._clock = clock
        self._step_seconds = seconds_per_step
        self._token_seconds = seconds_per_token
        self._pair_seconds = seconds_per_pair
        self._kv_budget = kv_budget
        self._late = late
        self._asked: Counter[int] = Counter()  # key -> times that `open` made it wait
        self._prefixes = FakePrefixes(snapshots=self.abilities.snapshots)
        self._rows: dict[int, FakeRow] = {}
        self._flights: list[Launched] = []
        self._thread: int | None = None

    @property
    def live_rows(self) -> int:
        return len(self._rows)

    def open(self, spec: RowSpec) -> Row | None:
        self._enter()
        self._may_fail("open", [spec])
        if self._asked[spec.key] < self._late:
            self._asked[spec.key] += 1
            return None
        self.opened.append(spec.key)
        found = self.abilities.prefixes and spec.prompt.shares
        states = list(self._prefixes.find(spec)) if found else [0]
        return self._new(FakeRow(spec, list(spec.prompt.ids), states, cached=len(states) - 1))

    def project(self, spec: RowSpec) -> int:
        self._enter()
        self._may_fail("project", [spec])
        return spec.length_limit

    def keep(self, row: Row) -> None:
        self._enter()
        mine, key = self._mine(row), row.spec.key
        self._rule(not mine.tainted, f"row {key} was kept tainted")
        self._rule(not self._flying(mine), f"row {key} was kept in flight")
        inside = mine.computed <= len(mine.spec.prompt.ids)
        self._rule(inside, f"row {key} was kept past its prompt")
        self._may_fail("keep", [mine.spec])
        self.kept.append((key, mine.computed))
        self._remember(mine)

    def fork(self, row: Row, spec: RowSpec) -> Row:
        self._enter()
        source = self._mine(row)
        key = row.spec.key
        self._rule(not source.tainted, f"row {key} was forked tainted")
        self._rule(not self._flying(source), f"row {key} was forked in flight")
        drawn = len(source.known) - len(source.spec.prompt.ids)
        self._rule(drawn == 0 and source.pending > 0, f"row {key} was forked after a draw")
        self._rule(spec.prompt.ids == source.spec.prompt.ids, f"row {key} has another prompt")
        self._may_fail("fork", [spec])
        self.forks[spec.key] = key
        states = list(source.states)
        return self._new(FakeRow(spec, list(source.known), states, cached=source.computed))

    def launch(self, plan: Sequence[Advance]) -> None:
        self._enter()
        moves = [(self._mine(advance.row), advance.tokens) for advance in plan]
        self._rule(bool(moves), "an empty plan was launched")
        self._rule(
            len({row.spec.key for row, _ in moves}) == len(moves), "a row is twice in a plan"
        )
        solo = any(row.spec.lane is Lane.SOLO for row, _ in moves)
        self._rule(not solo or len(moves) == 1, "a solo row shares a forward")
        for row, tokens in moves:
            key = row.spec.key
            self._rule(not row.tainted, f"row {key} was launched tainted")
            self._rule(1 <= tokens <= row.pending, f"row {key} has no {tokens} tokens pending")
            full = len(row.known) >= row.spec.length_limit
            self._rule(not full, f"row {key} was launched past its limit")
        self.plans.append({row.spec.key: tokens for row, tokens in moves})
        try:
            self._may_fail("launch", [row.spec for row, _ in moves])
        except Exception:
            self._taint(moves)
            raise
        seconds = self._step_seconds + sum(self._seconds(row, tokens) for row, tokens in moves)
        draws = [(row, row.advance(tokens)) for row, tokens in moves]
        drawn = [(row, token) for row, token in draws if token is not None]
        self._flights.append(Launched(moves, seconds, drawn))

    def collect(self, keep: int) -> Sequence[Drawn]:
        self._enter()
        drawn: list[Drawn] = []
        while len(self._flights) > keep:
            try:
                self._may_fail("collect", [row.spec for row, _ in self._flights[0].moves])
            except Exception:
                for flight in self._flights:
                    self._taint(flight.moves)
                self._flights.clear()
                raise
            flight = self._flights.pop(0)
            if self._clock:
                self._clock.advance(flight.seconds)
            drawn += [self._drawn(row, token) for row, token in flight.draws if not row.released]
        return drawn

    def rewind(self, row: Row, drawn: Sequence[int]) -> None:
        self._enter()
        mine = self._mine(row)
        self._may_fail("rewind", [mine.spec])
        prompt = len(mine.spec.prompt.ids)
        ahead = list(drawn) != mine.known[prompt : prompt + len(drawn)]
        self._rule(not ahead, f"row {row.spec.key} was rewound to tokens that it never drew")
        mine.known = [*mine.spec.prompt.ids, *drawn]
        mine.states, mine.tainted = [0], False
        for flight in self._flights:
            flight.draws = [(other, token) for other, token in flight.draws if other is not mine]

    def release(self, row: Row) -> None:
        self._enter()
        if mine := self._rows.pop(row.spec.key, None):
            mine.released = True
            if not mine.tainted and not self._flying(mine):
                self._remember(mine)

    def park(self) -> None:
        self._enter()
        self._may_fail("park", [row.spec for row in self._rows.values()])
        self._rule(not self._flights, "parked with launches in flight")

    def memory(self) -> Memory:
        held = sum(row.computed for row in self._rows.values())
        return Memory(kv=held, kv_budget=self._kv_budget)

    def close(self) -> None:
        self._enter()
        self._rule(not self._rows, "closed with live rows")
        self.closed = True

    def _new(self, row: FakeRow) -> FakeRow:
        key = row.spec.key
        self._rule(key not in self._rows, f"row {key} was opened twice")
        self._rows[key] = row
        promised = sum(each.spec.length_limit for each in self._rows.values())
        within = promised <= self._kv_budget or not self._kv_budget
        self._rule(within, f"{promised} bytes are promised to rows of {self._kv_budget}")
        return row

    def _remember(self, row: FakeRow) -> None:
        if self.abilities.prefixes and row.spec.prompt.pooling is None:
            self._prefixes.keep(row.spec, row.known[: row.computed], row.states)

    def _flying(self, row: FakeRow) -> bool:
        return any(row is mine for flight in self._flights for mine, _ in flight.moves)

    def _seconds(self, row: FakeRow, tokens: int) -> float:
        pairs = tokens * row.computed + tokens * (tokens - 1) / 2
        return tokens * self._token_seconds + pairs * self._pair_seconds

    def _drawn(self, row: FakeRow, token: int) -> Drawn:
        fault = self._fault("draw", [row.spec])
        if fault is None and row.spec.prompt.pooling is not None:
            return Drawn(row, 0, vector=row.states[-1].to_bytes(8, "little"))
        if fault is None:
            return Drawn(row, token)
        row.tainted = True
        return Drawn(row, 0, fault=RowFault("sampler", fault))

    def _mine(self, row: Row) -> FakeRow:
        mine = self._rows.get(row.spec.key)
        self._rule(mine is not None and mine is row, f"row {row.spec.key} is not a live row")
        assert mine is not None
        return mine

    def _taint(self, moves: Sequence[tuple[FakeRow, int]]) -> None:
        for row, _ in moves:
            row.tainted = True

    def _may_fail(self, moment: str, specs: Sequence[RowSpec]) -> None:
        if error := self._fault(moment, specs):
            raise error

    def _enter(self) -> None:
        here = threading.get_ident()
        self._thread = here if self._thread is None else self._thread
        self._rule(here == self._thread, "called from a second thread")
        self._rule(not self.closed, "called after close")

    def _rule(self, kept: bool, breach: str) -> None:
        if not kept:
            self.breaches.append(breach)
            raise AssertionError(breach)
