"""A backend without tensors whose model does as it is told, so that agents get a partner.

Everything around it is real: template, tokenizer, placement, driver, detokenizer, tool calls.
A user's line `SAY: words` is answered with the words, `CALL: name {...}` with a tool call,
`COUNT` with numbers that do not end; after a tool's result comes a sentence about it.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from slipstream.contracts.adapters import AdapterFiles, Adapters, Mounted
from slipstream.contracts.backend import Advance, Drawn, Memory, Row
from slipstream.contracts.errors import InvalidRequest
from slipstream.contracts.placement import Abilities
from slipstream.contracts.row import Matcher, RowSpec
from slipstream.text.tokenizer import Tokenizer

TURN = "<|im_start|>"
END = "<|im_end|>"
STEP = 0.005  # seconds that a step takes, so that a client can leave in the middle
SHOWN = 200  # characters of a tool's result that the answer repeats
ORDER = re.compile(r'^"?(SAY|CALL|COUNT)\b:? ?(.*?)"?$', re.MULTILINE)
CLOSERS = ('"', "}", "]")  # tried in this order where a grammar forbids the next word


def answer(prompt: str) -> Iterator[str]:
    """The pieces of what follows `prompt`, which is in ChatML."""
    turns = [turn.partition("\n") for turn in prompt.split(TURN)[1:-1]]
    turns = [(role, text.partition(END)[0]) for role, _, text in turns]
    last = list(itertools.takewhile(lambda turn: turn[0] != "assistant", reversed(turns)))
    results = [text for role, text in last if role == "tool"]
    if results:
        return iter([f"The tool said: {results[0].strip()[:SHOWN]}"])
    orders = [found for _, text in last for found in ORDER.findall(text)]
    return obey(*orders[-1]) if orders else iter(["Hello from Slipstream."])


def obey(order: str, rest: str) -> Iterator[str]:
    match order:
        case "COUNT":
            return (f"{number} " for number in itertools.count(1))
        case "CALL":
            name, _, arguments = rest.partition(" ")
            call = f'{{"name": "{name}", "arguments": {arguments or "{}"}}}'
            return iter([f"<tool_call>\n{call}\n</tool_call>"])
        case _:
            return iter([rest])


@dataclass(slots=True, eq=False)
class Told:
    """A row, and the tokens that it is still to say."""

    spec: RowSpec
    words: Iterator[int]
    pending: int
    cached: int = 0
    released: bool = False


class NoAdapters:
    """There are no weights that one could change."""

    def mount(self, name: str, files: AdapterFiles, spare: Sequence[str] = ()) -> Mounted:
        raise InvalidRequest("This model takes no adapters.", param="name")

    def unmount(self, name: str) -> None:
        raise InvalidRequest(f"There is no adapter {name}.", param="name")


@dataclass(slots=True)
class ToldBackend:
    """Belongs to the device thread."""

    tokenizer: Tokenizer
    adapters: Adapters = field(default_factory=NoAdapters)
    abilities: Abilities = field(default_factory=Abilities)
    _flights: list[list[tuple[Told, int]]] = field(default_factory=list)

    def project(self, spec: RowSpec) -> int:
        return spec.length_limit

    def open(self, spec: RowSpec) -> Row:
        return Told(spec, self._words(spec), len(spec.prompt.ids))

    def keep(self, row: Row) -> None:
        pass

    def fork(self, row: Row, spec: RowSpec) -> Row:
        return Told(spec, self._words(spec), row.pending, len(spec.prompt.ids) - row.pending)

    def launch(self, plan: Sequence[Advance]) -> None:
        flight = []
        for advance in plan:
            row = advance.row
            assert isinstance(row, Told)
            row.pending -= advance.tokens
            if row.pending == 0:
                row.pending = 1
                flight.append((row, next(row.words)))
        self._flights.append(flight)

    def collect(self, keep: int) -> Sequence[Drawn]:
        drawn: list[Drawn] = []
        while len(self._flights) > keep:
            time.sleep(STEP)
            drawn += [Drawn(row, token) for row, token in self._flights.pop(0) if not row.released]
        return drawn

    def rewind(self, row: Row, drawn: Sequence[int]) -> None:
        assert isinstance(row, Told)
        if row.spec.prompt.matcher is not None:
            row.spec.prompt.matcher.rewind(())
        row.words = self._words(row.spec)
        row.pending = len(row.spec.prompt.ids) + len(list(zip(drawn, row.words, strict=False)))

    def release(self, row: Row) -> None:
        assert isinstance(row, Told)
        row.released = True

    def park(self) -> None:
        pass

    def memory(self) -> Memory:
        return Memory()

    def close(self) -> None:
        pass

    def _words(self, spec: RowSpec) -> Iterator[int]:
        """The ids to draw; the end is repeated for ever."""
        prompt = spec.prompt
        end = min(prompt.stop_ids)
        said = answer(self.tokenizer.decode(prompt.ids))
        ids = (one for text in said for one in self.tokenizer.encode(text, False))
        words = itertools.chain(ids, itertools.repeat(end))
        return words if prompt.matcher is None else self._bound(words, prompt.matcher, end)

    def _bound(self, words: Iterator[int], matcher: Matcher, end: int) -> Iterator[int]:
        """`words` while the grammar lets them pass; then a short way out of it."""
        strayed = False
        while True:
            mask = int.from_bytes(matcher.allowed(), "little")
            word = next(words)
            strayed = strayed or not mask >> word & 1
            if strayed:
                closers = (end, *map(self.tokenizer.id_of, CLOSERS))
                lowest = (mask & -mask).bit_length() - 1
                word = next((one for one in closers if one and mask >> one & 1), lowest)
            if word != end:
                matcher.accept(word)
            yield word
