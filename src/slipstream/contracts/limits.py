"""The numbers that bound the engine. Made from Settings by whoever composes it."""

from __future__ import annotations

from dataclasses import dataclass, field

from slipstream.contracts.kv import KvScheme


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    batch: int = 8  # rows in the group at once
    queue: int = 64  # requests that may wait
    prefill_chunk: int = 2048  # prompt tokens in one turn, at most
    prefill_floor: int = 24  # and at least, when any row fills
    target_gap: float = 0.2  # seconds between two tokens of a running row while prompts fill
    request_timeout: float = 600.0  # seconds
    outbox: int = 4096  # unread token events of one session before its reader is cut off
    drain_timeout: float = 10.0  # seconds that running rows get at shutdown

    def __post_init__(self) -> None:
        assert self.batch >= 1 and self.queue >= 0 and 1 <= self.prefill_floor
        assert self.prefill_chunk >= 1 and self.target_gap > 0 and self.outbox >= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimits:
    """Bytes; None leaves it to the device. `prefix_cache` 0 turns the prefix cache off."""

    memory_budget: int | None = None  # everything: weights, rows, caches, transients
    kv_budget: int | None = None  # live rows
    prefix_cache: int | None = None  # what finished rows leave behind
    adapters: int | None = None  # those that are mounted, together
    kv_scheme: KvScheme = field(default_factory=KvScheme)  # what a row's keys and values take

    def __post_init__(self) -> None:
        for value in (self.memory_budget, self.kv_budget, self.prefix_cache, self.adapters):
            assert value is None or value >= 0
