"""One sequence on the device, as the engine knows it: what is posted, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from slipstream.contracts.errors import Fault
from slipstream.contracts.placement import Lane, Needs
from slipstream.contracts.sampling import Sampling


class FinishReason(StrEnum):
    STOP = "stop"  # an end-of-sequence token, a stop token or a stop string
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"


class CancelReason(StrEnum):
    STOP_STRING = "stop_string"  # the text side has all it needs: a good end
    DISCONNECT = "disconnect"
    DEADLINE = "deadline"
    SLOW_READER = "slow_reader"
    SINK_FAULT = "sink_fault"
    SHUTDOWN = "shutdown"


class Matcher(Protocol):
    """A compiled grammar at one point of one row. Owned by the row; never shared."""

    def allowed(self) -> bytes:
        """The bit mask of the next token, little-endian 32-bit words, (vocabulary + 31) // 32."""
        ...

    def forced(self) -> Sequence[int]:
        """Tokens that are certain to come next, possibly none."""
        ...

    def accept(self, token: int) -> None:
        """Moves on by one token. Raises ValueError when the grammar does not allow it."""
        ...

    @property
    def stopped(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Token ids ready to run, with all that the device must know. Made by the text side.

    `max_tokens` is resolved: at least 1, and prompt + max_tokens fits the context.
    `stop_ids` end the row when drawn; they are not part of the text.
    """

    ids: tuple[int, ...]
    max_tokens: int
    sampling: Sampling = field(default_factory=Sampling)
    stop_ids: frozenset[int] = frozenset()
    logprobs: int | None = None
    logprobs_raw: bool = False
    prompt_logprobs: bool = False
    matcher: Matcher | None = None
    needs: Needs = field(default_factory=Needs)
    priority: int = 0
    cache_salt: str = ""

    def __post_init__(self) -> None:
        assert self.ids and self.max_tokens >= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSpec:
    """What crosses to the device thread, once. From its acceptance on, the row owns it."""

    key: int  # unique for the life of the process
    lane: Lane
    prompt: Prompt
    deadline: float  # on the engine's clock, seconds

    @property
    def length_limit(self) -> int:
        """Prompt and generated tokens together, at most."""
        return len(self.prompt.ids) + self.prompt.max_tokens


@dataclass(frozen=True, slots=True)
class Ranked:
    """One candidate: a token id and its natural-log probability, always finite."""

    token: int
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One token of one row. `finish` is set on the row's last event only."""

    token: int
    logprob: float | None = None
    top: tuple[Ranked, ...] = ()
    finish: FinishReason | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    reason: FinishReason


@dataclass(frozen=True, slots=True)
class Stopped:
    """Ended from outside."""

    reason: CancelReason


@dataclass(frozen=True, slots=True)
class Failed:
    error: Fault


Outcome = Finished | Stopped | Failed
"""How a session ended; it ends exactly once."""
