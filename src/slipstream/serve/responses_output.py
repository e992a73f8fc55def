"""The output items of one response, and the events that build them, from its deltas.

It does not number events and does not know the response around them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from slipstream.contracts.delta import Delta, TextLogprob, ToolDelta
from slipstream.contracts.row import FinishReason
from slipstream.serve.responses_items import new_id, sealed
from slipstream.serve.responses_tools import Tool

Event = dict[str, Any]
Item = dict[str, Any]

STATUSES = {FinishReason.LENGTH: "incomplete"}
DONE = "completed"


class Opened:
    """An item that is being written. `item` is what the client would read of it now."""

    def __init__(self, index: int, item: Item) -> None:
        self.item = {"id": new_id(item["type"]), **item, "status": "in_progress"}
        self.place = {"item_id": self.item["id"], "output_index": index}

    def open(self) -> Iterator[Event]:
        yield self._item_event("response.output_item.added")

    def close(self, status: str) -> Iterator[Event]:
        self.item["status"] = status
        yield self._item_event("response.output_item.done")

    def _item_event(self, kind: str) -> Event:
        index = self.place["output_index"]
        return {"type": kind, "output_index": index, "item": snapshot(self.item)}


class Text(Opened):
    """A message: one part of text, with the log-probabilities of its tokens."""

    event = "response.output_text"

    def __init__(self, index: int) -> None:
        self.part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        super().__init__(index, {"type": "message", "role": "assistant", "content": []})
        self.place["content_index"] = 0

    def open(self) -> Iterator[Event]:
        yield from super().open()
        self.item["content"].append(self.part)
        yield self._part_event("added")

    def write(self, text: str, logprobs: Sequence[TextLogprob] = ()) -> Iterator[Event]:
        self.part["text"] += text
        self.part["logprobs"] += [whole_entry(one) for one in logprobs]
        yield self._text_event("delta", delta=text, **self._scores(logprobs))

    def close(self, status: str) -> Iterator[Event]:
        yield self._text_event("done", text=self.part["text"], **self._all_scores())
        yield self._part_event("done")
        yield from super().close(status)

    def _scores(self, logprobs: Sequence[TextLogprob]) -> Event:
        return {"logprobs": [entry(one) for one in logprobs]}

    def _all_scores(self) -> Event:
        return {"logprobs": [without_bytes(one) for one in self.part["logprobs"]]}

    def _text_event(self, what: str, **more: Any) -> Event:
        return {"type": f"{self.event}.{what}", **self.place, **more}

    def _part_event(self, what: str) -> Event:
        return {"type": f"response.content_part.{what}", **self.place, "part": snapshot(self.part)}


class Reasoning(Text):
    """As Text, without log-probabilities. `seal` adds what a client can carry back."""

    event = "response.reasoning_text"

    def __init__(self, index: int, *, seal: bool) -> None:
        self.part = {"type": "reasoning_text", "text": ""}
        self._seal = seal
        Opened.__init__(self, index, {"type": "reasoning", "summary": [], "content": []})
        self.place["content_index"] = 0

    def write(self, text: str, logprobs: Sequence[TextLogprob] = ()) -> Iterator[Event]:
        self.part["text"] += text
        yield self._text_event("delta", delta=text)

    def close(self, status: str) -> Iterator[Event]:
        if self._seal:
            self.item["encrypted_content"] = sealed(self.part["text"])
        yield from super().close(status)

    def _all_scores(self) -> Event:
        return {}
