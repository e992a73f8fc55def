"""Traces as OpenTelemetry spans, sent to a collector over OTLP. Needs the extra `otlp`.

It uses a provider of its own, and not the process's.
"""

from __future__ import annotations

import logging
import threading
import time
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from slipstream.contracts.clock import Clock
from slipstream.contracts.trace import RequestTrace

log = logging.getLogger(__name__)
TRACES_PATH = "/v1/traces"
LAST_WORDS = 1.0  # seconds


class Otlp:
    """A Tracer. Takes `exporter`; spans leave in batches, from a thread of its own."""

    def __init__(self, exporter: SpanExporter, clock: Clock) -> None:
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": "slipstream"}), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("slipstream")
        self._offset = time.time() - clock.now()
        self._callers = TraceContextTextMapPropagator()

    def record(self, trace_: RequestTrace) -> None:
        caller = self._callers.extract({"traceparent": trace_.traceparent})
        root = self._tracer.start_span(
            trace_.name,
            context=caller,
            kind=SpanKind.SERVER,
            attributes=trace_.attributes,
            start_time=self._at(trace_.start),
        )
        if trace_.error:
            root.set_attribute("error.type", trace_.error)
            root.set_status(Status(StatusCode.ERROR, trace_.error))
        for moment in trace_.moments:
            root.add_event(moment.name, moment.attributes, self._at(moment.at))
        inside = trace.set_span_in_context(root)
        for hop in trace_.hops:
            span = self._tracer.start_span(hop.name, inside, start_time=self._at(hop.start))
            span.end(self._at(hop.end))
        root.end(self._at(trace_.end))

    def close(self) -> None:
        """Sends what is held back, for LAST_WORDS at most: a collector may be away."""
        # The provider's own end tries again and again, and cannot be told for how long.
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        ending.join(LAST_WORDS)
        if ending.is_alive():
            log.warning("the collector of --otlp did not take the last spans")

    def _at(self, seconds: float) -> int:
        """Nanoseconds since 1970."""
        return int((seconds + self._offset) * 1e9)


def exporter(url: str) -> OTLPSpanExporter:
    """Of a collector at `url`, whose path is the usual one where there is none."""
    bare = urlsplit(url).path in ("", "/")
    return OTLPSpanExporter(endpoint=url.rstrip("/") + TRACES_PATH if bare else url)
