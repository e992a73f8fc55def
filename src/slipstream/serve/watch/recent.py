"""GET /admin/traces and /admin/traces/{id}: where the time of the last requests went.

A Tracer that keeps the newest traces in memory, bounded by count and by parts. Traces hold no
text of a prompt or an answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope

from slipstream.contracts.clock import Clock
from slipstream.contracts.errors import NotFound
from slipstream.contracts.trace import Hop, Moment, RequestTrace, Value
from slipstream.serve.watch.rows import LiveRequests
from slipstream.serve.watch.tracing import placed
from slipstream.serve.wire import json_response

MOST = 256  # traces
LISTED = 50  # traces of a list
MOST_PARTS = 16_384  # hops and moments of all of them; a request of many choices has many
LONGEST = 200  # characters of a name or a value
OPEN = "running"
ENDED = "ended"


class RecentTraces:
    """A Tracer. Two requests may have one id, which is the client's to choose: the newer one is
    found."""

    def __init__(self, most: int = MOST, most_parts: int = MOST_PARTS) -> None:
        self._most = most
        self._most_parts = most_parts
        self._kept: deque[RequestTrace] = deque()
        self._parts = 0

    def record(self, trace: RequestTrace) -> None:
        self._kept.append(shortened(trace))
        self._parts += parts(trace)
        while len(self._kept) > 1 and (
            len(self._kept) > self._most or self._parts > self._most_parts
        ):
            self._parts -= parts(self._kept.popleft())

    def close(self) -> None:
        """Nothing is held back."""

    def __iter__(self) -> Iterator[RequestTrace]:
        """The newest first."""
        return reversed(self._kept)

    def find(self, request_id: str) -> RequestTrace | None:
        return next((one for one in self if named(one) == request_id), None)


class Traces:
    """The handlers; see routing.Handler. Borrows both tables; `clock` is theirs."""

    def __init__(self, recent: RecentTraces, live: LiveRequests, clock: Clock) -> None:
        self._recent = recent
        self._live = live
        self._clock = clock

    async def list(self, scope: Scope, receive: Receive) -> Response:
        now = self._clock.now()
        newest = islice(self._recent, LISTED)
        return json_response({"traces": [brief(one, now) for one in newest]})

    async def show(self, scope: Scope, receive: Receive) -> Response:
        """One that runs as far as it is. Raises NotFound."""
        request_id = scope["path_params"]["name"]
        now = self._clock.now()
        if running := self._running(request_id, now):
            return json_response(running)
        trace = self._recent.find(request_id)
        if trace is None:
            raise NotFound(
                f"No trace of {request_id[:LONGEST]} is kept; the last {MOST} requests have one."
            )
        return json_response(
            {
                **brief(trace, now),
                "attributes": trace.attributes,
                "hops": hops(trace.hops, trace.start),
                "moments": moments(trace.moments, trace.start),
            }
        )

    def _running(self, request_id: str, now: float) -> Mapping[str, Any] | None:
        """Of a request that has not ended: what is over, and since when it is where it is."""
        live = self._live.find(request_id)
        if live is None:
            return None
        over = [hop for running in live.runnings for hop in running.hops]
        happened = [moment for running in live.runnings for moment in running.moments]
        start = min([live.began, *(hop.start for hop in over)])
        return {
            "id": request_id[:LONGEST],
            "state": OPEN,
            "age_ms": milliseconds(now - start),
            "duration_ms": milliseconds(now - start),
            "error": "",
            "attributes": placed(live.runnings[0]),
            "hops": hops(over, start),
            "moments": moments(happened, start),
        }


def parts(trace: RequestTrace) -> int:
    return len(trace.hops) + len(trace.moments)


def named(trace: RequestTrace) -> Value:
    return trace.attributes["slipstream.request_id"]


def brief(trace: RequestTrace, now: float) -> Mapping[str, Any]:
    """What a list shows of an ended request. Phases are the longest of its rows'."""
    told = trace.attributes
    return {
        "id": str(named(trace))[:LONGEST],
        "state": ENDED,
        "age_ms": milliseconds(now - trace.start),
        "duration_ms": milliseconds(trace.end - trace.start),
        "error": trace.error,
        "finish": ", ".join(told["gen_ai.response.finish_reasons"]),
        "route": told["http.route"],
        "lane": told["slipstream.lane"],
        "reasons": told["slipstream.reasons"],
        "prompt_tokens": told["gen_ai.usage.input_tokens"],
        "generated": told["gen_ai.usage.output_tokens"],
        "phases_ms": {
            name: milliseconds(longest(trace.hops, name)) for name in ("queue", "prefill", "decode")
        },
    }


def longest(found: Sequence[Hop], name: str) -> float:
    return max((hop.end - hop.start for hop in found if hop.name == name), default=0.0)


def hops(found: Sequence[Hop], start: float) -> list[Mapping[str, Any]]:
    """In order of their beginning; `start` is the request's."""
    return [
        {
            "name": hop.name,
            "start_ms": milliseconds(hop.start - start),
            "duration_ms": milliseconds(hop.end - hop.start),
        }
        for hop in sorted(found, key=lambda hop: (hop.start, hop.end))
    ]


def moments(found: Sequence[Moment], start: float) -> list[Mapping[str, Any]]:
    return [
        {
            "name": moment.name,
            "at_ms": milliseconds(moment.at - start),
            "attributes": moment.attributes,
        }
        for moment in sorted(found, key=lambda moment: moment.at)
    ]


def shortened(trace: RequestTrace) -> RequestTrace:
    """A client chooses what its model is called, and so may be long."""
    return replace(
        trace,
        name=trace.name[:LONGEST],
        traceparent=trace.traceparent[:LONGEST],
        attributes={
            name: value[:LONGEST] if isinstance(value, str) else value
            for name, value in trace.attributes.items()
        },
    )


def milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)
