"""Where prompts like this one part: after the system text, before the last question, before the
answer. There the prefix cache keeps states that cannot be cut.

Found by rendering the conversation with another ending; what stays the same comes before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from slipstream.contracts.completion import Message
from slipstream.contracts.errors import InvalidRequest
from slipstream.contracts.sequences import shared

LONGEST = 1 << 22  # characters: rendering a longer text again costs more than it is worth
PROBE: Mapping[str, Any] = MappingProxyType(
    {"role": "user", "content": "\ue000"}  # no text begins like it
)
SYSTEM = ("system", "developer")
Render = Callable[[Sequence[Message], bool], str]


@dataclass(frozen=True, slots=True)
class Rendered:
    """What the template made: its text, and where in it each token starts and ends, in characters,
    give or take white space."""

    text: str
    spans: Sequence[tuple[int, int]]

    def tokens_within(self, characters: int) -> int:
        """How many tokens lie within the first `characters`; one that is not sure is left out."""
        count = bisect_left(self.spans, characters, key=lambda span: span[0])
        if count == len(self.spans) or self.spans[count][0] > characters:
            count -= 1
        while count > 0 and self.spans[count - 1][1] > characters:
            count -= 1
        return max(0, count)


def boundaries(
    rendered: Rendered, messages: Sequence[Message], render: Render, *, continued: bool = False
) -> tuple[int, ...]:
    """Token lengths, rising, below the prompt's own: at most three.

    `render(messages, reply)` is the template's text, with the beginning of a `reply` or without.
    `continued`: the prompt ends inside its last message. Where the template refuses an ending
    there is no boundary."""
    if len(rendered.text) > LONGEST:
        return ()
    last = len(rendered.spans) - 1  # one token is always computed
    found = {
        min(last, rendered.tokens_within(shared(rendered.text, other)))
        for other in _endings(messages, render, continued)
    }
    return tuple(sorted(length for length in found if length > 0))


def _endings(messages: Sequence[Message], render: Render, continued: bool) -> Iterator[str]:
    """The conversation's text with other endings."""
    roles = [message.get("role") for message in messages]
    after_system = next((n for n, role in enumerate(roles) if role not in SYSTEM), len(roles))
    last_user = max((n for n, role in enumerate(roles) if role == "user"), default=after_system)
    for kept in sorted({after_system, last_user}):
        yield from _tried(render, [*messages[:kept], dict(PROBE)], True)
    if not continued:
        yield from _tried(render, messages, False)


def _tried(render: Render, messages: Sequence[Message], reply: bool) -> Iterator[str]:
    try:
        yield render(messages, reply)
    except InvalidRequest:
        return
