"""POST /v1/chat/completions: parses its body and renders its choices, and no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from slipstream.contracts.completion import Completion
from slipstream.contracts.delta import Delta, TextLogprob
from slipstream.contracts.errors import InvalidRequest
from slipstream.serve import fields
from slipstream.serve.api import Parsed
from slipstream.serve.fields import Context, Count, Filled, GenerationRequest, TopCount
from slipstream.serve.messages import ChatMessage, for_template
from slipstream.serve.openai_reply import Choice, OpenAIReply
from slipstream.serve.wire import Object
from slipstream.text.sink import Folded


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


class NamedTool(msgspec.Struct):
    function: NamedFunction
    type: Literal["function"] = "function"


class ChatRequest(GenerationRequest, kw_only=True):
    messages: list[ChatMessage]
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: TopCount | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = (
        None
    )
    modalities: list[Literal["text"]] | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None


def parse(body: Object, context: Context) -> Parsed:
    request = fields.typed(body, ChatRequest)
    messages = for_template(request.messages, body["messages"])
    tools = function_tools(request, body)
    shared = fields.shared(body, request, context)
    completion = Completion(
        **shared,
        messages=messages,
        tools=tools,
        template_kwargs=template_kwargs(request),
        max_tokens=fields.one_limit(longest(request), request.min_tokens),
        logprobs=logprobs(request),
    )
    fields.refuse_not_yet(body)
    reply = OpenAIReply(
        ChatStyle(logprobs=completion.logprobs is not None),
        model=completion.model,
        ignored=completion.ignored,
        prompts=1,
        choices=completion.choices,
        include_usage=fields.include_usage(request),
    )
    return Parsed((completion,), reply, bool(request.stream))


def longest(request: ChatRequest) -> int | None:
    """The limit under either of its names. Raises InvalidRequest when they disagree."""
    named = {request.max_tokens, request.max_completion_tokens} - {None}
    if len(named) > 1:
        raise InvalidRequest(
            "max_tokens and max_completion_tokens differ; send one of them.", param="max_tokens"
        )
    return named.pop() if named else None


def logprobs(request: ChatRequest) -> int | None:
    if request.logprobs:
        return request.top_logprobs or 0
    if request.top_logprobs is not None:
        raise InvalidRequest("top_logprobs needs logprobs: true.", param="top_logprobs")
    return None


def template_kwargs(request: ChatRequest) -> Mapping[str, Any]:
    given = request.chat_template_kwargs or {}
    if request.reasoning_effort is None:
        return given
    return {"reasoning_effort": request.reasoning_effort, **given}


def function_tools(request: ChatRequest, body: Object) -> Sequence[Mapping[str, Any]]:
    """The function tools as they were sent. Raises InvalidRequest when a call is demanded
    without any."""
    tools = []
    for index, tool in enumerate(request.tools or []):
        if tool.type == "function":
            if tool.function is None:
                where = f"tools[{index}].function"
                raise InvalidRequest(f"{where} is missing.", param=where)
            tools.append(body["tools"][index])
    if request.tool_choice not in (None, "none", "auto") and not tools:
        raise InvalidRequest("tool_choice demands a call, but no tools.", param="tool_choice")
    return tools


class ChatStyle:
    """How this route writes a choice."""

    prefix = "chatcmpl-"
    body_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def __init__(self, *, logprobs: bool) -> None:
        self._logprobs = logprobs

    def writer(self, index: int) -> ChatWriter:
        return ChatWriter(index)

    def whole(self, index: int, folded: Folded) -> Choice:
        message = {"role": "assistant", "content": folded.text, "refusal": None}
        if folded.reasoning:
            message["reasoning_content"] = folded.reasoning
        return {
            "index": index,
            "message": message,
            "logprobs": entries(folded.logprobs) if self._logprobs else None,
            "finish_reason": folded.finish,
        }


class ChatWriter:
    """One choice of a stream; the role goes ahead of its first delta."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._opened = False

    def push(self, delta: Delta) -> list[Choice]:
        added = {"reasoning_content": delta.reasoning, "content": delta.text}
        added = {name: text for name, text in added.items() if text}
        if not (added or delta.logprobs or delta.finish):
            return []
        choices = [] if self._opened else [self._choice({"role": "assistant", "content": ""})]
        self._opened = True
        logprobs = entries(delta.logprobs) if delta.logprobs else None
        return [*choices, self._choice(added, logprobs, delta.finish)]

    def _choice(
        self,
        added: Mapping[str, str],
        logprobs: Mapping[str, Any] | None = None,
        finish: str | None = None,
    ) -> Choice:
        return {
            "index": self._index,
            "delta": added,
            "logprobs": logprobs,
            "finish_reason": finish,
        }


def entries(logprobs: Sequence[TextLogprob]) -> Mapping[str, Any]:
    content = [{**entry(one), "top_logprobs": [entry(top) for top in one.top]} for one in logprobs]
    return {"content": content, "refusal": None}


def entry(one: TextLogprob) -> dict[str, Any]:
    return {"token": one.text, "logprob": one.logprob, "bytes": list(one.raw)}
