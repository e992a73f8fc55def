"""The engine's own counters as metrics, read off one snapshot at the moment of a scrape.

Beside ours stand the names of vLLM that routers and load tools read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import Histogram, Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from slipstream.contracts.errors import Fault, ForwardFault, RowFault
from slipstream.contracts.placement import Reason
from slipstream.contracts.report import EngineStats
from slipstream.contracts.row import CancelReason, FinishReason
from slipstream.serve.ports import Engine

Values = Mapping[str, float]
FAULTS = tuple(kind.code for kind in (Fault, RowFault, ForwardFault) if kind.code)
GOOD_ENDS = (FinishReason.STOP, FinishReason.TOOL_CALLS, CancelReason.STOP_STRING)
ABORTS = tuple(reason for reason in CancelReason if reason not in GOOD_ENDS)


@dataclass(frozen=True, slots=True)
class Reading:
    """One metric: with a `label`, a value for each of its values. A counter ends in _total."""

    name: str
    help: str
    read: Callable[[EngineStats], float | Values]
    label: str = ""


def reasons(stats: EngineStats) -> Values:
    return {reason: stats.placements.get(reason, 0) for reason in Reason}


def faults(stats: EngineStats) -> Values:
    return {code: stats.finish.get(code, 0) for code in FAULTS}


def successes(stats: EngineStats) -> Values:
    """Ends, under vLLM's names for them."""

    def ended(*how: str) -> int:
        return sum(stats.finish.get(name, 0) for name in how)

    return {
        "stop": ended(*GOOD_ENDS),
        "length": ended(FinishReason.LENGTH),
        "abort": ended(*ABORTS),
        "error": ended(*FAULTS),
    }


def device_memory(stats: EngineStats) -> Values:
    memory = stats.memory
    return {
        "weights": memory.weights,
        "kv": memory.kv,
        "prefix": memory.prefix_ram,
        "active": memory.active,
        "peak": memory.peak,
        "budget": memory.budget,
    }


def kv_usage(stats: EngineStats) -> float:
    return stats.memory.kv / stats.memory.kv_budget if stats.memory.kv_budget else 0.0


def active(stats: EngineStats) -> int:
    return stats.group.active + stats.solo.active


READINGS = (
    Reading(
        "slipstream_placement_reasons_total", "Why requests went to solo", reasons, label="reason"
    ),
    Reading("slipstream_rows_active", "Rows that have a place", active),
    Reading("slipstream_queue_waiting", "Rows that wait for a place", lambda s: s.waiting),
    Reading("slipstream_prompt_tokens_total", "Prompt tokens", lambda s: s.prompt_tokens),
    Reading(
        "slipstream_cached_tokens_total",
        "Prompt tokens that were not computed again",
        lambda s: s.cached_tokens,
    ),
    Reading("slipstream_generated_tokens_total", "Tokens drawn", lambda s: s.generated_tokens),
    Reading("slipstream_kv_bytes", "What live rows hold", lambda s: s.memory.kv),
    Reading("slipstream_kv_budget_bytes", "What live rows may hold", lambda s: s.memory.kv_budget),
    Reading(
        "slipstream_prefix_cache_bytes",
        "The prefix cache",
        lambda s: {"ram": s.prefix.bytes, "ssd": s.prefix.ssd_bytes},
        label="tier",
    ),
    Reading(
        "slipstream_prefix_cache_hits_total",
        "Rows that began with a prefix",
        lambda s: {"ram": s.prefix.hits, "ssd": s.prefix.ssd_hits},
        label="tier",
    ),
    Reading("slipstream_spec_drafted_total", "Tokens drafted", lambda s: s.spec.drafted),
    Reading("slipstream_spec_accepted_total", "Drafts accepted", lambda s: s.spec.accepted),
    Reading("slipstream_device_memory_bytes", "Memory by kind", device_memory, label="kind"),
    Reading("slipstream_faults_total", "Rows that ended in a fault of ours", faults, label="kind"),
    Reading("vllm:num_requests_running", "As slipstream_rows_active", active),
    Reading("vllm:num_requests_waiting", "As slipstream_queue_waiting", lambda s: s.waiting),
    Reading("vllm:kv_cache_usage_perc", "KV bytes over their budget, 0 to 1", kv_usage),
    Reading(
        "vllm:prefix_cache_queries_total", "Prompt tokens looked up", lambda s: s.prompt_tokens
    ),
    Reading("vllm:prefix_cache_hits_total", "Prompt tokens found", lambda s: s.cached_tokens),
    Reading("vllm:request_success_total", "Rows by end", successes, label="finished_reason"),
    Reading("vllm:prompt_tokens_total", "Prompt tokens", lambda s: s.prompt_tokens),
    Reading("vllm:generation_tokens_total", "Tokens drawn", lambda s: s.generated_tokens),
)


class EngineCollector(Collector):
    """Borrows `engine`. `twins` are histograms that are shown under a second name too."""

    def __init__(self, engine: Engine, model: str, twins: Mapping[str, Histogram]) -> None:
        self._engine = engine
        self._model = model
        self._twins = twins

    def collect(self) -> Iterator[Metric]:
        stats = self._engine.stats()
        for reading in READINGS:
            yield self._family(reading, stats)
        turns = SummaryMetricFamily(
            "slipstream_turn_seconds", "The device thread's time by phase", labels=["phase"]
        )
        for phase, seconds in dataclasses.asdict(stats.times).items():
            turns.add_metric([phase], count_value=stats.turns, sum_value=seconds)
        yield turns
        for name, histogram in self._twins.items():
            yield self._renamed(histogram, name)

    def _family(self, reading: Reading, stats: EngineStats) -> Metric:
        constant = self._constant(reading.name)
        labels = [*constant, *([reading.label] if reading.label else [])]
        kind = CounterMetricFamily if reading.name.endswith("_total") else GaugeMetricFamily
        family = kind(reading.name, reading.help, labels=labels)
        found = reading.read(stats)
        values = found if isinstance(found, Mapping) else {None: found}
        for label, value in values.items():
            family.add_metric([*constant.values(), *([label] if reading.label else [])], value)
        return family

    def _renamed(self, histogram: Histogram, name: str) -> Metric:
        (ours,) = histogram.collect()
        twin = Metric(name, f"As {ours.name}", ours.type)
        twin.samples = [
            sample._replace(
                name=name + sample.name.removeprefix(ours.name),
                labels={**self._constant(name), **sample.labels},
            )
            for sample in ours.samples
        ]
        return twin

    def _constant(self, name: str) -> Mapping[str, str]:
        return {"model_name": self._model} if name.startswith("vllm:") else {}
