"""The request fields that the OpenAI routes share: their types, and how they fill a Completion.

Ranges of sampling numbers live in contracts.sampling, whatever needs the model in text. What a
request may not ask of this build stands in two tables, NEVER and NOT_YET.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from slipstream.contracts.adapters import AdapterUse
from slipstream.contracts.errors import InvalidRequest
from slipstream.contracts.sampling import Sampling
from slipstream.serve.names import ServedNames
from slipstream.serve.structured import ResponseFormat, StructuredOutputs, grammar
from slipstream.serve.wire import Object

NEVER: Mapping[str, str] = MappingProxyType(
    {
        "suffix": "this server continues text; it does not fill in",
        "functions": "it is the older form of tools; send tools",
        "function_call": "it is the older form of tool_choice; send tool_choice",
        "audio": "this server answers in text",
        "web_search_options": "this server fetches nothing",
        "adapters": "folders are mounted by name (--adapter, /v1/adapters); send adapter",
    }
)
NOT_YET: Mapping[str, str] = MappingProxyType(
    {
        "draft": "only false is built in yet",
    }
)

SERVICE_TIERS: Mapping[str, int] = MappingProxyType({"flex": -1, "priority": 1})

Count = Annotated[int, Meta(ge=1)]
Filled = Annotated[str, Meta(min_length=1)]
MOST_ADAPTERS = 8  # of one request
LARGEST_SCALE = 100
TopCount = Annotated[int, Meta(ge=0, le=20)]


@dataclass(frozen=True, slots=True)
class Context:
    """What parsing needs to know besides the body."""

    request_id: str
    names: ServedNames
    strict: bool
    rows_max: int  # prompts of one request times its choices; more could never be queued
    open_responses: bool = False  # the client says that it reads that specification's responses


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class ScaledAdapter(msgspec.Struct):
    name: Filled
    scale: float = 1.0


Adapter = Filled | list[Filled | ScaledAdapter] | dict[Filled, float]


class GenerationRequest(msgspec.Struct, kw_only=True):
    """Types only; null is the same as absent."""

    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    repetition_penalty: float | None = None
    repetition_context_size: int | None = None
    presence_penalty: float | None = None
    presence_context_size: int | None = None
    frequency_penalty: float | None = None
    frequency_context_size: int | None = None
    logit_bias: dict[str, float] | None = None
    seed: int | None = None
    min_tokens: int | None = None
    max_tokens: Count | None = None
    stop: Filled | Annotated[list[Filled], Meta(max_length=16)] | None = None
    stop_token_ids: list[Annotated[int, Meta(ge=0)]] | None = None
    ignore_eos: bool | None = None
    n: Annotated[int, Meta(ge=1, le=16)] | None = None
    logprobs_mode: Literal["processed", "raw"] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    lane: Literal["solo"] | None = None
    priority: Annotated[int, Meta(ge=-2, le=2)] | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority"] | None = None
    cache_salt: str | None = None
    adapter: Adapter | None = None
    draft: bool | Filled | None = None
    response_format: ResponseFormat | None = None
    guided_json: Filled | dict[str, Any] | None = None
    guided_regex: Filled | None = None
    guided_choice: Annotated[list[Filled], Meta(min_length=1)] | None = None
    guided_grammar: Filled | None = None
    structured_outputs: StructuredOutputs | None = None


Known = TypeVar("Known", bound=msgspec.Struct)

SAMPLING_FIELDS = tuple(field.name for field in dataclasses.fields(Sampling))


def typed(body: Object, kind: type[Known]) -> Known:
    """The body's known fields. Raises InvalidRequest naming the first that is of a wrong type
    or that this server never takes."""
    for name, why in NEVER.items():
        if body.get(name):
            raise InvalidRequest(f"{name} is refused: {why}.", param=name)
    return convert(body, kind)


def convert(body: Object, kind: type[Known]) -> Known:
    """Raises InvalidRequest naming the path of the first field that does not fit."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        param = re.sub(r"^(key in )?`\$\.?|\[\.\.\.\]|`$", "", where)
        if missing := re.search("required field `(.+)`", what):
            param = ".".join(filter(None, (param, missing[1])))
            raise InvalidRequest(f"{param} is missing.", param=param) from error
        raise InvalidRequest(f"{param}: {what}.", param=param) from error


def refuse_not_yet(body: Object) -> None:
    """Raises InvalidRequest naming a field that the body sets and this build cannot apply."""
    for name, why in NOT_YET.items():
        value = body.get(name)
        if not (value is None or value is False or value == []):
            raise InvalidRequest(f"{name} is refused: {why}.", param=name)


def shared(
    body: Object, request: GenerationRequest, context: Context, *, idle: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Completion's arguments that come from the shared fields; `idle` are paths that change
    nothing beside those. Raises Refusal."""
    priority = request.priority
    if priority is None:
        priority = SERVICE_TIERS.get(request.service_tier or "", 0)
    return {
        "request_id": context.request_id,
        "model": context.names.resolve(request.model),
        "sampling": sampling(request),
        "stop": (request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ()),
        "stop_token_ids": tuple(request.stop_token_ids or ()),
        "ignore_eos": bool(request.ignore_eos),
        "choices": request.n or 1,
        "logprobs_raw": request.logprobs_mode == "raw",
        "grammar": grammar(request),
        "lane": request.lane,
        "priority": priority,
        "adapters": adapters(request.adapter, request.model, context),
        "cache_salt": request.cache_salt or "",
        "strict": context.strict,
        "ignored": ignored(body, request, context.strict, (*idle_fields(request), *idle)),
    }


def sampling(request: GenerationRequest) -> Mapping[str, Any]:
    """What the client set, within its ranges."""
    fields = msgspec.structs.asdict(request)
    given = {name: fields[name] for name in SAMPLING_FIELDS if fields[name] is not None}
    if request.logit_bias is not None:
        given["logit_bias"] = {
            token_id(key, "logit_bias"): value for key, value in request.logit_bias.items()
        }
    Sampling.resolve(given, {}, seed=0)
    return given


def token_id(key: str, param: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", key, re.ASCII):
        raise InvalidRequest(f"{param}: {key[:40]!r} is not a token id.", param=param)
    return int(key)


def adapters(
    given: Adapter | None, model: str | None, context: Context
) -> tuple[AdapterUse, ...] | None:
    """What the field `given`, or the model's name, asks for; None where neither does.

    Raises InvalidRequest for more than can be meant."""
    named = context.names.adapter(model)
    if given is None:
        return None if named is None else (AdapterUse(named),)
    if isinstance(given, dict):
        uses = [AdapterUse(name, scale) for name, scale in given.items()]
    else:
        several = [given] if isinstance(given, str) else given
        uses = [
            AdapterUse(one) if isinstance(one, str) else AdapterUse(one.name, one.scale)
            for one in several
        ]
    if isinstance(given, dict) and not given:
        raise InvalidRequest("adapter is empty; send a name, or null.", param="adapter")
    if len({use.name for use in uses}) < len(uses) or len(uses) > MOST_ADAPTERS:
        raise InvalidRequest(
            f"adapter: up to {MOST_ADAPTERS} adapters may be named, each once.", param="adapter"
        )
    if any(abs(use.scale) > LARGEST_SCALE for use in uses):
        raise InvalidRequest(
            f"adapter: a scale lies between -{LARGEST_SCALE} and {LARGEST_SCALE}.", param="adapter"
        )
    if named is not None and uses != [AdapterUse(named)]:
        raise InvalidRequest(
            f"adapter differs from what the model's name asks for ({named}); send one of them.",
            param="adapter",
        )
    return tuple(uses)


def idle_fields(request: GenerationRequest) -> tuple[str, ...]:
    """Known fields that change nothing in this request."""
    idle = request.stream_options is not None and not request.stream
    return ("stream_options",) if idle else ()


def ignored(
    body: Object, request: msgspec.Struct, strict: bool, idle: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Dotted paths of the fields that change nothing here. Raises InvalidRequest if `strict`."""
    found = tuple(dict.fromkeys((*strangers(body, request, ""), *idle)))
    if strict and found:
        raise InvalidRequest(
            f"{found[0]} changes nothing here, and --strict refuses that.", param=found[0]
        )
    return found


def strangers(raw: Any, known: Any, path: str) -> Iterator[str]:
    """Paths of the keys of `raw` that `known`, its typed twin, has no field for."""
    if isinstance(known, msgspec.Struct):
        fields = msgspec.structs.asdict(known)
        for key, value in raw.items():
            below = f"{path}.{key}" if path else key
            if key in fields:
                yield from strangers(value, fields[key], below)
            elif value is not None and key != known.__struct_config__.tag_field:
                yield below
    elif isinstance(known, list):
        for item, twin in zip(raw, known, strict=True):
            if isinstance(twin, msgspec.Struct):
                yield from strangers(item, twin, path + "[]")


def one_limit(longest: int | None, min_tokens: int | None) -> int | None:
    """`longest` (max_tokens), once it is known not to contradict min_tokens."""
    if longest is not None and min_tokens is not None and min_tokens > longest:
        raise InvalidRequest(
            f"min_tokens is {min_tokens}, more than the longest answer of {longest} tokens.",
            param="min_tokens",
        )
    return longest


def include_usage(request: GenerationRequest) -> bool:
    return bool(request.stream_options and request.stream_options.include_usage)
