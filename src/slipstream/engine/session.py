"""One request's life as the event loop sees it: its events, its end, its report.

It is told what happened once a turn, and knows neither the thread nor the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from slipstream.contracts.errors import ByOperator, Cancelled, OutOfTime
from slipstream.contracts.placement import Placement
from slipstream.contracts.report import Report, RowReport, RowState
from slipstream.contracts.row import CancelReason, Failed, Outcome, RowSpec, Stopped, TokenEvent
from slipstream.contracts.trace import Attributes, Hop, Moment
from slipstream.engine.mailbox import Progress, Update

HOPS = ("queue", "prefill", "decode")


class Session:
    """A TokenSource with one reader. It ends exactly once, and then its row is released."""

    def __init__(
        self,
        spec: RowSpec,
        placement: Placement,
        *,
        submitted: float,
        outbox: int,
        stop: Callable[[Session, CancelReason], None],
    ) -> None:
        """`outbox`: unread events that are kept before the reader is cut off.

        `stop` is called at most once, to end from outside what has not ended."""
        self.spec = spec
        self.placement = placement
        self.outcome: Outcome | None = None
        self.submitted = submitted
        self._outbox = outbox
        self._stop = stop
        self._reason: CancelReason | None = None
        self.progress = Progress()
        self._unread: list[TokenEvent] = []
        self._changed = asyncio.Event()

    async def batches(self) -> AsyncIterator[Sequence[TokenEvent]]:
        """Events in order, as many at a time as are there. Ends after the last one.

        Raises Fault when the row failed, Cancelled when it was ended from outside; a matched
        stop string is a good end."""
        while self._unread or self.outcome is None:
            if self._unread:
                taken, self._unread = self._unread, []
                yield taken
            else:
                self._changed.clear()
                await self._changed.wait()
        match self.outcome:
            case Failed(error):
                raise error
            case Stopped(reason) if reason is not CancelReason.STOP_STRING:
                raise self._cancelled(reason)

    def cancel(self, reason: CancelReason) -> None:
        """Ends it from outside, within one turn. The first reason stays; later ones are void."""
        if self.outcome is None and self._reason is None:
            self._reason = reason
            self._stop(self, reason)

    def push(self, update: Update) -> None:
        """Takes what a turn did for this row. Events after a cancel are dropped."""
        assert self.outcome is None, "a session ends once"
        self.progress = update.progress
        if self._reason is None:
            self._unread += update.events
            if len(self._unread) > self._outbox:
                # It may end in this very update; it must not look whole then.
                self._reason = CancelReason.SLOW_READER
                del self._unread[self._outbox :]
                if update.outcome is None:
                    self._stop(self, self._reason)
        if update.outcome is not None:
            self.outcome = Stopped(self._reason) if self._reason else update.outcome
        self._changed.set()

    @property
    def report(self) -> Report:
        progress, prompt = self.progress, self.spec.prompt
        return Report(
            placement=self.placement,
            queue_ms=milliseconds(self.submitted, progress.admitted),
            prefill_ms=milliseconds(progress.admitted, progress.first),
            decode_ms=milliseconds(progress.first, progress.last),
            prompt_tokens=len(prompt.ids),
            cached_tokens=progress.cached,
            rows_peak=progress.rows_peak,
            sampling=prompt.sampling,
        )

    def row(self, choice: int) -> RowReport:
        """It as the row of choice `choice`; of a session that has not ended."""
        progress = self.progress
        started = RowState.PREFILL if progress.first is None else RowState.DECODE
        return RowReport(
            choice=choice,
            placement=self.placement,
            state=RowState.QUEUED if progress.admitted is None else started,
            prompt_tokens=len(self.spec.prompt.ids),
            computed=progress.computed,
            cached_tokens=progress.cached,
            generated=progress.generated,
        )

    @property
    def hops(self) -> list[Hop]:
        """queue, prefill and decode, as far as it came."""
        progress = self.progress
        marks = (self.submitted, progress.admitted, progress.first, progress.last)
        return [
            Hop(name, start, end)
            for name, start, end in zip(HOPS, marks, marks[1:], strict=False)
            if start is not None and end is not None
        ]

    @property
    def moments(self) -> list[Moment]:
        """When it joined, what the prefix cache had, its first token, rests, and its leave."""
        progress = self.progress
        if progress.admitted is None:
            return []
        outcome = "hit" if progress.cached else "miss"
        cache: Attributes = {"outcome": outcome, "cached_tokens": progress.cached}
        found = [
            Moment("join", progress.admitted, {"lane": self.placement.lane.value}),
            Moment("cache", progress.admitted, cache),
            *(Moment("park", at, {}) for at in progress.parked),
        ]
        if progress.first is not None:
            found.append(Moment("first_token", progress.first, {}))
        if progress.last is not None:
            found.append(Moment("leave", progress.last, {"rows_peak": progress.rows_peak}))
        return found

    def _cancelled(self, reason: CancelReason) -> Cancelled:
        if reason is CancelReason.DEADLINE:
            return self._late()
        if reason is CancelReason.OPERATOR:
            return ByOperator(reason, "Somebody who runs this server has ended the request.")
        return Cancelled(reason, self._explain(reason))

    def _late(self) -> Cancelled:
        """Another try can help a request that mostly waited, and not one that mostly ran."""
        seconds, admitted = self.spec.deadline - self.submitted, self.progress.admitted
        waited = seconds if admitted is None else admitted - self.submitted
        if waited > seconds / 2:
            return Cancelled(
                CancelReason.DEADLINE,
                f"The request waited in the queue for {waited:.3g} of its {seconds:g} s. "
                "Try again later, or raise --batch or --request-timeout.",
            )
        return OutOfTime(
            CancelReason.DEADLINE,
            f"The request was not done within {seconds:g} s. "
            "Ask for fewer tokens, or raise --request-timeout.",
        )

    def _explain(self, reason: CancelReason) -> str:
        match reason:
            case CancelReason.SLOW_READER:
                return (
                    f"More than {self._outbox} tokens were waiting to be read. "
                    "Read the stream faster."
                )
            case CancelReason.SHUTDOWN:
                return "The server is shutting down. Send the request again once it is back."
            case CancelReason.DISCONNECT:
                return "The client has gone away."
            case _:
                return "The text of this request could not be made; its tokens were stopped."


def milliseconds(start: float | None, end: float | None) -> float:
    return 0.0 if start is None or end is None else (end - start) * 1000
