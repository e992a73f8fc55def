"""The cases of the Open Responses compliance suite, judged by that specification's published types.

The suite itself is in no package registry; `openresponses-types` has its schema.
"""

import base64
import json
import struct
import zlib

import checks
import httpx
import openresponses_types as spec

PLACE = {
    "type": "object",
    "properties": {"location": {"type": "string"}},
    "required": ["location"],
}
TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather at a location",
    "parameters": PLACE,
}
OPEN = {"OpenResponses-Version": "latest"}
ORDER = 'CALL: get_weather {"location": "San Francisco, CA"}'
KINDS = {
    next(iter(kind.model_fields["type"].annotation)).value: kind
    for name, kind in vars(spec).items()
    if name.endswith("StreamingEvent")
}


def user(text: object) -> dict:
    return {"type": "message", "role": "user", "content": text}


def post(*items: dict, **fields: object) -> httpx.Response:
    body = {"model": checks.MODEL, "input": list(items), **fields}
    reply = httpx.post(f"{checks.TOLD}/v1/responses", json=body, headers=OPEN, timeout=60)
    assert reply.status_code == 200, f"HTTP {reply.status_code}: {reply.text}"
    return reply


def whole(*items: dict, **fields: object) -> spec.ResponseResource:
    response = spec.ResponseResource.model_validate(post(*items, **fields).json())
    assert response.output and response.status == "completed", response
    return response


def events(*items: dict, **fields: object) -> list:
    """Every event of a stream, each as its own type."""
    text = post(*items, stream=True, **fields).text
    data = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
    found = [json.loads(one) for one in data]
    assert [one["sequence_number"] for one in found] == list(range(len(found)))
    typed = [KINDS[one["type"]].model_validate(one) for one in found]
    assert typed[-1].response.status == "completed", typed[-1]
    return typed


def basic_response() -> str:
    return whole(user("Say hello in exactly 3 words.")).status


def streaming_response() -> str:
    return f"{len(events(user('Count from 1 to 5.')))} events"


def system_prompt() -> str:
    pirate = {"type": "message", "role": "system", "content": "You are a pirate."}
    return whole(pirate, user("Say hello.")).status


def tool_calling() -> str:
    response = whole(user(ORDER), tools=[TOOL])
    assert [item.type for item in response.output] == ["function_call"]
    return response.output[0].arguments


def tool_calling_streaming() -> str:
    found = events(user(ORDER), tools=[TOOL])
    kinds = {event.type.value for event in found}
    wanted = {"delta", "done"}
    assert {f"response.function_call_arguments.{one}" for one in wanted} <= kinds
    for moment in ("added", "done"):
        items = [one.item for one in found if one.type == f"response.output_item.{moment}"]
        assert [item.type for item in items] == ["function_call"]
    return f"{len(found)} events"


def image_input() -> str:
    parts = [
        {"type": "input_text", "text": "What do you see in this image?"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{picture()}"},
    ]
    return whole(user(parts)).status


def multi_turn() -> str:
    said = {"type": "message", "role": "assistant", "content": "Hello Alice!"}
    return whole(user("My name is Alice."), said, user("What is my name?")).status


def picture() -> str:
    """A red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\0\xff\0\0")
    png = chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + png).decode()


checks.run(
    basic_response,
    streaming_response,
    system_prompt,
    tool_calling,
    tool_calling_streaming,
    image_input,
    multi_turn,
)
