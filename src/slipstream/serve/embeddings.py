"""POST /v1/embeddings: parses its body, asks the engine, renders the vectors.

It does not know how a model makes them, nor which models can.
"""

from __future__ import annotations

import base64
from array import array
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope

from slipstream.contracts.errors import InvalidRequest
from slipstream.contracts.report import Embeddings
from slipstream.serve.api import Account
from slipstream.serve.fields import Count, convert, ignored
from slipstream.serve.generation import attended, lane_headers, require_ready
from slipstream.serve.names import ServedNames
from slipstream.serve.openai.completions import are_ids
from slipstream.serve.openai.reply import extension
from slipstream.serve.ports import Engine
from slipstream.serve.wire import json_response, read_object

MOST = 2048  # inputs of one request
NEVER: Mapping[str, str] = MappingProxyType(
    {
        "adapter": "embeddings are made by the model as it came",
        "stream": "vectors come whole",
    }
)
Input = str | Sequence[int]


class EmbeddingsRequest(msgspec.Struct, kw_only=True):
    """Types only; null is the same as absent."""

    model: str | None = None
    input: Any = None  # checked by `inputs`: a union of lists is beyond plain types
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Count | None = None


class EmbeddingsRoute:
    """The handler; see routing.Handler."""

    def __init__(self, engine: Engine, names: ServedNames, *, strict: bool) -> None:
        self._engine = engine
        self._names = names
        self._strict = strict

    async def embed(self, scope: Scope, receive: Receive) -> Response:
        require_ready(self._engine)
        body = await read_object(scope, receive)
        for name, why in NEVER.items():
            if body.get(name):
                raise InvalidRequest(f"{name} is refused: {why}.", param=name)
        request = convert(body, EmbeddingsRequest)
        model = self._names.resolve(request.model)
        if self._names.adapter(request.model) is not None:
            raise InvalidRequest(f"model is refused: {NEVER['adapter']}.", param="model")
        if self._names.adapter(request.model) is not None:
            raise InvalidRequest(f"model: {NEVER['adapter']}; name it alone.", param="model")
        given = inputs(request.input)
        unread = ignored(body, request, self._strict)
        made = await attended(self._engine.embed(given, dimensions=request.dimensions), receive)
        written = in_base64 if request.encoding_format == "base64" else as_numbers
        account = Account(made.report.prompt_tokens, 0, 0, made.report)
        return json_response(
            {
                "object": "list",
                "data": data(made, written),
                "model": model,
                "usage": usage(made),
                "slipstream": extension(account, unread),
            },
            headers=lane_headers(made.report.placement),
        )


def inputs(given: Any) -> Sequence[Input]:
    """The inputs in `given`: a text, texts, ids or lists of ids; none of them empty."""
    if isinstance(given, str) or are_ids(given):
        given = [given]
    if not isinstance(given, list) or not given:
        raise refusal()
    if len(given) > MOST:
        raise InvalidRequest(
            f"input has {len(given)} entries; there may be {MOST} at most.", param="input"
        )
    if not (all(isinstance(one, str) for one in given) or all(map(are_ids, given))):
        raise refusal()
    for index, one in enumerate(given):
        if not one:
            raise InvalidRequest(f"input[{index}] is empty.", param=f"input[{index}]")
    return given


def refusal() -> InvalidRequest:
    return InvalidRequest(
        "input must be a text, a list of texts, a list of token ids or a list of such lists, "
        "and nothing of it may be empty.",
        param="input",
    )


def data(made: Embeddings, written: Any) -> list[Mapping[str, Any]]:
    return [
        {"object": "embedding", "index": index, "embedding": written(vector)}
        for index, vector in enumerate(made.vectors)
    ]


def in_base64(vector: bytes) -> str:
    return base64.b64encode(vector).decode()


def as_numbers(vector: bytes) -> list[float]:
    return array("f", vector).tolist()


def usage(made: Embeddings) -> Mapping[str, int]:
    tokens = made.report.prompt_tokens
    return {"prompt_tokens": tokens, "total_tokens": tokens}
