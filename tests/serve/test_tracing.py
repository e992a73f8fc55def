"""Traces: what is told of a request, the file that survives a crash, and the spans of OTLP."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.server
import json
import threading
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from slipstream.contracts.clock import MonotonicClock
from slipstream.contracts.delta import Delta
from slipstream.contracts.errors import QueueFull, RowFault
from slipstream.contracts.row import CancelReason
from slipstream.contracts.trace import Hop, Moment, RequestTrace
from slipstream.serve.app import App
from slipstream.serve.watch.trace_file import TraceFile, tracks
from slipstream.serve.watch.trace_otlp import Otlp, exporter
from slipstream.serve.watch.tracing import Tracers
from slipstream.settings import Settings
from slipstream.testing.clock import ManualClock

from .scripted import (
    CHAT,
    COMPLETIONS,
    HELLO,
    MODEL,
    ScriptedEngine,
    chat,
    client_of,
    text,
)

pytestmark = pytest.mark.anyio

TRACE_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE_ID}-{PARENT_ID}-01"
FULL = Path("/dev/full")
ENGINE_HOPS = (Hop("prepare", 1.0, 2.0), Hop("queue", 2.0, 3.0), Hop("decode", 3.0, 9.0))


class Kept:
    """A Tracer that keeps what it is told."""

    def __init__(self) -> None:
        self.traces: list[RequestTrace] = []
        self.closed = False

    def record(self, trace: RequestTrace) -> None:
        self.traces.append(trace)

    def close(self) -> None:
        self.closed = True


@contextlib.asynccontextmanager
async def traced(engine):
    """A client, and the Tracer behind it."""
    kept = Kept()
    async with client_of(engine, app=App(engine, Settings(), tracer=kept)) as client:
        yield client, kept


@pytest.mark.parametrize("stream", [False, True])
async def test_a_generation_is_told_once_with_its_hops(engine, stream):
    async with traced(engine) as (client, kept):
        await client.post(CHAT, json=chat(stream=stream, temperature=0.5, max_tokens=9))
    (trace,) = kept.traces
    assert trace.name == f"chat {MODEL}"
    assert [hop.name for hop in trace.hops] == ["parse", "text", "render"]
    assert all(trace.start <= hop.start <= hop.end <= trace.end for hop in trace.hops)
    assert trace.error == ""


async def test_attributes_have_the_names_of_opentelemetry(engine):
    async with traced(engine) as (client, kept):
        await client.post(CHAT, json=chat(temperature=0.5, max_tokens=9, n=1))
    told = kept.traces[0].attributes
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.request.model"] == MODEL
    assert told["gen_ai.request.temperature"] == 0.5
    assert told["gen_ai.request.max_tokens"] == 9
    assert told["gen_ai.usage.input_tokens"] == 7
    assert told["gen_ai.usage.output_tokens"] == 5
    assert told["gen_ai.response.finish_reasons"] == ("stop",)
    assert (told["http.route"], told["slipstream.lane"]) == (CHAT, "group")


async def test_the_engine_adds_its_hops_and_moments(engine):
    moment = Moment("join", 2.0, {"lane": "group"})
    async with traced(engine) as (client, kept):
        engine.script = (Delta(tokens=1), asyncio.Event())
        asking = asyncio.create_task(client.post(COMPLETIONS, json=text()))
        await engine.submitted.wait()
        running = engine.runnings[0]
        await running.read.wait()
        running.hops, running.moments = ENGINE_HOPS, (moment,)
        running.cancel(CancelReason.SHUTDOWN)
        await asking
    (trace,) = kept.traces
    assert {"prepare", "queue", "decode"} <= {hop.name for hop in trace.hops}
    assert (trace.moments, trace.start) == ((moment,), 1.0)
    assert (trace.name, trace.error) == (f"text_completion {MODEL}", "shutdown")


async def test_a_fault_is_told_as_one(engine):
    engine.script = (RowFault("sampler", "broke"),)
    async with traced(engine) as (client, kept):
        await client.post(CHAT, json=chat(), headers={"traceparent": TRACEPARENT})
    assert (kept.traces[0].error, kept.traces[0].traceparent) == ("fault", TRACEPARENT)
    assert [hop.name for hop in kept.traces[0].hops] == ["parse"]


async def test_what_generates_nothing_is_not_told(engine):
    engine.refusal = QueueFull("full")
    async with traced(engine) as (client, kept):
        await client.post(CHAT, json=chat())
        await client.get("/stats")
    assert kept.traces == []


def request(**fields) -> RequestTrace:
    given = {
        "name": "chat m",
        "start": 1.0,
        "end": 9.0,
        "attributes": {"gen_ai.operation.name": "chat", "slipstream.reasons": ("a", "b")},
        "hops": (*ENGINE_HOPS, Hop("text", 4.0, 8.0)),
        "moments": (Moment("first_token", 3.0, {}),),
        "traceparent": TRACEPARENT,
        **fields,
    }
    return RequestTrace(**given)


def test_the_file_is_whole_after_every_write(tmp_path):
    path = tmp_path / "trace.json"
    file = TraceFile(path, ManualClock())
    assert [event["ph"] for event in json.loads(path.read_text())] == ["M"]
    for count in (1, 2, 3):
        file.record(request())
        events = json.loads(path.read_text())
        assert sum(event["name"] == "chat m" for event in events) == 2 * count


def test_spans_of_the_file_nest_and_requests_do_not_mix(tmp_path):
    path = tmp_path / "trace.json"
    file = TraceFile(path, ManualClock())
    file.record(request())
    file.record(request(name="chat n"))
    open_spans: dict[str, list[str]] = {}
    times: dict[str, float] = {}
    for event in json.loads(path.read_text())[1:]:
        stack = open_spans.setdefault(event["id"], [])
        if event["ph"] == "b":
            stack.append(event["name"])
        elif event["ph"] == "e":
            assert stack.pop() == event["name"]
        if event["ph"] in "be":
            assert event["ts"] >= times.get(event["id"], 0.0)
            times[event["id"]] = event["ts"]
    assert set(open_spans) == {"1", "1.1", "2", "2.1"}
    assert not any(open_spans.values())


def test_hops_that_overlap_get_tracks_of_their_own():
    found = tracks([Hop("c", 2, 4), Hop("a", 0, 1), Hop("b", 1, 3), Hop("d", 3, 5)])
    assert [[hop.name for hop in track] for track in found] == [["a", "b", "d"], ["c"]]


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
def test_a_file_that_cannot_be_made_is_told_at_once():
    with pytest.raises(OSError, match="No space"):
        TraceFile(FULL, ManualClock())


def test_a_closed_file_takes_no_more_and_does_not_mind(tmp_path):
    file = TraceFile(tmp_path / "trace.json", ManualClock())
    file.close()
    file.record(request())


def spans_of(*traces: RequestTrace):
    """What arrives at a collector, by name."""
    memory = InMemorySpanExporter()
    otlp = Otlp(memory, MonotonicClock())
    for trace in traces:
        otlp.record(trace)
    otlp.close()
    return {span.name: span for span in memory.get_finished_spans()}


def test_a_callers_trace_goes_on():
    root = spans_of(request())["chat m"]
    assert f"{root.context.trace_id:032x}" == TRACE_ID
    assert f"{root.parent.span_id:016x}" == PARENT_ID


@pytest.mark.parametrize("header", ["", "nonsense", "00-0-0-00", "é" * 55])
def test_without_a_sane_caller_a_trace_begins_here(header):
    assert spans_of(request(traceparent=header))["chat m"].parent is None


def test_hops_are_children_with_their_times():
    spans = spans_of(request())
    root = spans.pop("chat m")
    assert set(spans) == {"prepare", "queue", "decode", "text"}
    assert {span.parent.span_id for span in spans.values()} == {root.context.span_id}
    assert spans["decode"].end_time - spans["decode"].start_time == pytest.approx(6e9, abs=1e4)
    assert [event.name for event in root.events] == ["first_token"]


def test_a_bad_end_is_an_error():
    good, bad = spans_of(request())["chat m"], spans_of(request(error="fault"))["chat m"]
    assert good.status.is_unset
    assert (bad.status.is_ok, bad.attributes["error.type"]) == (False, "fault")


def test_spans_reach_a_collector_over_http():
    bodies: list[tuple[str, bytes]] = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            size = int(self.headers["content-length"])
            bodies.append((self.path, self.rfile.read(size)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            """Says nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        otlp = Otlp(exporter(f"http://127.0.0.1:{server.server_port}"), MonotonicClock())
        otlp.record(request())
        otlp.close()
        server.shutdown()
    ((path, body),) = bodies
    sent = ExportTraceServiceRequest.FromString(gunzipped(body))
    assert path == "/v1/traces"
    assert len(sent.resource_spans[0].scope_spans[0].spans) == 1 + len(request().hops)


def gunzipped(body: bytes) -> bytes:
    return gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body


def test_several_are_told_and_closed():
    both = (Kept(), Kept())
    tracers = Tracers(both)
    tracers.record(request())
    tracers.close()
    assert all(one.closed and len(one.traces) == 1 for one in both)


async def test_two_runs_of_hello_differ_in_nothing_but_the_trace(engine):
    """Off or on, a client sees the same."""
    async with traced(engine) as (client, _), client_of(ScriptedEngine(HELLO)) as plain:
        ours, theirs = [(await one.post(CHAT, json=chat())).json() for one in (client, plain)]
    for answer in (ours, theirs):
        answer.pop("id"), answer.pop("created")
    assert ours == theirs


class Away(SpanExporter):
    """Of a collector that does not answer before it is `back`."""

    def __init__(self):
        self.back = threading.Event()

    def export(self, spans):
        self.back.wait()
        return SpanExportResult.FAILURE

    def shutdown(self):
        self.back.wait()


def test_a_collector_that_is_away_does_not_hold_up_the_end(caplog):
    away = Away()
    otlp = Otlp(away, MonotonicClock())
    otlp.record(request())
    otlp.close()
    assert not away.back.is_set()
    assert "did not take the last spans" in caplog.text
    away.back.set()
