"""POST /v1/chat/completions: parses its body and renders its choices, and no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from slipstream.contracts.completion import Completion
from slipstream.contracts.delta import Delta, TextLogprob
from slipstream.contracts.errors import InvalidRequest
from slipstream.serve import fields
from slipstream.serve.api import Parsed
from slipstream.serve.fields import Context, Count, GenerationRequest, TopCount
from slipstream.serve.messages import ChatMessage, for_template
from slipstream.serve.openai.reply import Choice, OpenAIReply
from slipstream.serve.openai.tools import Chosen, Tool, offer, piece, whole
from slipstream.serve.wire import Object
from slipstream.text.sink import Folded


class ChatRequest(GenerationRequest, kw_only=True):
    messages: list[ChatMessage]
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: TopCount | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = (
        None
    )
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None
    modalities: list[Literal["text"]] | None = None
    tools: list[Tool] | None = None
    tool_choice: Chosen | None = None
    parallel_tool_calls: bool | None = None


def parse(body: Object, context: Context) -> Parsed:
    request = fields.typed(body, ChatRequest)
    messages = for_template(request.messages, body["messages"])
    offered = offer(request.tools, request.tool_choice, request.parallel_tool_calls, body)
    shared = fields.shared(body, request, context, idle=offered.ignored)
    completion = Completion(
        **shared,
        messages=messages,
        tools=offered.tools,
        tool_choice=offered.choice,
        template_kwargs=template_kwargs(request),
        continue_final=continues(request),
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


def continues(request: ChatRequest) -> bool:
    """Whether the answer goes on with the last message. Raises InvalidRequest where it cannot."""
    if not request.continue_final_message:
        if request.add_generation_prompt is False:
            raise InvalidRequest(
                "add_generation_prompt is false, so no answer would begin; send "
                "continue_final_message: true beside it, or leave it out.",
                param="add_generation_prompt",
            )
        return False
    if request.add_generation_prompt:
        raise InvalidRequest(
            "add_generation_prompt begins a new message; it cannot be joined with "
            "continue_final_message.",
            param="add_generation_prompt",
        )
    last = request.messages[-1]
    if last.role != "assistant" or last.tool_calls:
        raise InvalidRequest(
            "continue_final_message needs an assistant's text as the last message.",
            param="continue_final_message",
        )
    return True


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
        content = folded.text or (None if folded.calls else "")
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if folded.reasoning:
            message["reasoning_content"] = folded.reasoning
        if folded.calls:
            message["tool_calls"] = [whole(call) for call in folded.calls]
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
        calls = [piece(call) for call in delta.calls]
        added = {"reasoning_content": delta.reasoning, "content": delta.text, "tool_calls": calls}
        added = {name: value for name, value in added.items() if value}
        if not (added or delta.logprobs or delta.finish):
            return []
        choices = [] if self._opened else [self._choice({"role": "assistant", "content": ""})]
        self._opened = True
        logprobs = entries(delta.logprobs) if delta.logprobs else None
        return [*choices, self._choice(added, logprobs, delta.finish)]

    def _choice(
        self,
        added: Mapping[str, Any],
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
