"""From a session's tokens to Deltas, and what drives that chain: detokenize -> reasoning and tool
calls -> stop strings.

Every text stage has one shape, `push` and `flush`. It does not know lanes, APIs or devices.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from slipstream.contracts.delta import Delta, TextLogprob, TokenSource, ToolDelta
from slipstream.contracts.errors import RowFault
from slipstream.contracts.row import CancelReason, FinishReason, TokenEvent
from slipstream.text.detokenize import Detokenizer
from slipstream.text.echo import Echo, named
from slipstream.text.gathering import Gathering
from slipstream.text.parts import Part, Plain, Reader
from slipstream.text.stops import Stops


@dataclass(frozen=True, slots=True)
class Waiting:
    """A log-probability whose token's text lies at `start`..`end` of the answer, in characters."""

    start: int
    end: int
    entry: TextLogprob


class Sink:
    """One choice's text. Fed with token events in order until `finish` is set.

    `reader` tells reasoning and calls from text. Stop strings are looked for in stretches of text
    alone. An answer with a call that was not cut off finishes as one.
    Log-probabilities come out with the last of their token's text; when a stop string matches,
    those of tokens that begin before it come out, so that the entries always cover the text. A
    token of `stop_ids` that ends the row is counted, but has neither text nor log-probability;
    yet where the prompt's tokens have theirs (`echo`), so has it: every token, as who evaluates a
    model counts them. `echo` comes out before the first token's text.
    """

    def __init__(
        self,
        detokenizer: Detokenizer,
        stops: Stops,
        reader: Reader | None = None,
        *,
        stop_ids: Collection[int] = (),
        choice: int = 0,
        echo: Echo | None = None,
    ) -> None:
        self.finish: FinishReason | None = None
        self._detokenizer = detokenizer
        self._stops = stops
        self._reader = reader or Plain()
        self._stop_ids = stop_ids
        self._waiting: deque[Waiting] = deque()
        self._seen = 0  # characters out of the detokenizer
        self._out = 0  # characters out of the last stage
        self._echo = echo
        self._scored = False  # the prompt's tokens have entries
        self._called = False
        self._gathering = Gathering(choice)
        self._gathering.text(echo.text if echo else "")

    @property
    def stopped(self) -> bool:
        """A stop string matched, or the only call that may be is there: no more tokens are
        needed."""
        return self._stops.matched or self._reader.done

    def push(self, events: Sequence[TokenEvent]) -> list[Delta]:
        """What `events` add; nothing while all of it is held back.

        How tokens are batched changes neither the text nor the counts. Events after the finish
        are not looked at."""
        for event in events:
            if self.finish is not None:
                break
            self._take(event)
        return self._gathering.drain(self.finish, self._stops.found if self.finish else "")

    def _take(self, event: TokenEvent) -> None:
        self._gathering.token(reasoning=self._reader.thinking)
        if self._echo is not None and event.scored:
            self._scored = True
            self._gathering.entries(self._echo.entries(event.scored))
        if event.finish is FinishReason.STOP and event.token in self._stop_ids:
            self._read_end(event)
        else:
            self._read(event)
        if event.finish is not None and not self.stopped:
            self._end()
        self._settle()
        self.finish = FinishReason.STOP if self.stopped else event.finish
        if self.finish is FinishReason.STOP and self._called:
            self.finish = FinishReason.TOOL_CALLS

    def _read(self, event: TokenEvent) -> None:
        """Passes one token through the stages."""
        entry = self._entry(event)
        text = self._detokenizer.push(event.token)
        start, self._seen = self._seen, self._seen + len(text)
        if entry is not None:
            self._waiting.append(Waiting(start, self._seen, entry))
        self._show(self._reader.push(text))

    def _read_end(self, event: TokenEvent) -> None:
        """A token that ends the row has no text."""
        self._stops.end_with(self._detokenizer.raw(event.token).decode("utf-8", "replace"))
        entry = self._entry(event)
        if self._scored and entry is not None:
            self._waiting.append(Waiting(self._seen, self._seen, replace(entry, silent=True)))

    def _end(self) -> None:
        """Lets every stage give what it still holds, first to last."""
        rest = self._detokenizer.flush()
        self._seen += len(rest)
        self._show(self._reader.push(rest))
        self._show(self._reader.flush())
        self._show_text(self._stops.flush())

    def _show(self, parts: Sequence[Part]) -> None:
        for part in parts:
            if part.text:
                self._show_text(self._stops.push(part.text))
                continue
            self._show_text(self._stops.flush())
            if self._stops.matched:
                break
            self._out += part.size
            self._called = self._called or bool(part.calls)
            self._gathering.reasoning(part.reasoning)
            self._gathering.calls(part.calls)

    def _show_text(self, text: str) -> None:
        self._gathering.text(text)
        self._out += len(text)

    def _settle(self) -> None:
        """Moves out the log-probabilities whose text is out."""
        while self._waiting and self._waiting[0].end <= self._out and not self.stopped:
            self._gathering.entries([self._waiting.popleft().entry])
        if self.stopped:
            self._gathering.entries(w.entry for w in self._waiting if w.start < self._out)
            self._waiting.clear()

    def _entry(self, event: TokenEvent) -> TextLogprob | None:
        if event.logprob is None:
            return None
        raw = self._detokenizer.raw
        top = tuple(named(raw(ranked.token), ranked.logprob) for ranked in event.top)
        silent = self._detokenizer.silent(event.token)
        return named(raw(event.token), event.logprob, top, silent=silent)


async def deltas(source: TokenSource, sink: Sink) -> AsyncGenerator[Delta, None]:
    """Drives one session through `sink`; the last Delta carries `finish`.

    Borrows `source`, and cancels it when its tokens are no longer wanted: a stop string matched,
    a stage failed (then RowFault is raised here and nobody else is touched), or the reader of
    this generator closed it. Faults and Cancelled of the source pass through.
    """
    reason = CancelReason.DISCONNECT
    try:
        async for events in source.batches():
            try:
                pieces = sink.push(events)
            except Exception as error:
                reason = CancelReason.SINK_FAULT
                raise RowFault("sink", error) from error
            if sink.stopped:
                source.cancel(CancelReason.STOP_STRING)
            for piece in pieces:
                yield piece
            if sink.finish is not None:
                return
        raise RowFault("sink", "its tokens ended without a finish")
    finally:
        if sink.finish is None:
            source.cancel(reason)


async def merged(streams: Sequence[AsyncGenerator[Delta, None]]) -> AsyncGenerator[Delta, None]:
    """The deltas of several choices, each as it comes and read no faster than this one is.

    Takes `streams`: the first failure of one, and the end of this one, closes all."""

    async def following(stream: AsyncGenerator[Delta, None]) -> Delta | None:
        return await anext(stream, None)

    waits = {asyncio.ensure_future(following(stream)): stream for stream in streams}
    try:
        while waits:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in [wait for wait in waits if wait in done]:
                stream = waits.pop(wait)
                if (delta := wait.result()) is not None:
                    waits[asyncio.ensure_future(following(stream))] = stream
                    yield delta
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        for stream in streams:
            await stream.aclose()


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """A whole answer; each of its calls is one piece."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolDelta, ...] = ()
    tokens: int = 0
    reasoning_tokens: int = 0
    logprobs: tuple[TextLogprob, ...] = ()
    finish: FinishReason | None = None


def fold(pieces: Iterable[Delta]) -> Folded:
    """The answer that the deltas of one choice add up to; the same however they were cut."""
    parts = tuple(pieces)
    return Folded(
        text="".join(part.text for part in parts),
        reasoning="".join(part.reasoning for part in parts),
        calls=whole_calls(piece for part in parts for piece in part.calls),
        tokens=sum(part.tokens for part in parts),
        reasoning_tokens=sum(part.reasoning_tokens for part in parts),
        logprobs=tuple(entry for part in parts for entry in part.logprobs),
        finish=parts[-1].finish if parts else None,
    )


def whole_calls(pieces: Iterable[ToolDelta]) -> tuple[ToolDelta, ...]:
    """Pieces of one answer's calls, put together."""
    found: dict[int, ToolDelta] = {}
    for piece in pieces:
        begun = found.get(piece.index)
        found[piece.index] = (
            piece if begun is None else replace(begun, arguments=begun.arguments + piece.arguments)
        )
    return tuple(found.values())
