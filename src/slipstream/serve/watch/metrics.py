"""GET /metrics: what requests were like, and the engine's numbers beside it, for Prometheus.

Everything hangs on one registry of its own. Labels come from the route table and from enums, so
no client can make their number grow.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import choose_encoder
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slipstream.contracts.placement import AUTOREGRESSIVE, Lane, Placement
from slipstream.contracts.row import CancelReason, FinishReason
from slipstream.serve.ports import Engine
from slipstream.serve.watch.numbers import EngineCollector

OTHER = "other"  # route: nothing matched, or it was refused before that was known
OK, REFUSED, FAULT = "ok", "refused", "fault"
FINISHES = frozenset([*FinishReason, *CancelReason, OK, REFUSED, FAULT])
WAITS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
GAPS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5, 10)


class Metrics:
    """Borrows `engine`. `model` is what the `vllm:` names carry as `model_name`."""

    def __init__(self, engine: Engine, model: str) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "slipstream_requests_total",
            "Requests by route and end",
            ["route", "finish"],
            registry=self._registry,
        )
        self._placements = Counter(
            "slipstream_placements_total",
            "Requests placed, by lane and method",
            ["lane", "method"],
            registry=self._registry,
        )
        for lane in Lane:
            self._placements.labels(lane, AUTOREGRESSIVE)
        self.queue = self._histogram("queue_seconds", "From submission to a place", WAITS)
        self.ttft = self._histogram("ttft_seconds", "From arrival to the first token", WAITS)
        self.inter_token = self._histogram("inter_token_seconds", "From token to token", GAPS)
        self.request = self._histogram("request_seconds", "From arrival to the last byte", WAITS)
        twins = {
            "vllm:time_to_first_token_seconds": self.ttft,
            "vllm:inter_token_latency_seconds": self.inter_token,
            "vllm:e2e_request_latency_seconds": self.request,
        }
        self._registry.register(EngineCollector(engine, model, twins))

    def place(self, placement: Placement) -> None:
        self._placements.labels(placement.lane, placement.method).inc()

    async def show(self, scope: Scope, receive: Receive) -> Response:
        """As OpenMetrics to who asks for it, else in Prometheus' own text format."""
        encode, media = choose_encoder(Headers(scope=scope).get("accept", ""))
        return Response(encode(self._registry), headers={"content-type": media})

    def _histogram(self, name: str, help: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"slipstream_{name}", help, buckets=buckets, registry=self._registry)


class Counted:
    """Counts every request, once it has ended, by its route and its end.

    A generation leaves its end in the scope's state; for all others the status tells."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status: int | None = None

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            state: Mapping[str, str] = scope["state"]
            finish = state.get("finish") or by_status(status)
            self._metrics.requests.labels(state.get("route", OTHER), finish).inc()


def by_status(status: int | None) -> str:
    """The end of what generated nothing. None: nobody was there to be answered."""
    if status is None:
        return CancelReason.DISCONNECT
    if status < 400:
        return OK
    return REFUSED if status < 500 or status == 503 else FAULT
