"""Chat messages as the OpenAI API sends them, and in the shape that chat templates read.

It does not know what a template does with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from slipstream.contracts.completion import Message
from slipstream.contracts.errors import InvalidRequest

MEDIA = frozenset(
    {"image_url", "image", "input_image", "input_audio", "audio", "video_url", "file"}
)


class Part(msgspec.Struct):
    type: str
    text: str | None = None
    refusal: str | None = None


class CalledFunction(msgspec.Struct):
    name: Annotated[str, Meta(min_length=1)]
    arguments: str | dict[str, Any]


class Call(msgspec.Struct):
    function: CalledFunction
    id: str | None = None
    type: Literal["function"] = "function"


class ChatMessage(msgspec.Struct, kw_only=True):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    refusal: str | None = None  # what an assistant said instead
    name: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None  # another name of the same
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None


def for_template(messages: Sequence[ChatMessage], raw: Sequence[Any]) -> tuple[Message, ...]:
    """Raises InvalidRequest naming the part of `messages` that is wrong.

    `raw` are the same messages untyped."""
    if not messages:
        raise InvalidRequest("messages is empty; send at least one.", param="messages")
    for index, fields in enumerate(raw):
        for name in ("function_call", "audio"):
            if fields.get(name) is not None:
                where = f"messages[{index}].{name}"
                raise InvalidRequest(f"{where} is not supported.", param=where)
    return tuple(one(message, f"messages[{index}]") for index, message in enumerate(messages))


def one(message: ChatMessage, where: str) -> Message:
    # Templates know no developer; where one does, it reads system the same way.
    role = "system" if message.role == "developer" else message.role
    if role == "tool" and message.tool_call_id is None:
        raise InvalidRequest(f"{where}.tool_call_id is missing.", param=f"{where}.tool_call_id")
    if message.tool_calls is not None and role != "assistant":
        raise InvalidRequest(
            f"{where}.tool_calls: only an assistant calls tools.", param=f"{where}.tool_calls"
        )
    said = spoken(message, where)
    if said is None and not message.tool_calls:
        raise InvalidRequest(f"{where}.content is missing.", param=f"{where}.content")
    made: dict[str, Any] = {"role": role, "content": content(said, f"{where}.content")}
    if message.tool_calls:
        made["tool_calls"] = [
            call(item, f"{where}.tool_calls[{index}]")
            for index, item in enumerate(message.tool_calls)
        ]
    optional = {
        "name": message.name,
        "reasoning_content": message.reasoning_content or message.reasoning,
        "tool_call_id": message.tool_call_id,
    }
    return made | {name: value for name, value in optional.items() if value is not None}


def spoken(message: ChatMessage, where: str) -> str | list[Part] | None:
    """The content, or the refusal that stands in for it."""
    if message.refusal is None:
        return message.content
    if message.role != "assistant" or message.content:
        raise InvalidRequest(
            f"{where}.refusal: only an assistant refuses, and then says nothing else.",
            param=f"{where}.refusal",
        )
    return message.refusal


def content(given: str | list[Part] | None, where: str) -> str | list[dict[str, str]]:
    if not isinstance(given, list):
        return given or ""  # many templates add it to text, whether there are tool calls or not
    if not given:
        raise InvalidRequest(f"{where} is an empty list.", param=where)
    return [
        {"type": "text", "text": text_of(part, f"{where}[{index}]")}
        for index, part in enumerate(given)
    ]


def text_of(part: Part, where: str) -> str:
    if part.type in MEDIA:
        raise InvalidRequest(f"{where}: this model reads text only, no {part.type}.", param=where)
    if part.type == "refusal":
        return refusal_of(part.refusal, where)
    if part.type != "text":
        raise InvalidRequest(
            f"{where}.type is {part.type[:40]!r}; it must be text.", param=f"{where}.type"
        )
    if part.text is None:
        raise InvalidRequest(f"{where}.text is missing.", param=f"{where}.text")
    return part.text


def refusal_of(refusal: str | None, where: str) -> str:
    if refusal is None:
        raise InvalidRequest(f"{where}.refusal is missing.", param=f"{where}.refusal")
    return refusal


def call(given: Call, where: str) -> dict[str, Any]:
    """Templates write the arguments out themselves, so they get the object and not its text."""
    param = f"{where}.function.arguments"
    arguments = given.function.arguments
    try:
        if isinstance(arguments, str):
            arguments = msgspec.json.decode(arguments or "{}", type=dict)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"{param} is not a JSON object: {error}.", param=param) from error
    function = {"name": given.function.name, "arguments": arguments}
    made: dict[str, Any] = {"type": "function", "function": function}
    return made if given.id is None else {"id": given.id, **made}
