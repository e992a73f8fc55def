"""The items of the Responses API, and the chat messages that a list of them comes to.

It does not know what a template does with messages, nor where earlier items were kept.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from slipstream.contracts.completion import Message
from slipstream.contracts.errors import InvalidRequest
from slipstream.serve.fields import Filled, strangers
from slipstream.serve.messages import MEDIA, refusal_of
from slipstream.serve.responses.tools import flat, placed
from slipstream.serve.wire import Object

TEXTS = frozenset({"input_text", "output_text", "reasoning_text", "summary_text", "text"})
SEAL = "slipstream.1."


class Part(msgspec.Struct, kw_only=True):
    """`annotations` and `logprobs` describe a text that came from here; they ask for nothing."""

    type: str
    text: str | None = None
    refusal: str | None = None
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None


class Item(msgspec.Struct, kw_only=True):
    """What every item may carry. It describes the item and asks for nothing."""

    type: str
    id: str | None = None
    status: str | None = None


class MessageItem(Item, kw_only=True):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Part]
    phase: str | None = None
    type: str = "message"


class CallItem(Item, kw_only=True):
    call_id: Filled
    name: Filled
    arguments: str
    namespace: Filled | None = None


class CustomCallItem(Item, kw_only=True):
    call_id: Filled
    name: Filled
    input: str
    namespace: Filled | None = None


class ResultItem(Item, kw_only=True):
    call_id: Filled
    output: str | list[Part]
    name: str | None = None


class ReasoningItem(Item, kw_only=True):
    summary: list[Part] | None = None
    content: list[Part] | None = None
    encrypted_content: str | None = None


KINDS: Mapping[str, type[Item]] = MappingProxyType(
    {
        "message": MessageItem,
        "function_call": CallItem,
        "function_call_output": ResultItem,
        "custom_tool_call": CustomCallItem,
        "custom_tool_call_output": ResultItem,
        "reasoning": ReasoningItem,
    }
)
PREFIXES: Mapping[str, str] = MappingProxyType(
    {
        "message": "msg_",
        "function_call": "fc_",
        "function_call_output": "fco_",
        "custom_tool_call": "ctc_",
        "custom_tool_call_output": "ctco_",
        "reasoning": "rs_",
    }
)


def new_id(kind: str) -> str:
    return PREFIXES[kind] + uuid.uuid4().hex


def listed(given: str | Sequence[Object]) -> list[Object]:
    """The items of `input`, which may be a text, each with its type and an id."""
    if isinstance(given, str):
        given = (
            [{"role": "user", "content": [{"type": "input_text", "text": given}]}] if given else []
        )
    items = []
    for raw in given:
        kind = "message" if raw.get("type") is None else raw["type"]
        known = {"id": new_id(kind)} if isinstance(kind, str) and kind in PREFIXES else {}
        items.append({**known, **{k: v for k, v in raw.items() if k != "id" or v}, "type": kind})
    return items


class Conversation:
    """Chat messages, item by item. One answer's reasoning, text and calls are one message."""

    def __init__(self, instructions: str | None) -> None:
        self.messages: list[dict[str, Any]] = []
        self.ignored: list[str] = []
        self._answer: dict[str, Any] | None = None
        if instructions:
            self.messages.append({"role": "system", "content": instructions})
        self._instructed = bool(instructions)

    def extend(self, items: Sequence[Object], path: str) -> None:
        """Takes items that stand at `path`. Raises InvalidRequest naming what is wrong."""
        for index, raw in enumerate(items):
            where = f"{path}[{index}]"
            item = typed(raw, where)
            self.ignored.extend(strangers(raw, item, f"{path}[]"))
            self._take(item, where)

    def _take(self, item: Item, where: str) -> None:
        match item:
            case MessageItem(role="assistant"):
                text = joined(item.content, f"{where}.content")
                self._answering("content")["content"] = text
            case MessageItem():
                self._say(item, where)
            case CallItem():
                self._call(item, arguments(item.arguments, f"{where}.arguments"))
            case CustomCallItem():
                self._call(item, {"input": item.input})
            case ResultItem():
                output = parts(item.output, f"{where}.output")
                self._append({"role": "tool", "content": output, "tool_call_id": item.call_id})
            case ReasoningItem():
                self._reason(item, where)

    def _say(self, item: MessageItem, where: str) -> None:
        content = parts(item.content, f"{where}.content")
        if item.role == "user":
            self._append({"role": "user", "content": content})
        elif self._instructed and len(self.messages) == 1:
            # Many templates take one system message at the head, and clients send two.
            text = joined(item.content, f"{where}.content")
            self.messages[0]["content"] += f"\n\n{text}"
        else:
            self._append({"role": "system", "content": content})

    def _call(self, item: CallItem | CustomCallItem, given: Mapping[str, Any]) -> None:
        function = {"name": flat(item.namespace, item.name), "arguments": given}
        call = {"id": item.call_id, "type": "function", "function": function}
        self._answering().setdefault("tool_calls", []).append(call)

    def _reason(self, item: ReasoningItem, where: str) -> None:
        text = joined(item.content or [], f"{where}.content") or opened(item.encrypted_content)
        if not text:
            unread = {"summary": item.summary, "encrypted_content": item.encrypted_content}
            self.ignored.extend(f"input[].{name}" for name, value in unread.items() if value)
            return
        answer = self._answering("content", "tool_calls")
        answer["reasoning_content"] = answer.get("reasoning_content", "") + text

    def _append(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        self._answer = None

    def _answering(self, *done: str) -> dict[str, Any]:
        """The assistant's message that goes on; a new one where the last has one of `done`."""
        if self._answer is None or any(self._answer.get(name) for name in done):
            self._append(answer := {"role": "assistant", "content": ""})
            self._answer = answer
        return self._answer


def typed(raw: Object, where: str) -> Item:
    """One of `listed`. Raises InvalidRequest naming what is wrong."""
    kind = raw["type"]
    if kind == "item_reference":
        raise InvalidRequest(
            f"{where}: item_reference is refused: send the item, or previous_response_id.",
            param=f"{where}.type",
        )
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidRequest(
            f"{where}.type is {str(kind)[:40]!r}; it must be one of {', '.join(KINDS)}.",
            param=f"{where}.type",
        )
    return placed(raw, KINDS[kind], where)


def parts(given: str | Sequence[Part], where: str) -> str | list[dict[str, str]]:
    """Content as templates read it."""
    if isinstance(given, str):
        return given
    if not given:
        raise InvalidRequest(f"{where} is an empty list.", param=where)
    return [
        {"type": "text", "text": text_of(part, f"{where}[{index}]")}
        for index, part in enumerate(given)
    ]


def joined(given: str | Sequence[Part], where: str) -> str:
    if isinstance(given, str):
        return given
    return "".join(text_of(part, f"{where}[{index}]") for index, part in enumerate(given))


def text_of(part: Part, where: str) -> str:
    if part.type in MEDIA or part.type in ("input_file", "computer_screenshot"):
        raise InvalidRequest(f"{where}: this model reads text only, no {part.type}.", param=where)
    if part.type == "refusal":
        return refusal_of(part.refusal, where)
    if part.type not in TEXTS:
        raise InvalidRequest(
            f"{where}.type is {part.type[:40]!r}; it must be input_text or output_text.",
            param=f"{where}.type",
        )
    if part.text is None:
        raise InvalidRequest(f"{where}.text is missing.", param=f"{where}.text")
    return part.text


def arguments(given: str, where: str) -> Mapping[str, Any]:
    """Templates write the arguments out themselves, so they get the object and not its text."""
    try:
        return msgspec.json.decode(given or "{}", type=dict)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"{where} is not a JSON object: {error}.", param=where) from error


def sealed(reasoning: str) -> str:
    """Reasoning as `encrypted_content`, for clients that carry it back and keep nothing here.

    It is theirs to read, so nothing is hidden; the form only says that it is ours."""
    return SEAL + base64.urlsafe_b64encode(reasoning.encode()).decode()


def opened(content: str | None) -> str:
    """The reasoning in what `sealed` made; empty for anything else."""
    if content is None or not content.startswith(SEAL):
        return ""
    try:
        return base64.urlsafe_b64decode(content.removeprefix(SEAL)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def as_messages(conversation: Conversation) -> tuple[Message, ...]:
    if not conversation.messages:
        raise InvalidRequest("input is empty; send a text or items.", param="input")
    return tuple(conversation.messages)
