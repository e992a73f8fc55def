"""What is told about an ended request: its hops, what happened on its way, and its attributes.

Names of attributes are OpenTelemetry's for generative AI where it has one. Knows no exporter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from slipstream.contracts.completion import Completion
from slipstream.contracts.row import FinishReason
from slipstream.contracts.trace import Attributes, Hop, RequestTrace, Tracer, Value
from slipstream.serve.ports import Running

SAMPLING: Mapping[str, str] = MappingProxyType(
    {
        "temperature": "gen_ai.request.temperature",
        "top_p": "gen_ai.request.top_p",
        "top_k": "gen_ai.request.top_k",
        "seed": "gen_ai.request.seed",
        "frequency_penalty": "gen_ai.request.frequency_penalty",
        "presence_penalty": "gen_ai.request.presence_penalty",
    }
)


class Tracers:
    """A Tracer that tells several, and takes them."""

    def __init__(self, each: Sequence[Tracer]) -> None:
        self._each = each

    def record(self, trace: RequestTrace) -> None:
        for tracer in self._each:
            tracer.record(trace)

    def close(self) -> None:
        for tracer in self._each:
            tracer.close()


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a request says of itself before it is read. `traceparent` is a W3C header or empty."""

    request_id: str
    route: str
    traceparent: str = ""


def request_trace(
    arrival: Arrival,
    completion: Completion,
    runnings: Sequence[Running],
    ours: Sequence[Hop],
    *,
    finish: str,
    tokens: int,
) -> RequestTrace:
    """`ours` are the hops on this side of the engine. A request of several prompts shows the
    attributes of the first."""
    theirs = [hop for running in runnings for hop in running.hops]
    hops = (*ours, *theirs)
    operation = "chat" if completion.messages is not None else "text_completion"
    return RequestTrace(
        name=f"{operation} {completion.model}",
        start=min(hop.start for hop in hops),
        end=max(hop.end for hop in hops),
        attributes={
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": "slipstream",
            "gen_ai.request.model": completion.model,
            "gen_ai.response.finish_reasons": (finish,),
            "gen_ai.usage.input_tokens": sum(running.prompt_tokens for running in runnings),
            "gen_ai.usage.output_tokens": tokens,
            "http.route": arrival.route,
            "slipstream.request_id": arrival.request_id,
            **asked(completion),
            **placed(runnings[0]),
        },
        hops=hops,
        moments=tuple(moment for running in runnings for moment in running.moments),
        traceparent=arrival.traceparent,
        error="" if finish in [*FinishReason] else finish,
    )


def asked(completion: Completion) -> Attributes:
    found: dict[str, Value] = {
        SAMPLING[name]: value
        for name, value in completion.sampling.items()
        if name in SAMPLING and value is not None
    }
    if completion.max_tokens is not None:
        found["gen_ai.request.max_tokens"] = completion.max_tokens
    if completion.choices != 1:
        found["gen_ai.request.choice.count"] = completion.choices
    return found


def placed(running: Running) -> Attributes:
    report = running.report
    return {
        "slipstream.lane": report.placement.lane.value,
        "slipstream.method": report.placement.method,
        "slipstream.reasons": tuple(report.placement.reasons),
        "slipstream.cached_tokens": report.cached_tokens,
        "slipstream.rows_peak": report.rows_peak,
    }
