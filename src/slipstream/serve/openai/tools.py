"""Tools and tool calls as the OpenAI chat API has them: what is offered, chosen and shown.

It does not know how a model calls a tool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from slipstream.contracts.completion import ToolChoice, ToolMode
from slipstream.contracts.delta import ToolDelta
from slipstream.contracts.errors import InvalidRequest
from slipstream.serve.fields import Filled
from slipstream.serve.functions import check_function
from slipstream.serve.wire import Object

MODES: Mapping[str, ToolMode] = MappingProxyType(
    {"none": ToolMode.NONE, "auto": ToolMode.AUTO, "required": ToolMode.REQUIRED}
)


class Function(msgspec.Struct):
    name: Filled
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(msgspec.Struct):
    type: str
    function: Function | None = None


class NamedFunction(msgspec.Struct):
    name: Filled


class Named(msgspec.Struct):
    function: NamedFunction
    type: Literal["function"] = "function"


class AllowedTools(msgspec.Struct):
    mode: Literal["auto", "required"]
    tools: list[Named]


class ChosenTool(msgspec.Struct):
    """The object forms of tool_choice."""

    type: Literal["function", "allowed_tools"] = "function"
    function: NamedFunction | None = None
    allowed_tools: AllowedTools | None = None


Chosen = Literal["none", "auto", "required"] | ChosenTool


@dataclass(frozen=True, slots=True)
class Offer:
    tools: tuple[Mapping[str, Any], ...]  # as they were sent
    choice: ToolChoice
    ignored: tuple[str, ...]  # kinds of tool that this server does not run


def offer(
    given: Sequence[Tool] | None, chosen: Chosen | None, parallel: bool | None, raw: Object
) -> Offer:
    """Raises InvalidRequest naming what is wrong in `tools` or `tool_choice`. `raw`: the body."""
    tools = dict(functions(given or (), raw))
    kinds = [tool.type for tool in given or () if tool.type != "function"]
    ignored = tuple(dict.fromkeys(f"tools[{kind[:60]}]" for kind in kinds))
    mode, name = ToolMode.AUTO, ""
    if isinstance(chosen, str):
        mode = MODES[chosen]
    elif chosen is not None and chosen.type == "allowed_tools":
        where = "tool_choice.allowed_tools"
        if chosen.allowed_tools is None:
            raise InvalidRequest(f"{where} is missing.", param=where)
        mode = MODES[chosen.allowed_tools.mode]
        names = [one.function.name for one in chosen.allowed_tools.tools]
        allowed = {one: known(tools, one, where) for one in names}
        tools = {one: tool for one, tool in tools.items() if one in allowed}
    elif chosen is not None:
        where = "tool_choice.function"
        if chosen.function is None:
            raise InvalidRequest(f"{where} is missing.", param=where)
        mode, name = ToolMode.NAMED, chosen.function.name
        known(tools, name, f"{where}.name")
    if mode in (ToolMode.REQUIRED, ToolMode.NAMED) and not tools:
        raise InvalidRequest("tool_choice demands a call, but no tools.", param="tool_choice")
    choice = ToolChoice(mode=mode, name=name, parallel=parallel is not False)
    return Offer(tuple(tools.values()), choice, ignored)


def known(tools: Mapping[str, Mapping[str, Any]], name: str, where: str) -> Mapping[str, Any]:
    if name not in tools:
        raise InvalidRequest(f"{where}: tools has no {name[:60]!r}.", param=where)
    return tools[name]


def functions(given: Sequence[Tool], raw: Object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(name, tool) for every function, each name once."""
    seen: set[str] = set()
    for index, tool in enumerate(given):
        where = f"tools[{index}].function"
        if tool.type != "function":
            continue
        if tool.function is None:
            raise InvalidRequest(f"{where} is missing.", param=where)
        name = tool.function.name
        check_function(name, tool.function.parameters, seen, where)
        seen.add(name)
        yield name, raw["tools"][index]


def whole(call: ToolDelta) -> Mapping[str, Any]:
    """A call in a message."""
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def piece(call: ToolDelta) -> Mapping[str, Any]:
    """A piece of a call in a chunk."""
    if call.id:
        return {"index": call.index, **whole(call)}
    return {"index": call.index, "function": {"arguments": call.arguments}}
