"""The tools of the Responses API: what of them a model is offered, and whose each call is.

Functions are offered as they are, those of a namespace and custom tools as functions of one flat
list. Tools that OpenAI runs itself change nothing here and are declared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec

from slipstream.contracts.completion import ToolChoice, ToolMode
from slipstream.contracts.errors import InvalidRequest
from slipstream.serve.fields import Filled, convert, strangers
from slipstream.serve.functions import check_function
from slipstream.serve.wire import Object

CUSTOM_PARAMETERS: Mapping[str, Any] = MappingProxyType(
    {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
)
FUNCTION_PARTS = frozenset({"name", "description", "parameters", "strict"})
MODES: Mapping[str, ToolMode] = MappingProxyType(
    {"none": ToolMode.NONE, "auto": ToolMode.AUTO, "required": ToolMode.REQUIRED}
)


class FunctionTool(msgspec.Struct, kw_only=True):
    name: Filled
    type: str = "function"
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class CustomTool(msgspec.Struct, kw_only=True):
    name: Filled
    type: str = "custom"
    description: str | None = None


class Namespace(msgspec.Struct, kw_only=True):
    name: Filled
    tools: list[dict[str, Any]]
    type: str = "namespace"
    description: str | None = None


class AllowedTool(msgspec.Struct, kw_only=True):
    name: Filled
    type: str
    namespace: Filled | None = None


class Choice(msgspec.Struct, kw_only=True):
    """The object forms of `tool_choice`."""

    type: str
    name: Filled | None = None
    namespace: Filled | None = None
    mode: str | None = None
    tools: list[AllowedTool] | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """One that the model is offered. `custom` takes plain text where a function takes JSON."""

    name: str
    definition: Mapping[str, Any]  # as Completion.tools has them
    namespace: str | None = None
    custom: bool = False

    @property
    def offered(self) -> str:
        return flat(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Offer:
    tools: Mapping[str, Tool]  # by the name that the model reads
    choice: ToolChoice
    ignored: tuple[str, ...]


def flat(namespace: str | None, name: str) -> str:
    """The name that the model reads."""
    return name if namespace is None else f"{namespace}__{name}"


def placed(raw: Object, kind: type[Any], where: str) -> Any:
    """As `convert`, for a part of the body that lies at `where`."""
    try:
        return convert(raw, kind)
    except InvalidRequest as error:
        param = f"{where}.{error.param}" if error.param else where
        raise InvalidRequest(f"{where}.{error.message}", param=param) from error


def offer(given: Sequence[Object], choice: str | Object | None, parallel: bool | None) -> Offer:
    """Raises InvalidRequest naming the part of `tools` or `tool_choice` that is wrong."""
    ignored: list[str] = []
    tools: dict[str, Tool] = {}
    for tool, where in every(given, "tools", None, ignored):
        parameters = tool.definition["function"].get("parameters")
        check_function(tool.offered, parameters, tools, where)
        tools[tool.offered] = tool
    chosen, allowed = chosen_of(choice, tools, parallel is not False)
    if chosen.mode in (ToolMode.REQUIRED, ToolMode.NAMED) and not tools:
        raise InvalidRequest("tool_choice demands a call, but no tools.", param="tool_choice")
    return Offer({name: tools[name] for name in allowed}, chosen, tuple(dict.fromkeys(ignored)))


def every(
    given: Sequence[Object], path: str, namespace: str | None, ignored: list[str]
) -> Iterator[tuple[Tool, str]]:
    """The tools, and where each stands. `ignored` grows by what changes nothing."""
    for index, raw in enumerate(given):
        where = f"{path}[{index}]"
        match raw.get("type"):
            case "function":
                known = placed(raw, FunctionTool, where)
                ignored.extend(strangers(raw, known, f"{path}[]"))
                yield Tool(known.name, function(raw, namespace), namespace), where
            case "custom":
                known = placed(raw, CustomTool, where)
                ignored.extend(strangers(raw, known, f"{path}[]"))
                made = custom_function(known, namespace)
                yield Tool(known.name, made, namespace, custom=True), where
            case "namespace" if namespace is None:
                known = placed(raw, Namespace, where)
                ignored.extend(strangers(raw, known, f"{path}[]"))
                yield from every(known.tools, f"{where}.tools", known.name, ignored)
            case str(kind) if kind:
                ignored.append(f"tools[{kind[:60]}]")
            case _:
                raise InvalidRequest(f"{where}.type is missing.", param=f"{where}.type")


def function(raw: Object, namespace: str | None) -> Mapping[str, Any]:
    """As the chat route would send it, its parts in the order in which they came."""
    known = {name: raw[name] for name in raw if name in FUNCTION_PARTS and raw[name] is not None}
    return {"type": "function", "function": {**known, "name": flat(namespace, raw["name"])}}


def custom_function(tool: CustomTool, namespace: str | None) -> Mapping[str, Any]:
    described = {} if tool.description is None else {"description": tool.description}
    raw = {"name": tool.name, **described, "parameters": {**CUSTOM_PARAMETERS}}
    return function(raw, namespace)


def chosen_of(
    choice: str | Object | None, tools: Mapping[str, Tool], parallel: bool
) -> tuple[ToolChoice, list[str]]:
    """The choice, and the names of the tools that it leaves."""
    name = "tool_choice"
    if choice is None or isinstance(choice, str):
        return ToolChoice(mode=mode_of(choice or "auto", name), parallel=parallel), [*tools]
    known = placed(choice, Choice, name)
    if known.type in ("function", "custom"):
        if known.name is None:
            raise InvalidRequest(f"{name}.name is missing.", param=f"{name}.name")
        wanted = found(known.namespace, known.name, tools, f"{name}.name")
        return ToolChoice(mode=ToolMode.NAMED, name=wanted, parallel=parallel), [*tools]
    if known.type == "allowed_tools":
        if not known.tools:
            raise InvalidRequest(f"{name}.tools is missing.", param=f"{name}.tools")
        left = [
            found(tool.namespace, tool.name, tools, f"{name}.tools[{index}].name")
            for index, tool in enumerate(known.tools)
        ]
        mode = mode_of(known.mode or "auto", f"{name}.mode")
        return ToolChoice(mode=mode, parallel=parallel), [one for one in tools if one in left]
    raise InvalidRequest(
        f"{name}.type is {known.type[:40]!r}; this server runs no tools of its own.",
        param=f"{name}.type",
    )


def mode_of(word: str, where: str) -> ToolMode:
    if word not in MODES:
        raise InvalidRequest(
            f"{where} is {word[:40]!r}; it must be none, auto or required.", param=where
        )
    return MODES[word]


def found(namespace: str | None, name: str, tools: Mapping[str, Tool], where: str) -> str:
    """The offered name of a tool that tool_choice speaks of."""
    offered = flat(namespace, name)
    if offered not in tools:
        raise InvalidRequest(f"{where}: tools has no {offered[:60]!r}.", param=where)
    return offered
