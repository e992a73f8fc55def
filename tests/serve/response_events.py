"""The grammar of a Responses stream, and what its events add up to without looking at the end."""

from __future__ import annotations

import json

RESPONSES = "/v1/responses"
LAST = ("response.completed", "response.incomplete", "response.failed")


def streamed(body: str) -> list[dict]:
    """The events of a whole stream; each names its type twice."""
    found = []
    for block in body.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert event["type"] == name.removeprefix("event: ")
        found.append(event)
    return found


def checked(events: list[dict]) -> list[dict]:
    """`events`, after their order was seen to be right."""
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] in LAST and not set(kinds[:-1]).intersection(LAST)
    assert all(event["response"]["output"] == [] for event in events[:2])
    assert len({event["response"]["id"] for event in (*events[:2], events[-1])}) == 1
    middle = iter(events[2:-1])
    for index, event in enumerate(middle):
        assert event["type"] == "response.output_item.added"
        assert event["output_index"] == index
        item_checked(event["item"], middle, index, cut=kinds[-1] == "response.failed")
    return events


def item_checked(item: dict, rest, index: int, *, cut: bool) -> None:
    place = {"item_id": item["id"], "output_index": index}
    steps = {"message": "response.output_text", "reasoning": "response.reasoning_text"}
    if worded := steps.get(item["type"]):
        place["content_index"] = 0
        added = next(rest)
        assert added["type"] == "response.content_part.added" and lies(added, place)
        assert added["part"]["text"] == ""
        event = deltas(rest, worded, place)
        if event is None and cut:
            return
        assert event["type"] == f"{worded}.done" and lies(event, place)
        done = next(rest)
        assert done["type"] == "response.content_part.done" and lies(done, place)
        assert done["part"]["text"] == event["text"]
    else:
        names = {
            "function_call": "function_call_arguments",
            "custom_tool_call": "custom_tool_call_input",
        }
        name = f"response.{names[item['type']]}"
        event = deltas(rest, name, place)
        if event is None and cut:
            return
        assert event["type"] == f"{name}.done" and lies(event, place)
    closed = next(rest)
    assert closed["type"] == "response.output_item.done" and closed["output_index"] == index
    assert closed["item"]["id"] == item["id"] and closed["item"]["type"] == item["type"]


def deltas(rest, name: str, place: dict) -> dict | None:
    """The first event after them."""
    for event in rest:
        if event["type"] != f"{name}.delta":
            return event
        assert lies(event, place)
    return None


def lies(event: dict, place: dict) -> bool:
    return place.items() <= event.items()


def folded(events: list[dict]) -> list[dict]:
    """The output items, put together from their beginnings and deltas alone."""
    items: list[dict] = []
    for event in events:
        kind = event["type"]
        if kind == "response.output_item.added":
            items.append(event["item"])
        elif kind == "response.content_part.added":
            items[event["output_index"]]["content"].append(event["part"])
        elif kind.endswith(".delta"):
            item = items[event["output_index"]]
            if "content" in item:
                part = item["content"][event["content_index"]]
                part["text"] += event["delta"]
                part.setdefault("logprobs", []).extend(event.get("logprobs", []))
            else:
                item["arguments" if "arguments" in item else "input"] += event["delta"]
    return [told(item) for item in items]


def told(item: dict) -> dict:
    """An item without what only its end or its place knows: id, status, bytes, seal."""
    left = {k: v for k, v in item.items() if k not in ("id", "status", "encrypted_content")}
    if "content" in left:
        left["content"] = [part_told(part) for part in left["content"]]
    return left


def part_told(part: dict) -> dict:
    scores = [without_bytes(one) for one in part.get("logprobs", [])]
    return {"type": part["type"], "text": part["text"], "logprobs": scores}


def without_bytes(score: dict) -> dict:
    tops = [{k: v for k, v in top.items() if k != "bytes"} for top in score["top_logprobs"]]
    return {"token": score["token"], "logprob": score["logprob"], "top_logprobs": tops}


def timeless(response: dict) -> dict:
    """A response without its ids and times."""
    items = [{k: v for k, v in item.items() if k != "id"} for item in response["output"]]
    drop = ("id", "created_at", "completed_at")
    return {k: v for k, v in response.items() if k not in drop} | {"output": items}
