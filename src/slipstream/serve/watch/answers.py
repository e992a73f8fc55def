"""What routes that show a running server answer, as types for /openapi.json; see serve.answers."""

from __future__ import annotations

from typing import Literal

import msgspec

from slipstream.contracts.backend import Segment
from slipstream.contracts.report import LaneStats, PrefixStats, SpecStats
from slipstream.serve.answers import Answer
from slipstream.serve.wire import Object


class SoloStats(Answer):
    active: int
    submitted: int


class Lanes(Answer):
    group: LaneStats
    solo: SoloStats


class QueueStats(Answer):
    waiting: int
    max: int
    rejected: int


class LeaseStats(Answer):
    held_by: str | None
    waiting: int


class TokenStats(Answer):
    prompt: int
    cached: int
    generated: int


class Stats(Answer):
    model: str
    uptime_s: float
    turns: int
    lanes: Lanes
    queue: QueueStats
    lease: LeaseStats
    memory: dict[str, int]
    prefix_cache: PrefixStats
    tokens: TokenStats
    placements: dict[str, int]
    spec: SpecStats
    finish: dict[str, int]


class RowEntry(Answer):
    id: str
    choice: int
    lane: Literal["group", "solo"]
    state: Literal["queued", "prefill", "decode", "parked"]
    prompt_tokens: int
    computed: int
    cached_tokens: int
    generated: int
    age_ms: float
    reasons: list[str]


class RowList(Answer):
    rows: list[RowEntry]


class Percentiles(Answer):
    count: int
    p50: float | None
    p95: float | None
    p99: float | None


class LatencyNow(Answer):
    span_s: float
    first_token_ms: Percentiles
    gap_ms: Percentiles


class Prefixes(Answer):
    entries: int
    segments: list[Segment]


class Phases(Answer):
    queue: float
    prefill: float
    decode: float


class TraceEntry(Answer):
    id: str
    state: Literal["running", "ended"]
    age_ms: float
    duration_ms: float
    error: str
    finish: str | msgspec.UnsetType = msgspec.UNSET
    route: str | msgspec.UnsetType = msgspec.UNSET
    lane: Literal["group", "solo"] | msgspec.UnsetType = msgspec.UNSET
    reasons: list[str] | msgspec.UnsetType = msgspec.UNSET
    prompt_tokens: int | msgspec.UnsetType = msgspec.UNSET
    generated: int | msgspec.UnsetType = msgspec.UNSET
    phases_ms: Phases | msgspec.UnsetType = msgspec.UNSET


class TraceList(Answer):
    traces: list[TraceEntry]


class TraceHop(Answer):
    name: str
    start_ms: float
    duration_ms: float


class TraceMoment(Answer):
    name: str
    at_ms: float
    attributes: Object


class Trace(TraceEntry, kw_only=True):
    attributes: Object
    hops: list[TraceHop]
    moments: list[TraceMoment]


class CancelledRequest(Answer):
    id: str
    cancelled: int
