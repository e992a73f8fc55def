"""What the driver knows of one row beside the backend's own: its count, its news, its times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slipstream.contracts.backend import Advance, Drawn, Row
from slipstream.contracts.row import FinishReason, Outcome, RowSpec, TokenEvent
from slipstream.engine.mailbox import Progress, Update


@dataclass(frozen=True, slots=True)
class Stop:
    """A length of its prompt at which a row rests: to be kept, or to be forked."""

    length: int
    keep: bool


@dataclass(frozen=True, slots=True)
class Awaited:
    """A newcomer is made once the row `key` has come to `stop`."""

    key: int
    stop: Stop


@dataclass(slots=True, kw_only=True)
class Live:
    """A row from its place to its end, owned by the driver.

    `row` is None while another row fills what this one `awaited` too. `kept` is how much of its
    prompt the prefix cache was given, or gave; `boundaries` are where it should get more.
    `launched` runs ahead of `tokens` by the draws that are not read yet.
    `suspect`: it was in a forward that failed, and has not yet drawn a token alone since.
    """

    spec: RowSpec
    admitted: float
    row: Row | None = None
    awaited: Awaited | None = None
    boundaries: tuple[int, ...] = ()
    kept: int = 0
    launched: int = 0
    tokens: list[int] = field(default_factory=list)
    suspect: bool = False
    rows_peak: int = 0
    parked: tuple[float, ...] = ()
    first: float | None = None
    last: float | None = None
    news: bool = True
    _events: list[TokenEvent] = field(default_factory=list)

    @property
    def family(self) -> int:
        """The same for all choices of a request that may share a prefill."""
        return self.spec.key if self.spec.leader is None else self.spec.leader

    @property
    def fills(self) -> bool:
        """Has drawn nothing yet, so that others may begin with what it has computed."""
        return self.row is not None and not self.suspect and self.launched == 0

    @property
    def computed(self) -> int:
        """Tokens of its prompt that are computed, or will be by what is in flight."""
        return len(self.spec.prompt.ids) - self.row.pending if self.row and self.fills else 0

    @property
    def ready(self) -> bool:
        """May advance among others."""
        return not self.suspect and self.launched < self.spec.prompt.max_tokens

    def take(self, drawn: Drawn, now: float) -> FinishReason | None:
        """Books a drawn token, and says whether it was the last one."""
        prompt = self.spec.prompt
        self.tokens.append(drawn.token)
        self.launched += drawn.forced
        self.suspect = False
        self.first = now if self.first is None else self.first
        self.last = now
        finish = None
        if drawn.token in prompt.stop_ids:
            finish = FinishReason.STOP
        elif len(self.tokens) == prompt.max_tokens:
            finish = FinishReason.LENGTH
        event = TokenEvent(
            drawn.token, drawn.logprob, drawn.top, finish, drawn.scored, drawn.vector
        )
        self._events.append(event)
        self.news = True
        return finish

    def update(self, outcome: Outcome | None = None) -> Update:
        """The news since the last call."""
        events, self._events = tuple(self._events), []
        self.news = False
        progress = Progress(
            admitted=self.admitted,
            first=self.first,
            last=self.last,
            parked=self.parked,
            cached=self.row.cached if self.row else 0,
            computed=len(self.spec.prompt.ids) if self.launched else self.computed,
            generated=len(self.tokens),
            rows_peak=self.rows_peak,
        )
        return Update(key=self.spec.key, progress=progress, events=events, outcome=outcome)


@dataclass(frozen=True, slots=True)
class Flight:
    """A launch that is not read yet."""

    plan: Sequence[Advance]
    launched: float

    @property
    def filled(self) -> int:
        """Tokens beyond one per row: what prompts add to a step."""
        return sum(advance.tokens - 1 for advance in self.plan)
