"""Reasoning is told from the answer by the markers that a family puts around it.

It does not know which model has which: it goes by what template and tokenizer declare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from slipstream.text.parts import Part, Reader


@dataclass(frozen=True, slots=True)
class Dialect:
    """`begin` and `end` stand around reasoning. `always`: every answer begins with it."""

    begin: str
    end: str
    always: bool = False


HARMONY = Dialect("<|channel|>analysis<|message|>", "<|end|>", always=True)
"""Where output is bound to a form; else harmony is read as a whole."""

DIALECTS: tuple[Dialect, ...] = (
    Dialect("<think>", "</think>"),
    Dialect("<seed:think>", "</seed:think>"),
    Dialect("[THINK]", "[/THINK]"),
    Dialect("<|START_THINKING|>", "<|END_THINKING|>"),
    Dialect("<longcat_think>", "</longcat_think>"),
    Dialect("<|think:start|>", "<|think:end|>"),
    Dialect("<|channel>thought", "<channel|>"),
    Dialect("<|inner_prefix|>", "<|inner_suffix|>"),
    Dialect("◁think▷", "◁/think▷"),
    Dialect("<thought>", "</thought>"),
    Dialect("<thinking>", "</thinking>"),
    Dialect("<reasoning>", "</reasoning>"),
)


def choose(template: str, is_token: Callable[[str], bool]) -> Dialect | None:
    """The dialect whose markers `template` has, else the one whose markers are tokens."""
    for dialect in DIALECTS:
        if dialect.begin in template and dialect.end in template:
            return dialect
    for dialect in DIALECTS:
        if is_token(dialect.begin) and is_token(dialect.end):
            return dialect
    return None


class Thinking:
    """Implements parts.Reader: reasoning out of a text whose rest goes through `inner`.

    `opened`: the prompt ends within reasoning; else that begins where `begin` stands at the start
    of the answer or of a line. `fresh`: the answer is a message from its beginning on. White space
    around reasoning is dropped with the markers. An `end` that nothing opened is dropped where it
    begins a line, and is text elsewhere.
    """

    def __init__(
        self, dialect: Dialect, inner: Reader, *, opened: bool = False, fresh: bool = True
    ) -> None:
        self.thinking = opened
        self._dialect = dialect
        self._inner = inner
        self._held = ""
        self._edge = fresh  # white space is dropped: just behind a marker, or nothing was there
        self._line = True  # nothing stands before on this line

    @property
    def inside(self) -> bool:
        return self._inner.inside

    @property
    def done(self) -> bool:
        return self._inner.done

    def push(self, text: str) -> Sequence[Part]:
        self._held += text
        parts: list[Part] = []
        while self._held and not self.done and self._step(parts, final=False):
            pass
        return parts

    def flush(self) -> Sequence[Part]:
        parts: list[Part] = []
        while self._held and not self.done and self._step(parts, final=True):
            pass
        return [*parts, *self._inner.flush()]

    def _step(self, parts: list[Part], final: bool) -> bool:
        """Whether there is more to do with what is held."""
        if self._edge:
            blank = len(self._held) - len(self._held.lstrip())
            self._drop(parts, blank)
            begin = self._dialect.begin
            if self.thinking and not final and begin.startswith(self._held):
                return self._held == begin and self._drop(parts, len(begin))
            if self.thinking and self._held.startswith(begin):
                return self._drop(parts, len(begin))
            self._edge = not self._held
            if self._edge:
                return False
        return (self._think if self.thinking else self._answer)(parts, final)

    def _think(self, parts: list[Part], final: bool) -> bool:
        end = self._dialect.end
        at = self._held.find(end)
        stop = at if at >= 0 else self._first_partial((end,), final)
        body = self._held[:stop].rstrip()
        if body:
            parts.append(Part(size=len(body), reasoning=body))
            self._held = self._held[len(body) :]
        if at < 0:
            return final and self._drop(parts, len(self._held))
        self._drop(parts, at - len(body) + len(end))
        self.thinking, self._edge, self._line = False, True, True
        return True

    def _answer(self, parts: list[Part], final: bool) -> bool:
        markers = (self._dialect.begin, self._dialect.end)
        found = [(at, marker) for marker in markers if (at := self._held.find(marker)) >= 0]
        if not found:
            self._pass(parts, self._first_partial(markers, final))
            return False
        at, marker = min(found)
        self._pass(parts, at)
        if self.done:
            return False
        if self._inner.inside or not self._line:
            self._pass(parts, len(marker))
            return True
        parts += self._inner.flush()
        self._drop(parts, len(marker))
        self.thinking = marker == self._dialect.begin
        self._edge = True
        return True

    def _pass(self, parts: list[Part], size: int) -> None:
        """The next `size` characters are not reasoning."""
        text, self._held = self._held[:size], self._held[size:]
        if text:
            line = text.rpartition("\n")[2]
            self._line = not line.strip() and (self._line or "\n" in text)
            parts += self._inner.push(text)

    def _drop(self, parts: list[Part], size: int) -> bool:
        self._held = self._held[size:]
        if size:
            parts.append(Part(size=size))
        return bool(size)

    def _first_partial(self, markers: Sequence[str], final: bool) -> int:
        """Where the earliest unfinished marker begins, else the end of what is held."""
        held = self._held
        longest = max(map(len, markers))
        for at in range(max(0, len(held) - longest + 1), len(held)):
            if not final and any(marker.startswith(held[at:]) for marker in markers):
                return at
        return len(held)


TOGGLES = ("enable_thinking", "thinking")
BUDGETS = ("thinking_budget", "reasoning_budget", "max_thinking_tokens")
EFFORTS: Mapping[str, str] = MappingProxyType(
    {"none": "low", "minimal": "low", "xhigh": "high", "max": "high"}
)
OFF = frozenset({"none", "minimal"})


def variables(
    asked: Mapping[str, Any], known: frozenset[str], template: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What `asked` comes to in `template`, which reads the variables `known`, and the names in it
    that change nothing there. Names of the same switch stand for one another, and efforts for
    the nearest one that all templates know, unless this one has a word for them."""
    made: dict[str, Any] = {}
    idle: list[str] = []
    toggle = next((name for name in TOGGLES if name in known), None)
    for name, value in asked.items():
        group = TOGGLES if name in TOGGLES else BUDGETS if name in BUDGETS else (name,)
        target = name if name in known else next((one for one in group if one in known), None)
        if name == "reasoning_effort" and target is not None:
            worded = any(f"{quote}{value}{quote}" in template for quote in "'\"")
            made[target] = value if worded else EFFORTS.get(value, value)
        elif target is not None:
            made[target] = value
        elif name == "reasoning_effort" and toggle is not None:
            made.setdefault(toggle, value not in OFF)
        else:
            idle.append(name)
            made[name] = value  # a template may still hand it on to where nobody looks
    return made, tuple(idle)
