"""What watching costs: metrics for each token, and a request's trace when it is on and off.

Prints a table and a last line of JSON, in microseconds.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from slipstream.contracts.clock import MonotonicClock
from slipstream.contracts.completion import Completion
from slipstream.contracts.delta import Delta
from slipstream.contracts.placement import AUTOREGRESSIVE, Lane, Placement
from slipstream.contracts.report import EngineStats, Report
from slipstream.contracts.row import FinishReason
from slipstream.contracts.trace import Hop, Tracer
from slipstream.serve.watch.latency import Latency
from slipstream.serve.watch.meter import Meter
from slipstream.serve.watch.metrics import Metrics
from slipstream.serve.watch.recent import RecentTraces
from slipstream.serve.watch.trace_file import TraceFile
from slipstream.serve.watch.tracing import Arrival

ROUNDS = 20_000
CLOCK = MonotonicClock()
LATENCY = Latency(CLOCK)
ARRIVAL = Arrival("id", "/v1/chat/completions")
COMPLETION = Completion(request_id="id", model="model", text="Hi")
PLACEMENT = Placement(lane=Lane.GROUP, method=AUTOREGRESSIVE, reasons=())
HOPS = tuple(Hop(name, 0.0, 1.0) for name in ("prepare", "place", "queue", "prefill", "decode"))
RUNNING = SimpleNamespace(
    report=Report(placement=PLACEMENT), hops=HOPS, moments=(), prompt_tokens=7
)


def microseconds(work: Callable[[], object]) -> float:
    """The best of three means."""
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        for _ in range(ROUNDS):
            work()
        best = min(best, (time.perf_counter() - began) / ROUNDS)
    return round(best * 1e6, 2)


def request(metrics: Metrics, tracer: Tracer | None) -> None:
    meter = Meter(ARRIVAL, metrics, LATENCY, CLOCK, tracer)
    meter.parsed()
    meter.count(0, Delta(tokens=1, finish=FinishReason.STOP))
    meter.end([COMPLETION], [RUNNING])


def main() -> None:
    metrics = Metrics(SimpleNamespace(stats=EngineStats), "model")
    meter, token = Meter(ARRIVAL, metrics, LATENCY, CLOCK, None), Delta(text="a", tokens=1)
    found = {"token": microseconds(lambda: meter.count(0, token))}
    found["request, no trace"] = microseconds(lambda: request(metrics, None))
    recent = RecentTraces()
    found["request, kept for the page"] = microseconds(lambda: request(metrics, recent))
    with tempfile.TemporaryDirectory() as folder:
        file = TraceFile(Path(folder, "trace.json"), CLOCK)
        found["request, --trace"] = microseconds(lambda: request(metrics, file))
        file.close()
    for name, cost in found.items():
        print(f"{name:<30}{cost:>8} us")
    print(json.dumps({"bench": "watch", **found}))


if __name__ == "__main__":
    main()
