"""GET /admin/rows and DELETE /admin/rows/{id}: every row that waits or runs, and a way to end it.

Holds the generations in progress; what they do it reads off the engine's port when asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope

from slipstream.contracts.clock import Clock
from slipstream.contracts.errors import NotFound
from slipstream.contracts.report import RowReport, RowState
from slipstream.contracts.row import CancelReason
from slipstream.serve.ports import Engine, Running
from slipstream.serve.wire import json_response

ON_DEVICE = frozenset({RowState.PREFILL, RowState.DECODE})


@dataclass(frozen=True, slots=True, eq=False)
class Live:
    """One request in progress, `choices` for each of its prompts; `began` in seconds on the clock
    of the table that holds it."""

    request_id: str
    began: float
    runnings: Sequence[Running]
    choices: int

    def cancel(self, reason: CancelReason) -> None:
        for running in self.runnings:
            running.cancel(reason)

    @property
    def rows(self) -> Iterator[tuple[int, RowReport]]:
        """Each with the index of its choice in the request."""
        for prompt, running in enumerate(self.runnings):
            for row in running.rows:
                yield prompt * self.choices + row.choice, row


class LiveRequests:
    """In order of arrival. Two may have one id: it is the client's to choose."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._live: dict[Live, None] = {}

    def enter(self, request_id: str, runnings: Sequence[Running], choices: int) -> Live:
        """To be ended with `leave`."""
        live = Live(request_id, self._clock.now(), runnings, choices)
        self._live[live] = None
        return live

    def leave(self, live: Live) -> None:
        del self._live[live]

    def find(self, request_id: str) -> Live | None:
        return next((one for one in self._live if one.request_id == request_id), None)

    def ages(self) -> Iterator[tuple[Live, float]]:
        """Each with its age in seconds."""
        now = self._clock.now()
        return ((live, now - live.began) for live in self._live)

    def cancel(self, reason: CancelReason, request_id: str | None = None) -> int:
        """Ends the requests with this id, or all of them. Says how many there were."""
        found = [one for one in self._live if request_id in (None, one.request_id)]
        for live in found:
            live.cancel(reason)
        return len(found)


class Rows:
    """The handlers; see routing.Handler."""

    def __init__(self, engine: Engine, live: LiveRequests) -> None:
        self._engine = engine
        self._live = live

    async def show(self, scope: Scope, receive: Receive) -> Response:
        parked = self._engine.stats().lease_held_by is not None
        rows = [
            described(live.request_id, choice, row, age, parked)
            for live, age in self._live.ages()
            for choice, row in live.rows
        ]
        return json_response({"rows": rows})

    async def cancel(self, scope: Scope, receive: Receive) -> Response:
        """Raises NotFound when no live request has this id."""
        request_id = scope["path_params"]["name"]
        cancelled = self._live.cancel(CancelReason.OPERATOR, request_id)
        if not cancelled:
            raise NotFound(f"No request {request_id[:200]} waits or runs here.")
        return json_response({"id": request_id, "cancelled": cancelled})


def described(
    request_id: str, choice: int, row: RowReport, age: float, parked: bool
) -> Mapping[str, Any]:
    """`age` in seconds; `parked`: an exclusive job has the device."""
    state = RowState.PARKED if parked and row.state in ON_DEVICE else row.state
    return {
        "id": request_id,
        "choice": choice,
        "lane": row.placement.lane,
        "state": state,
        "prompt_tokens": row.prompt_tokens,
        "computed": row.computed,
        "cached_tokens": row.cached_tokens,
        "generated": row.generated,
        "age_ms": round(age * 1000, 1),
        "reasons": row.placement.reasons,
    }
