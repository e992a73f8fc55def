"""POST /v1/responses: parses its body into a Completion and the reply that renders it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from slipstream.contracts.completion import Completion, GrammarText, Message
from slipstream.contracts.errors import InvalidRequest
from slipstream.serve import fields
from slipstream.serve.api import Parsed
from slipstream.serve.fields import Context, Count, Filled, GenerationRequest, TopCount
from slipstream.serve.responses.items import Conversation, as_messages, listed
from slipstream.serve.responses.output import Output
from slipstream.serve.responses.reply import ResponsesReply
from slipstream.serve.responses.store import Store
from slipstream.serve.responses.tools import Offer, offer
from slipstream.serve.structured import schema_text
from slipstream.serve.wire import Object

LOGPROBS, SEALED = "message.output_text.logprobs", "reasoning.encrypted_content"
REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "background": "answers are given while the client waits",
        "conversation": "send previous_response_id, or the items",
        "prompt": "this server keeps no prompts; send instructions and input",
        "n": "a response has one answer",
    }
)
ALLOWED: Mapping[str, object] = MappingProxyType({"n": 1})
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Note = Annotated[str, Meta(max_length=512)]
Key = Annotated[str, Meta(max_length=64)]


class Format(msgspec.Struct):
    type: Literal["text", "json_object", "json_schema"]
    schema: dict[str, Any] | None = None
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class TextConfig(msgspec.Struct):
    format: Format | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ReasoningConfig(msgspec.Struct):
    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


class ResponsesRequest(GenerationRequest, kw_only=True):
    input: str | list[dict[str, Any]] | None = None
    instructions: str | None = None
    previous_response_id: Filled | None = None
    store: bool | None = None
    metadata: Annotated[dict[Key, Note], Meta(max_length=16)] | None = None
    max_output_tokens: Count | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    text: TextConfig | None = None
    reasoning: ReasoningConfig | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    include: list[str] | None = None
    top_logprobs: TopCount | None = None
    truncation: Literal["auto", "disabled"] | None = None
    background: bool | None = None


class Responses:
    """Parses this route's bodies, with what earlier responses said. Borrows `store`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def parse(self, body: Object, context: Context) -> Parsed:
        refuse(body)
        request = fields.convert(body, ResponsesRequest)
        offered = offer(request.tools or (), request.tool_choice, request.parallel_tool_calls)
        items = self._items(request)
        new = listed(request.input or "")
        messages, unread = conversation(request.instructions, items, new)
        shared = fields.shared(body, request, context)
        idle = (*fields.idle_fields(request), *idle_parts(request), *offered.ignored, *unread)
        completion = Completion(
            **{
                **shared,
                "ignored": fields.ignored(body, request, context.strict, idle),
                "grammar": grammar(request, shared["grammar"]),
            },
            messages=messages,
            prompt_param="input",
            tools=[tool.definition for tool in offered.tools.values()],
            tool_choice=offered.choice,
            template_kwargs=template_kwargs(request),
            max_tokens=fields.one_limit(longest(request), request.min_tokens),
            logprobs=logprobs(request),
        )
        fields.refuse_not_yet(body)
        first = head(request, completion, open_=context.open_responses)
        reply = self._reply(request, completion, offered, [*items, *new], first)
        return Parsed((completion,), reply, bool(request.stream), reply.failed)

    def _items(self, request: ResponsesRequest) -> list[Object]:
        """What was said before this request. Raises NotFound, InvalidRequest."""
        if request.previous_response_id is None:
            if request.input is None:
                raise InvalidRequest("input is missing.", param="input")
            return []
        record = self._store.get(request.previous_response_id, "previous_response_id")
        return [*record.input, *record.response["output"]]

    def _reply(
        self,
        request: ResponsesRequest,
        completion: Completion,
        offered: Offer,
        items: Sequence[Object],
        head: Object,
    ) -> ResponsesReply:
        def keep(response: Mapping[str, Any]) -> None:
            if request.store is not False:
                self._store.put(response, items)

        included = request.include or ()
        output = Output(
            offered.tools, logprobs=completion.logprobs is not None, seal=SEALED in included
        )
        return ResponsesReply(head, output, completion.ignored, keep)


def refuse(body: Object) -> None:
    """Raises InvalidRequest naming a field that this server never takes."""
    for name, why in REFUSED.items():
        value = body.get(name)
        if value is not None and value is not False and value != ALLOWED.get(name):
            raise InvalidRequest(f"{name} is refused: {why}.", param=name)
    if body.get("truncation") == "auto":
        raise InvalidRequest(
            "truncation is refused, but for disabled: nothing that was sent is left out.",
            param="truncation",
        )


def conversation(
    instructions: str | None, items: Sequence[Object], new: Sequence[Object]
) -> tuple[tuple[Message, ...], Sequence[str]]:
    """The messages, and paths of what nobody reads."""
    made = Conversation(instructions)
    made.extend(items, "previous_response_id")
    made.ignored.clear()  # it was declared before
    made.extend(new, "input")
    return as_messages(made), made.ignored


def grammar(request: ResponsesRequest, other: GrammarText | None) -> GrammarText | None:
    """`other` is what another field asks for. Raises InvalidRequest when both do."""
    param = "text.format"
    wanted = request.text.format if request.text else None
    if wanted is None or wanted.type == "text":
        return other
    if other is not None:
        raise InvalidRequest(
            f"{param} cannot be joined with {other.param}; send one of them.", param=param
        )
    if wanted.type == "json_object":
        return GrammarText("json_object", "", param)
    if wanted.schema is None:
        raise InvalidRequest(f"{param}.schema is missing.", param=f"{param}.schema")
    return schema_text(wanted.schema, param)


def longest(request: ResponsesRequest) -> int | None:
    """The limit under either of its names. Raises InvalidRequest when they disagree."""
    named = {request.max_tokens, request.max_output_tokens} - {None}
    if len(named) > 1:
        raise InvalidRequest(
            "max_tokens and max_output_tokens differ; send one of them.", param="max_tokens"
        )
    return named.pop() if named else None


def logprobs(request: ResponsesRequest) -> int | None:
    if LOGPROBS in (request.include or ()):
        return request.top_logprobs or 0
    if request.top_logprobs:
        raise InvalidRequest(f"top_logprobs needs {LOGPROBS} in include.", param="top_logprobs")
    return None


def template_kwargs(request: ResponsesRequest) -> Mapping[str, Any]:
    given = request.chat_template_kwargs or {}
    if request.reasoning is None or request.reasoning.effort is None:
        return given
    return {"reasoning_effort": request.reasoning.effort, **given}


def idle_parts(request: ResponsesRequest) -> list[str]:
    """Known fields and words that change nothing in this request."""
    idle = [
        f"include[{one[:60]}]" for one in request.include or () if one not in (LOGPROBS, SEALED)
    ]
    if request.text is not None and request.text.verbosity is not None:
        idle.append("text.verbosity")
    if request.reasoning is not None and request.reasoning.summary is not None:
        idle.append("reasoning.summary")
    return idle


def head(request: ResponsesRequest, completion: Completion, *, open_: bool) -> Object:
    """What a response repeats of its request, with nothing finished yet.

    `open_`: with what the Open Responses specification has beyond OpenAI's own types."""
    text = msgspec.to_builtins(request.text) if request.text else {}
    set_ = {name: value for name, value in text.items() if value is not None}
    wanted = {k: v for k, v in (set_.get("format") or {"type": "text"}).items() if v is not None}
    effort = request.reasoning.effort if request.reasoning else None
    beyond = {
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "store": request.store is not False,
    }
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": int(time.time()),
        "completed_at": None,
        "model": completion.model,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": request.instructions,
        "max_output_tokens": completion.max_tokens,
        "max_tool_calls": None,
        "metadata": request.metadata or {},
        "parallel_tool_calls": completion.tool_choice.parallel,
        "previous_response_id": request.previous_response_id,
        "prompt_cache_key": None,
        "reasoning": {"effort": effort, "summary": None},
        "safety_identifier": None,
        "service_tier": request.service_tier or "auto",
        "temperature": None,
        "text": {**set_, "format": wanted},
        "tool_choice": request.tool_choice or "auto",
        "tools": [whole(tool) for tool in request.tools or ()],
        "top_logprobs": completion.logprobs or 0,
        "top_p": None,
        "truncation": "disabled",
        "usage": None,
        **(beyond if open_ else {}),
    }


def whole(tool: Object) -> Object:
    """A tool with all that its kind has in a response."""
    if tool.get("type") != "function":
        return tool
    return {"description": None, "parameters": None, "strict": None, **tool}
