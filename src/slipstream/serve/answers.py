"""What the routes answer, as types. Only /openapi.json is made from them: answers are written as
plain objects, and a test holds real ones against these.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from slipstream.contracts.report import LaneStats, PrefixStats, SpecStats
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
    error: None
    incomplete_details: IncompleteDetails | None
    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, str]
    output: list[Object]
    parallel_tool_calls: bool
    previous_response_id: str | None
    reasoning: Object
    service_tier: str
    temperature: float | None
    text: Object
    tool_choice: str | Object
    tools: list[Object]
    top_logprobs: int
    top_p: float | None
    truncation: Literal["disabled"]
    usage: ResponseUsage
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


class SoloStats(Answer):
    active: int
    submitted: int


class Lanes(Answer):
    group: LaneStats
    solo: SoloStats


class QueueStats(Answer):
    waiting: int
    max: int
    rejected: int


class LeaseStats(Answer):
    held_by: str | None
    waiting: int


class TokenStats(Answer):
    prompt: int
    cached: int
    generated: int


class Stats(Answer):
    model: str
    uptime_s: float
    turns: int
    lanes: Lanes
    queue: QueueStats
    lease: LeaseStats
    memory: dict[str, int]
    prefix_cache: PrefixStats
    tokens: TokenStats
    placements: dict[str, int]
    spec: SpecStats
    finish: dict[str, int]


class RowEntry(Answer):
    id: str
    choice: int
    lane: Literal["group", "solo"]
    state: Literal["queued", "prefill", "decode", "parked"]
    prompt_tokens: int
    computed: int
    cached_tokens: int
    generated: int
    age_ms: float
    reasons: list[str]


class RowList(Answer):
    rows: list[RowEntry]


class CancelledRequest(Answer):
    id: str
    cancelled: int
