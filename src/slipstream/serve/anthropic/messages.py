"""POST /v1/messages and its count_tokens: parses their bodies, and no more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from slipstream.contracts.completion import Completion, GrammarText, ToolChoice, ToolMode
from slipstream.contracts.errors import InvalidRequest
from slipstream.contracts.sampling import Sampling
from slipstream.serve import fields
from slipstream.serve.anthropic.prompt import (
    CacheControl,
    System,
    Turn,
    for_template,
)
from slipstream.serve.anthropic.reply import AnthropicReply
from slipstream.serve.api import Parsed
from slipstream.serve.fields import Context, Count, Filled
from slipstream.serve.functions import check_function
from slipstream.serve.structured import schema_text
from slipstream.serve.wire import Object

NEVER: Mapping[str, str] = MappingProxyType(
    {
        "mcp_servers": "this server calls no other servers",
        "container": "this server runs no code",
    }
)
TOOL_MODES: Mapping[str, ToolMode] = MappingProxyType(
    {
        "auto": ToolMode.AUTO,
        "any": ToolMode.REQUIRED,
        "tool": ToolMode.NAMED,
        "none": ToolMode.NONE,
    }
)
CUSTOM = (None, "custom")


class Tool(msgspec.Struct, kw_only=True):
    """Anthropic's own kinds of tool have a `type` other than custom, and no schema."""

    type: str | None = None
    name: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,128}$")] | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None
    cache_control: CacheControl | None = None


class Choice(msgspec.Struct):
    type: Literal["auto", "any", "tool", "none"]
    name: Filled | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(msgspec.Struct):
    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: Count | None = None
    display: Literal["summarized", "omitted"] | None = None


class Format(msgspec.Struct):
    type: Literal["json_schema"]
    schema: dict[str, Any]


class OutputConfig(msgspec.Struct):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: Format | None = None


class CountRequest(msgspec.Struct, kw_only=True):
    """What decides the prompt. Types only; null is the same as absent."""

    model: str | None = None
    messages: list[Turn]
    system: System | None = None
    tools: list[Tool] | None = None
    tool_choice: Choice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: Format | None = None
    cache_control: CacheControl | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class MessagesRequest(CountRequest, kw_only=True):
    max_tokens: Count
    stop_sequences: Annotated[list[Filled], Meta(max_length=16)] | None = None
    stream: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    lane: Literal["solo"] | None = None
    priority: Annotated[int, Meta(ge=-2, le=2)] | None = None
    cache_salt: str | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    adapter: fields.Adapter | None = None


SAMPLING_FIELDS = ("temperature", "top_p", "top_k", "min_p", "seed")


def parse(body: Object, context: Context) -> Parsed:
    for name, why in NEVER.items():
        if body.get(name):
            raise InvalidRequest(f"{name} is refused: {why}.", param=name)
    request = fields.convert(body, MessagesRequest)
    completion = Completion(
        **prompt(body, request, context),
        grammar=grammar(request),
        sampling=sampling(request),
        max_tokens=request.max_tokens,
        stop=tuple(request.stop_sequences or ()),
        lane=request.lane,
        priority=request.priority or 0,
        cache_salt=request.cache_salt or "",
        adapters=fields.adapters(request.adapter, request.model, context),
    )
    reply = AnthropicReply(
        model=completion.model,
        ignored=completion.ignored,
        show_thinking=request.thinking is None or request.thinking.display != "omitted",
    )
    return Parsed((completion,), reply, bool(request.stream))


def parse_count(body: Object, context: Context) -> Completion:
    """The request whose prompt is to be counted."""
    return Completion(**prompt(body, fields.convert(body, CountRequest), context))


def prompt(body: Object, request: CountRequest, context: Context) -> dict[str, Any]:
    """Completion's arguments that decide the prompt. Raises Refusal."""
    tools = custom_tools(request)
    return {
        "request_id": context.request_id,
        "model": context.names.resolve(request.model),
        "messages": for_template(request.system, request.messages),
        "tools": tools,
        "tool_choice": tool_choice(request.tool_choice, tools),
        "template_kwargs": template_kwargs(request),
        "continue_final": request.messages[-1].role == "assistant",
        "ignored": fields.ignored(body, request, context.strict, tuple(idle_fields(request))),
        "strict": context.strict,
    }


def custom_tools(request: CountRequest) -> Sequence[Mapping[str, Any]]:
    """The tools that have a schema, in the shape that chat templates read."""
    made: dict[str, Mapping[str, Any]] = {}
    for index, tool in enumerate(request.tools or []):
        if tool.type not in CUSTOM:
            continue
        where = f"tools[{index}]"
        if tool.name is None:
            raise InvalidRequest(f"{where}.name is missing.", param=f"{where}.name")
        check_function(tool.name, None, made, where)
        if tool.input_schema is None or tool.input_schema.get("type") != "object":
            where += ".input_schema"
            raise InvalidRequest(f"{where} must be a schema of type object.", param=where)
        function: dict[str, Any] = {"name": tool.name}
        if tool.description is not None:
            function["description"] = tool.description
        function["parameters"] = tool.input_schema
        if tool.strict is not None:
            function["strict"] = tool.strict
        made[tool.name] = {"type": "function", "function": function}
    return tuple(made.values())


def tool_choice(choice: Choice | None, tools: Sequence[Mapping[str, Any]]) -> ToolChoice:
    if choice is None:
        return ToolChoice()
    mode = TOOL_MODES[choice.type]
    if mode in (ToolMode.REQUIRED, ToolMode.NAMED) and not tools:
        raise InvalidRequest(
            "tool_choice demands a call, but no tools were sent that can be called here.",
            param="tool_choice",
        )
    name = choice.name or ""
    if mode is ToolMode.NAMED and name not in {tool["function"]["name"] for tool in tools}:
        raise InvalidRequest(
            "tool_choice.name must be the name of one of the tools.", param="tool_choice.name"
        )
    return ToolChoice(
        mode=mode,
        name=name if mode is ToolMode.NAMED else "",
        parallel=not choice.disable_parallel_tool_use,
    )


def template_kwargs(request: CountRequest) -> Mapping[str, Any]:
    """Thinking and effort under the names that chat templates have for them."""
    made: dict[str, Any] = {}
    if request.thinking is not None:
        made["enable_thinking"] = request.thinking.type != "disabled"
        if request.thinking.budget_tokens is not None:
            made["thinking_budget"] = request.thinking.budget_tokens
    if request.output_config is not None and request.output_config.effort is not None:
        made["reasoning_effort"] = request.output_config.effort
    return made | (request.chat_template_kwargs or {})


def grammar(request: CountRequest) -> GrammarText | None:
    """The answer's schema, under either of its names. Raises InvalidRequest when both are used."""
    within = request.output_config.format if request.output_config else None
    if within is not None and request.output_format is not None:
        raise InvalidRequest(
            "output_format cannot be joined with output_config.format; send one of them.",
            param="output_format",
        )
    if within is not None:
        return schema_text(within.schema, "output_config.format")
    if request.output_format is not None:
        return schema_text(request.output_format.schema, "output_format")
    return None


def sampling(request: MessagesRequest) -> Mapping[str, Any]:
    """What the client set, within its ranges."""
    values = msgspec.structs.asdict(request)
    given = {name: values[name] for name in SAMPLING_FIELDS if values[name] is not None}
    Sampling.resolve(given, {}, seed=0)
    return given


def idle_fields(request: CountRequest) -> Iterator[str]:
    """Known fields that change nothing in this request."""
    for tool in request.tools or []:
        if tool.type not in CUSTOM:
            yield f"tools[{str(tool.type)[:60]}]"
    if request.thinking is not None and request.thinking.budget_tokens is not None:
        yield "thinking.budget_tokens"  # few templates read it, and nothing holds them to it
