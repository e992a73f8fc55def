"""What the engine says about one request, and about itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from slipstream.contracts.backend import Memory, PrefixStats
from slipstream.contracts.placement import Placement
from slipstream.contracts.sampling import Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One session so far. Times in milliseconds; a phase not reached is 0."""

    placement: Placement
    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    rows_peak: int = 0  # most rows in its group while it ran, itself included
    sampling: Sampling = field(default_factory=Sampling)  # as it was resolved

    @property
    def seed(self) -> int:
        return self.sampling.seed

    @staticmethod
    def overlapping(reports: Sequence[Report]) -> Report:
        """Several that ran at once as one: the longest phases and the fullest group count, all
        else is the first one's."""
        return replace(
            reports[0],
            queue_ms=max(report.queue_ms for report in reports),
            prefill_ms=max(report.prefill_ms for report in reports),
            decode_ms=max(report.decode_ms for report in reports),
            rows_peak=max(report.rows_peak for report in reports),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings:
    """One vector for each input, in order, as little-endian float32, and what they cost.

    The prompt tokens of `report` are those of all inputs."""

    vectors: Sequence[bytes]
    report: Report


class RowState(StrEnum):
    QUEUED = "queued"
    PREFILL = "prefill"  # it has a place and has drawn nothing yet
    DECODE = "decode"
    PARKED = "parked"  # it has a place, and an exclusive job has the device


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReport:
    """One choice of a prompt, that has not ended, in tokens. `computed` of the prompt, cached
    ones included."""

    choice: int
    placement: Placement
    state: RowState
    prompt_tokens: int
    computed: int = 0
    cached_tokens: int = 0
    generated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTimes:
    """Seconds of the device thread by what it did; of one turn, or of all of them.

    `prefill` are steps in which some prompt was filled, `step` those in which none was; `job` is
    work that is no row's, and `idle` sleep."""

    admit: float = 0.0
    prefill: float = 0.0
    step: float = 0.0
    job: float = 0.0
    publish: float = 0.0
    idle: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneStats:
    active: int = 0
    max: int = 0
    submitted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecStats:
    """Speculation, in tokens."""

    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class Flushed:
    """What a flush of the prefix cache made durable: files, and their bytes."""

    written: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """A snapshot, consistent within itself. Counters only grow."""

    turns: int = 0
    group: LaneStats = field(default_factory=LaneStats)
    solo: LaneStats = field(default_factory=LaneStats)
    waiting: int = 0
    queue_max: int = 0
    rejected: int = 0
    lease_held_by: str | None = None
    lease_waiting: int = 0
    memory: Memory = field(default_factory=Memory)
    spec: SpecStats = field(default_factory=SpecStats)
    times: TurnTimes = field(default_factory=TurnTimes)
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    placements: dict[str, int] = field(default_factory=dict)  # reason, or "none", -> count
    finish: dict[str, int] = field(default_factory=dict)  # finish or cancel reason or fault code

    @property
    def prefix(self) -> PrefixStats:
        return self.memory.prefix
