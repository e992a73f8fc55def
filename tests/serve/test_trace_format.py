"""The trace file against the format of trace events that Chrome and Perfetto document."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from slipstream.contracts.trace import Hop, Moment, RequestTrace
from slipstream.serve.watch.trace_file import TraceFile
from slipstream.testing.clock import ManualClock

# "Trace Event Format": the array form, metadata events and nestable asynchronous ones.
COMMON = {"name": {"type": "string"}, "pid": {"type": "integer"}, "args": {"type": "object"}}
METADATA = {
    "properties": {**COMMON, "ph": {"const": "M"}, "name": {"enum": ["process_name"]}},
    "required": ["ph", "pid", "name", "args"],
}
ASYNC = {
    "properties": {
        **COMMON,
        "ph": {"enum": ["b", "n", "e"]},
        "cat": {"type": "string", "minLength": 1},
        "id": {"type": "string", "minLength": 1},
        "ts": {"type": "number", "minimum": 0},  # microseconds
        "tid": {"type": "integer"},
    },
    "required": ["ph", "pid", "tid", "cat", "id", "ts", "name"],
    "additionalProperties": False,
}
SCHEMA = {"type": "array", "items": {"type": "object", "oneOf": [METADATA, ASYNC]}}

times = st.integers(0, 1000).map(lambda ms: ms / 1000)
hops = st.tuples(st.sampled_from(["queue", "decode", "text"]), times, times).map(
    lambda one: Hop(one[0], *sorted(one[1:]))
)
moments = times.map(lambda at: Moment("park", at, {"lane": "group"}))


@st.composite
def traces(draw: st.DrawFn) -> RequestTrace:
    found = draw(st.lists(hops, min_size=1, max_size=6))
    return RequestTrace(
        name="chat model",
        start=min(hop.start for hop in found),
        end=max(hop.end for hop in found),
        attributes={"slipstream.reasons": ("a", "b"), "gen_ai.request.temperature": 0.5},
        hops=tuple(found),
        moments=tuple(draw(st.lists(moments, max_size=2))),
    )


@given(st.lists(traces(), max_size=3))
def test_any_file_is_of_the_format_and_every_span_is_closed_in_order(written):
    with TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        file = TraceFile(path, ManualClock())
        for trace in written:
            file.record(trace)
        file.close()
        events = json.loads(path.read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(events)
    open_spans = defaultdict(list)
    for event in events[1:]:
        spans = open_spans[event["cat"], event["id"]]
        if event["ph"] == "b":
            spans.append((event["name"], event["ts"]))
        elif event["ph"] == "e":
            name, began = spans.pop()
            assert (name, event["ts"] >= began) == (event["name"], True)
    assert not any(open_spans.values())
