"""The conversation of an Anthropic request, and its shape for chat templates.

It does not know what a template does with it, nor the rest of a request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from slipstream.contracts.completion import Message
from slipstream.contracts.errors import InvalidRequest

BETWEEN_TURNS = "\n\n"


class CacheControl(msgspec.Struct):
    """What it asks for happens anyway: every prefix may be reused."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class Block(msgspec.Struct, tag_field="type", kw_only=True):
    cache_control: CacheControl | None = None


class TextBlock(Block, tag="text"):
    text: str


class ImageBlock(Block, tag="image"):
    pass


class DocumentBlock(Block, tag="document"):
    pass


class ThinkingBlock(Block, tag="thinking"):
    thinking: str
    signature: str | None = None


class RedactedBlock(Block, tag="redacted_thinking"):
    pass  # its data can be read by nobody here, and so is declared


class ToolUseBlock(Block, tag="tool_use"):
    id: Annotated[str, Meta(min_length=1)]
    name: Annotated[str, Meta(min_length=1)]
    input: dict[str, Any]


class ToolResultBlock(Block, tag="tool_result"):
    tool_use_id: Annotated[str, Meta(min_length=1)]
    content: str | list[TextBlock | ImageBlock | DocumentBlock] | None = None
    is_error: bool | None = None


AnyBlock = (
    TextBlock
    | ImageBlock
    | DocumentBlock
    | ThinkingBlock
    | RedactedBlock
    | ToolUseBlock
    | ToolResultBlock
)
System = str | list[TextBlock]


class Turn(msgspec.Struct):
    role: Literal["user", "assistant", "system"]
    content: str | list[AnyBlock]


@dataclass(frozen=True, slots=True)
class Placed:
    """A block and its path in the request."""

    block: Block
    where: str


def for_template(system: System | None, turns: Sequence[Turn]) -> tuple[Message, ...]:
    """Turns of one role in a row become one. Raises InvalidRequest naming what is wrong."""
    if not turns:
        raise InvalidRequest("messages is empty; send at least one.", param="messages")
    numbered = [(turn, f"messages[{index}].content") for index, turn in enumerate(turns)]
    if system:
        numbered.insert(0, (Turn("system", [*system_blocks(system)]), "system"))
    made: list[Message] = []
    for role, group in groupby(numbered, key=lambda pair: pair[0].role):
        placed = joined([blocks(turn.content, where) for turn, where in group])
        match role:
            case "assistant":
                made.append(assistant(placed))
            case "system":
                made.append({"role": role, "content": apart(placed)})
            case "user":
                made += user(placed)
    if made[-1].get("tool_calls") and turns[-1].role == "assistant":
        where = f"messages[{len(turns) - 1}].content"
        raise InvalidRequest(f"{where}: no tool_result answers its tool_use.", param=where)
    return tuple(made)


def system_blocks(system: System) -> list[TextBlock]:
    return [TextBlock(text=system)] if isinstance(system, str) else system


def blocks(content: str | Sequence[AnyBlock], where: str) -> list[Placed]:
    if isinstance(content, str):
        return [Placed(TextBlock(text=content), where)]
    if not content:
        raise InvalidRequest(f"{where} is an empty list.", param=where)
    return [Placed(block, f"{where}[{index}]") for index, block in enumerate(content)]


def joined(turns: Sequence[list[Placed]]) -> list[Placed]:
    """The blocks of several turns, texts of two turns kept apart."""
    made: list[Placed] = []
    for placed in turns:
        if (
            made
            and isinstance(made[-1].block, TextBlock)
            and isinstance(placed[0].block, TextBlock)
        ):
            made.append(Placed(TextBlock(text=BETWEEN_TURNS), placed[0].where))
        made += placed
    return made


def assistant(placed: Sequence[Placed]) -> Message:
    texts, thoughts, calls = [], [], []
    for one in placed:
        match one.block:
            case ThinkingBlock(thinking=thinking):
                thoughts.append(thinking)
            case RedactedBlock():
                pass
            case ToolUseBlock(id=call_id, name=name, input=given):
                function = {"name": name, "arguments": given}
                calls.append({"id": call_id, "type": "function", "function": function})
            case _:
                texts.append(text_of(one))
    made: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if calls:
        made["tool_calls"] = calls
    if thoughts:
        made["reasoning_content"] = BETWEEN_TURNS.join(thoughts)
    return made


def apart(placed: Sequence[Placed]) -> str | list[dict[str, str]]:
    """Several blocks stay so, as templates may mark each."""
    texts = [text_of(one) for one in placed]
    return texts[0] if len(texts) == 1 else [{"type": "text", "text": text} for text in texts]


def user(placed: Sequence[Placed]) -> Iterator[Message]:
    """Templates give each tool result a message of its own."""
    for is_result, run in groupby(placed, key=lambda one: isinstance(one.block, ToolResultBlock)):
        if is_result:
            yield from map(tool_result, run)
        else:
            yield {"role": "user", "content": apart([*run])}


def tool_result(placed: Placed) -> Message:
    """Templates know no flag for a failure, so the text says it."""
    block = placed.block
    assert isinstance(block, ToolResultBlock)
    where = f"{placed.where}.content"
    told = blocks(block.content, where) if block.content else []
    if block.is_error:
        told = [Placed(TextBlock(text="Error: " + "".join(map(text_of, told))), where)]
    return {
        "role": "tool",
        "content": apart(told) if told else "",
        "tool_call_id": block.tool_use_id,
    }


def text_of(placed: Placed) -> str:
    """Raises InvalidRequest for a block that is not text."""
    block, where = placed.block, placed.where
    if isinstance(block, TextBlock):
        return block.text
    kind = type(block).__struct_config__.tag
    why = (
        f"this model reads text only, no {kind}"
        if isinstance(block, (ImageBlock, DocumentBlock))
        else f"a {kind} may not stand here"
    )
    raise InvalidRequest(f"{where}: {why}.", param=where)
