"""What the routes answer, as types. Only /openapi.json is made from them: answers are written as
plain objects, and a test holds real ones against these.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from slipstream.serve.wire import Object


class Answer(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Nothing but these fields."""


class ErrorObject(Answer):
    message: str
    type: str
    param: str | None
    code: str | None


class Error(Answer):
    error: ErrorObject


class MessagesErrorObject(Answer):
    type: str
    message: str
    param: str | msgspec.UnsetType = msgspec.UNSET


class MessagesError(Answer):
    type: Literal["error"]
    error: MessagesErrorObject
    request_id: str


class Slipstream(Answer):
    lane: Literal["group", "solo"]
    method: str
    reasons: list[str]
    queue_ms: float
    prefill_ms: float
    decode_ms: float
    cached_tokens: int
    rows_peak: int
    seed: int
    ignored: list[str]
    spec: Object | None


class Declared(Answer):
    ignored: list[str]


class CachedTokens(Answer):
    cached_tokens: int


class ReasoningTokens(Answer):
    reasoning_tokens: int


class Usage(Answer):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens
    completion_tokens_details: ReasoningTokens


class CalledFunction(Answer):
    name: str
    arguments: str


class ToolCall(Answer):
    id: str
    type: Literal["function"]
    function: CalledFunction


class ChatAnswer(Answer):
    role: Literal["assistant"]
    content: str | None
    refusal: None = None
    reasoning_content: str | msgspec.UnsetType = msgspec.UNSET
    tool_calls: list[ToolCall] | msgspec.UnsetType = msgspec.UNSET


Finish = Literal["stop", "length", "tool_calls"]


class ChatChoice(Answer):
    index: int
    message: ChatAnswer
    logprobs: Object | None
    finish_reason: Finish


class TextChoice(Answer):
    index: int
    text: str
    logprobs: Object | None
    finish_reason: Finish


class Completed(Answer):
    id: str
    created: int
    model: str
    system_fingerprint: str
    usage: Usage
    slipstream: Slipstream


class ChatCompletion(Completed):
    object: Literal["chat.completion"]
    choices: list[ChatChoice]


class TextCompletion(Completed):
    object: Literal["text_completion"]
    choices: list[TextChoice]


class EmbeddingUsage(Answer):
    prompt_tokens: int
    total_tokens: int


class Embedding(Answer):
    """In base64: little-endian float32."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingList(Answer):
    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage
    slipstream: Slipstream


class CacheTokens(CachedTokens):
    cache_write_tokens: int


class ResponseUsage(Answer):
    input_tokens: int
    input_tokens_details: CacheTokens
    output_tokens: int
    output_tokens_details: ReasoningTokens
    total_tokens: int


class IncompleteDetails(Answer):
    reason: Literal["max_output_tokens"]


class Response(Answer):
    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Literal["completed", "incomplete"]
    model: str
    background: Literal[False]
    error: None
    incomplete_details: IncompleteDetails | None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: None
    metadata: dict[str, str]
    output: list[Object]
    parallel_tool_calls: bool
    previous_response_id: str | None
    prompt_cache_key: None
    reasoning: Object
    safety_identifier: None
    service_tier: str
    temperature: float
    text: Object
    tool_choice: str | Object
    tools: list[Object]
    top_logprobs: int
    top_p: float
    truncation: Literal["disabled"]
    usage: ResponseUsage
    slipstream: Slipstream
    # Of those who send OpenResponses-Version:
    presence_penalty: float | msgspec.UnsetType = msgspec.UNSET
    frequency_penalty: float | msgspec.UnsetType = msgspec.UNSET
    store: bool | msgspec.UnsetType = msgspec.UNSET


class TextBlock(Answer, tag="text", tag_field="type"):
    text: str


class ThinkingBlock(Answer, tag="thinking", tag_field="type"):
    thinking: str
    signature: str


class ToolUseBlock(Answer, tag="tool_use", tag_field="type"):
    id: str
    name: str
    input: Object


class ThinkingTokens(Answer):
    thinking_tokens: int


class MessageUsage(Answer):
    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: ThinkingTokens


class Message(Answer):
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[TextBlock | ThinkingBlock | ToolUseBlock]
    stop_reason: Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]
    stop_sequence: str | None
    usage: MessageUsage
    slipstream: Slipstream


class DeletedResponse(Answer):
    id: str
    object: Literal["response"]
    deleted: Literal[True]


class ItemList(Answer):
    object: Literal["list"]
    data: list[Object]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Model(Answer):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    root: str
    max_model_len: int
    abilities: list[str]


class ModelList(Answer):
    object: Literal["list"]
    data: list[Model]


class Tokens(Answer):
    tokens: list[int]
    count: int
    max_model_len: int
    token_strs: list[str] | msgspec.UnsetType = msgspec.UNSET
    slipstream: Declared | msgspec.UnsetType = msgspec.UNSET


class Prompt(Answer):
    prompt: str
    slipstream: Declared | msgspec.UnsetType = msgspec.UNSET


class Counted(Answer):
    input_tokens: int
    slipstream: Declared | msgspec.UnsetType = msgspec.UNSET


class Health(Answer):
    status: Literal["ok"]
    state: Literal["loading", "ready", "failed", "draining"]


class Ready(Answer):
    status: Literal["ready"]


class ModelInfo(Answer):
    model_path: str
    served_model_name: str
    is_generation: bool
    context_length: int
    max_model_len: int
