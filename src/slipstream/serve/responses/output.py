"""The output items of one response, and the events that build them, from its deltas.

It does not number events and does not know the response around them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from slipstream.contracts.delta import Delta, TextLogprob, ToolDelta
from slipstream.contracts.row import FinishReason
from slipstream.serve.responses.items import new_id, sealed
from slipstream.serve.responses.tools import Tool

Event = dict[str, Any]
Item = dict[str, Any]

COMPLETED, INCOMPLETE = "completed", "incomplete"


class Open:
    """An item that is being written; `item` is what there is of it."""

    def __init__(self, index: int, item: Item) -> None:
        self.item = {"id": new_id(item["type"]), **item}
        self._index = index
        self._place: Event = {"item_id": self.item["id"], "output_index": index}

    def open(self) -> Iterator[Event]:
        yield self._whole("added")

    def close(self, status: str) -> Iterator[Event]:
        if "status" in self.item:
            self.item["status"] = status
        yield self._whole("done")

    def _whole(self, what: str) -> Event:
        kind = f"response.output_item.{what}"
        return {"type": kind, "output_index": self._index, "item": {**self.item}}

    def _piece(self, kind: str, **more: Any) -> Event:
        return {"type": kind, **self._place, **more}


class Written(Open):
    """An item that is one part of text. `event` begins the names of the part's events."""

    event: str

    def __init__(self, index: int, item: Item, part: Item) -> None:
        super().__init__(index, {**item, "content": [], "status": "in_progress"})
        self._place["content_index"] = 0
        self._part = part

    def open(self) -> Iterator[Event]:
        yield from super().open()
        yield self._piece("response.content_part.added", part={**self._part})

    def close(self, status: str) -> Iterator[Event]:
        yield self._piece(f"{self.event}.done", **self._final())
        yield self._piece("response.content_part.done", part=self._part)
        self.item["content"] = [self._part]
        yield from super().close(status)

    def _final(self) -> Event:
        return {"text": self._part["text"]}


class Text(Written):
    """The answer, with the log-probabilities of its tokens."""

    event = "response.output_text"

    def __init__(self, index: int) -> None:
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        super().__init__(index, {"type": "message", "role": "assistant"}, part)
        self._scores: list[Event] = []

    def write(self, text: str, logprobs: Sequence[TextLogprob]) -> Iterator[Event]:
        scores = [scored(one, score) for one in logprobs]
        self._scores += scores
        self._part["text"] += text
        self._part["logprobs"] = [
            *self._part["logprobs"],
            *(scored(one, exact) for one in logprobs),
        ]
        yield self._piece(f"{self.event}.delta", delta=text, logprobs=scores)

    def _final(self) -> Event:
        return {**super()._final(), "logprobs": self._scores}


class Reasoning(Written):
    """What the model thought. With `seal` a client can carry it back without reading it."""

    event = "response.reasoning_text"

    def __init__(self, index: int, *, seal: bool) -> None:
        item = {"type": "reasoning", "summary": []}
        super().__init__(index, item, {"type": "reasoning_text", "text": ""})
        self._seal = seal

    def write(self, text: str) -> Iterator[Event]:
        self._part["text"] += text
        yield self._piece(f"{self.event}.delta", delta=text)

    def close(self, status: str) -> Iterator[Event]:
        if self._seal:
            self.item["encrypted_content"] = sealed(self._part["text"])
        yield from super().close(status)


class FunctionCall(Open):
    event = "response.function_call_arguments"

    def __init__(self, index: int, call_id: str, tool: Tool) -> None:
        item = {"type": "function_call", "arguments": "", "status": "in_progress"}
        super().__init__(index, {**item, **caller(call_id, tool)})

    def write(self, arguments: str) -> Iterator[Event]:
        self.item["arguments"] += arguments
        if arguments:
            yield self._piece(f"{self.event}.delta", delta=arguments)

    def close(self, status: str) -> Iterator[Event]:
        yield self._piece(f"{self.event}.done", arguments=self.item["arguments"])
        yield from super().close(status)


class CustomCall(Open):
    """A call whose input is plain text. It is in one JSON string, so it comes out whole."""

    event = "response.custom_tool_call_input"

    def __init__(self, index: int, call_id: str, tool: Tool) -> None:
        super().__init__(index, {"type": "custom_tool_call", "input": "", **caller(call_id, tool)})
        self._arguments = ""

    def write(self, arguments: str) -> Iterator[Event]:
        self._arguments += arguments
        return iter(())

    def close(self, status: str) -> Iterator[Event]:
        text = self.item["input"] = plain_input(self._arguments)
        yield self._piece(f"{self.event}.delta", delta=text)
        yield self._piece(f"{self.event}.done", input=text)
        yield from super().close(status)


class Output:
    """Items in the order in which they began, at most one of them open.

    `tools` are by the names that the model reads; `logprobs` and `seal`: see Text, Reasoning.
    """

    def __init__(self, tools: Mapping[str, Tool], *, logprobs: bool, seal: bool) -> None:
        self._tools = tools
        self._logprobs = logprobs
        self._seal = seal
        self._items: list[Item] = []
        self._open: Open | None = None
        self._call: int | None = None  # the number of the call that is open
        self.finish: FinishReason | None = None

    @property
    def items(self) -> list[Item]:
        return self._items

    def push(self, delta: Delta) -> list[Event]:
        return [*self._take(delta)]

    def _take(self, delta: Delta) -> Iterator[Event]:
        if delta.reasoning:
            if not isinstance(self._open, Reasoning):
                yield from self._begin(Reasoning(len(self._items), seal=self._seal))
            yield from self._open.write(delta.reasoning)
        logprobs = delta.logprobs if self._logprobs else ()
        if delta.text or (logprobs and isinstance(self._open, Text)):
            if not isinstance(self._open, Text):
                yield from self._begin(Text(len(self._items)))
            yield from self._open.write(delta.text, logprobs)
        for piece in delta.calls:
            if not isinstance(self._open, FunctionCall | CustomCall) or piece.index != self._call:
                yield from self._begin(self._called(piece))
                self._call = piece.index
            yield from self._open.write(piece.arguments)
        if delta.finish is not None:
            yield from self._end(delta.finish)

    def _called(self, piece: ToolDelta) -> FunctionCall | CustomCall:
        tool = self._tools.get(piece.name) or Tool(piece.name, {})
        kind = CustomCall if tool.custom else FunctionCall
        return kind(len(self._items), piece.id, tool)

    def _begin(self, item: Open) -> Iterator[Event]:
        yield from self._close(COMPLETED)
        self._open = item
        self._items.append(item.item)
        yield from item.open()

    def _end(self, finish: FinishReason) -> Iterator[Event]:
        self.finish = finish
        if not self._items:
            yield from self._begin(Text(0))  # clients look for a message
        yield from self._close(INCOMPLETE if finish is FinishReason.LENGTH else COMPLETED)

    def _close(self, status: str) -> Iterator[Event]:
        if self._open is not None:
            yield from self._open.close(status)
            self._open = None


def caller(call_id: str, tool: Tool) -> Item:
    space = {} if tool.namespace is None else {"namespace": tool.namespace}
    return {"call_id": call_id, "name": tool.name, **space}


def plain_input(arguments: str) -> str:
    """The input in a custom tool's arguments; the arguments themselves where they are cut."""
    try:
        return str(msgspec.json.decode(arguments, type=dict).get("input", arguments))
    except msgspec.DecodeError:
        return arguments


def scored(one: TextLogprob, form: Any) -> Event:
    return {**form(one), "top_logprobs": [form(top) for top in one.top]}


def score(one: TextLogprob) -> Event:
    return {"token": one.text, "logprob": one.logprob}


def exact(one: TextLogprob) -> Event:
    """Items show the bytes of a token, events do not."""
    return {**score(one), "bytes": list(one.raw)}
