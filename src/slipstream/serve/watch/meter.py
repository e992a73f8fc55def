"""One request's watch: what it tells the metrics as it goes, and the tracer once it has ended.

It knows no API, and no tracer by name.
"""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.contracts.clock import Clock
from slipstream.contracts.completion import Completion
from slipstream.contracts.delta import Delta
from slipstream.contracts.errors import Cancelled, OverBudget
from slipstream.contracts.row import CancelReason
from slipstream.contracts.trace import Hop, Tracer
from slipstream.serve.ports import Running
from slipstream.serve.watch.latency import Latency
from slipstream.serve.watch.metrics import FAULT, REFUSED, Metrics
from slipstream.serve.watch.tracing import Arrival, request_trace


class Meter:
    """Begins when the request arrives. Times are seconds on `clock`, which is the engine's."""

    def __init__(
        self,
        arrival: Arrival,
        metrics: Metrics,
        latency: Latency,
        clock: Clock,
        tracer: Tracer | None,
    ) -> None:
        self.finish = ""
        self._arrival = arrival
        self._metrics = metrics
        self._latency = latency
        self._clock = clock
        self._tracer = tracer
        self._began = self._parsed = self._newest = clock.now()
        self._first: float | None = None
        self._last: dict[tuple[int, int], float] = {}  # token of each row
        self._tokens = 0

    def parsed(self) -> None:
        self._parsed = self._clock.now()

    def placed(self, runnings: Sequence[Running]) -> None:
        for running in runnings:
            self._metrics.place(running.report.placement)

    def count(self, source: int, delta: Delta) -> None:
        """Books the time of a delta's tokens. Several that come at once share their gap."""
        if delta.finish is not None:
            self.finish = delta.finish
        if not delta.tokens:
            return
        now = self._newest = self._clock.now()
        row = (source, delta.choice)
        before = self._last.get(row)
        self._last[row] = now
        self._tokens += delta.tokens
        if before is not None:
            gap = (now - before) / delta.tokens
            for _ in range(delta.tokens):
                self._metrics.inter_token.observe(gap)
                self._latency.gaps.add(now, gap)
        elif self._first is None:
            self._first = now
            self._metrics.ttft.observe(now - self._began)
            self._latency.first_tokens.add(now, now - self._began)

    def fail(self, error: BaseException) -> None:
        """Books a bad end."""
        match error:
            case Cancelled(reason=reason):
                self.finish = CancelReason(reason)
            case OverBudget():
                self.finish = REFUSED
            case Exception():
                self.finish = FAULT
            case _:  # the connection's own task was ended
                self.finish = CancelReason.DISCONNECT

    def end(self, completions: Sequence[Completion], runnings: Sequence[Running]) -> None:
        """Books the whole. To be called once, after the last byte."""
        now = self._clock.now()
        self._metrics.request.observe(now - self._began)
        if self._first is not None:
            for running in runnings:
                self._metrics.queue.observe(running.report.queue_ms / 1000)
        if self._tracer is not None:
            self._tracer.record(
                request_trace(
                    self._arrival,
                    completions[0],
                    runnings,
                    self._hops(now),
                    finish=self.finish,
                    tokens=self._tokens,
                )
            )

    def _hops(self, now: float) -> list[Hop]:
        """Those on this side of the engine: the first, and where it came so far the last two."""
        parse = Hop("parse", self._began, self._parsed)
        if self._first is None:
            return [parse]
        return [parse, Hop("text", self._first, self._newest), Hop("render", self._first, now)]
