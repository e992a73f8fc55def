"""One request that was accepted: its deltas, once, and what it says of itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from slipstream.contracts.delta import Delta
from slipstream.contracts.report import Report, RowReport
from slipstream.contracts.row import CancelReason
from slipstream.contracts.trace import Hop, Moment
from slipstream.engine.session import Session
from slipstream.text.prepare import Prepared
from slipstream.text.sink import deltas, merged


class Running:
    """One accepted request, with a session for each choice: its deltas, once, and its report."""

    def __init__(
        self, sessions: Sequence[Session], prepared: Prepared, before: Sequence[Hop]
    ) -> None:
        """`before`: where the request was before it had sessions."""
        self._sessions = sessions
        self._prepared = prepared
        self._before = before

    @property
    def prompt_tokens(self) -> int:
        return len(self._prepared.prompt.ids)

    @property
    def ignored(self) -> tuple[str, ...]:
        """Fields that change nothing with this model."""
        return self._prepared.ignored

    @property
    def report(self) -> Report:
        return Report.overlapping([session.report for session in self._sessions])

    @property
    def rows(self) -> list[RowReport]:
        """Its choices that have not ended."""
        return [
            session.row(choice)
            for choice, session in enumerate(self._sessions)
            if session.outcome is None
        ]

    @property
    def hops(self) -> list[Hop]:
        """Where it was so far, beginning with prepare; on the monotonic clock."""
        return [*self._before, *(hop for session in self._sessions for hop in session.hops)]

    @property
    def moments(self) -> list[Moment]:
        """What happened to its rows so far, on the same clock."""
        return [moment for session in self._sessions for moment in session.moments]

    def deltas(self) -> AsyncGenerator[Delta, None]:
        """Of all choices as they come. Raises Fault or Cancelled; that, and closing it early,
        ends the request."""
        streams = [
            deltas(session, self._prepared.sink(choice))
            for choice, session in enumerate(self._sessions)
        ]
        return streams[0] if len(streams) == 1 else merged(streams)

    def cancel(self, reason: CancelReason) -> None:
        for session in self._sessions:
            session.cancel(reason)
