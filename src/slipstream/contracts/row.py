"""One sequence on the device, as the engine knows it: what is posted, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from slipstream.contracts.errors import Fault
from slipstream.contracts.placement import Lane, Needs
from slipstream.contracts.pooling import Pooling
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
    OPERATOR = "operator"  # somebody with a right to it ended it


class Matcher(Protocol):
    """A compiled grammar at one point of one row. Owned by the row; never shared."""

    def allowed(self) -> bytes:
        """The bit mask of the next token, little-endian 32-bit words, (vocabulary + 31) // 32.

        Never empty. Raises ValueError when the grammar has grown too complex to go on."""
        ...

    def forced(self) -> Sequence[int]:
        """Tokens that are certain to come next, possibly none; an end where only that is left."""
        ...

    def accept(self, token: int) -> None:
        """Moves on by one token, ends included. Raises ValueError when it is not allowed, and
        then only `rewind` helps."""
        ...

    def rewind(self, drawn: Sequence[int]) -> None:
        """Starts over and accepts `drawn`. Raises ValueError as `accept` does."""
        ...

    @property
    def stopped(self) -> bool:
        """Whether nothing but an end may follow, or nothing at all."""
        ...

    @property
    def masks(self) -> Masks:
        """What fills masks of rows together; one object for all matchers of an engine."""
        ...


class Masks(Protocol):
    """The plain twin is `Matcher.allowed`, row by row."""

    @property
    def words(self) -> int:
        """32-bit words in one row's mask, (vocabulary + 31) // 32."""
        ...

    def fill(self, matchers: Sequence[Matcher], out: memoryview) -> Mapping[int, str]:
        """Writes what each matcher allows into its row of `out`, in parallel outside the GIL.

        `out` is (len(matchers), words) of int32 or uint32, C-contiguous and writable; borrowed.
        Returns row -> why, for matchers that cannot go on: their rows allow only ends."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Token ids ready to run, with all that the device must know. Made by the text side.

    `max_tokens` is resolved: at least 1, and prompt + max_tokens fits the context.
    `stop_ids` end the row when drawn; they are not part of the text.
    With `pooling` nothing is drawn: the one token stands for the vector that comes instead.
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
    boundaries: tuple[int, ...] = ()  # lengths at which prompts like this part: ends of messages
    pooling: Pooling | None = None

    def __post_init__(self) -> None:
        assert self.ids and self.max_tokens >= 1
        assert self.pooling is None or self.max_tokens == 1

    @property
    def shares(self) -> bool:
        """Whether it may begin with what was computed for another prompt: what comes of each of
        its tokens is not wanted."""
        return self.pooling is None and not self.prompt_logprobs


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSpec:
    """What crosses to the device thread, once. From its acceptance on, the row owns it."""

    key: int  # unique for the life of the process
    lane: Lane
    prompt: Prompt
    deadline: float  # on the engine's clock, seconds
    leader: int | None = None  # the key of the row that fills the same prompt for this one too

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
class Scored:
    """One prompt token under the model; the first has nothing before it, so no log-probability."""

    token: int
    logprob: float | None
    top: tuple[Ranked, ...] = ()


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One token of one row. `finish` is set on the row's last event only, `scored` on its first
    and only where the prompt asks for log-probabilities of its own tokens."""

    token: int
    logprob: float | None = None
    top: tuple[Ranked, ...] = ()
    finish: FinishReason | None = None
    scored: tuple[Scored, ...] = ()
    vector: bytes = b""  # of a prompt with pooling: little-endian float32


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
