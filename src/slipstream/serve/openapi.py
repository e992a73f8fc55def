"""The OpenAPI document: the route table, with the types that each operation takes and gives.

It does not know how a route works; a test holds the table of operations against the routes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

import msgspec

from slipstream.contracts.report import Flushed
from slipstream.serve import answers
from slipstream.serve.adapters import (
    AdapterList,
    DeletedAdapter,
    MountedAdapter,
    MountRequest,
)
from slipstream.serve.anthropic.messages import CountRequest, MessagesRequest
from slipstream.serve.embeddings import EmbeddingsRequest
from slipstream.serve.errors import is_anthropic
from slipstream.serve.middleware import OPEN_PATH
from slipstream.serve.openai.chat import ChatRequest
from slipstream.serve.openai.completions import TextRequest
from slipstream.serve.queries import DetokenizeRequest, TokenizeRequest
from slipstream.serve.responses.request import ResponsesRequest
from slipstream.serve.watch import answers as watched

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """`gives` None is any JSON object. `query` are the names of query parameters."""

    summary: str
    takes: type | None = None
    gives: type | None = None
    streams: bool = False
    query: tuple[str, ...] = ()


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "POST /v1/chat/completions": Operation(
            "OpenAI chat", ChatRequest, answers.ChatCompletion, streams=True
        ),
        "POST /v1/completions": Operation(
            "OpenAI completions", TextRequest, answers.TextCompletion, streams=True
        ),
        "POST /v1/responses": Operation(
            "OpenAI Responses", ResponsesRequest, answers.Response, streams=True
        ),
        "GET /v1/responses/{name}": Operation("A stored response", None, answers.Response),
        "DELETE /v1/responses/{name}": Operation(
            "Forgets a stored response", None, answers.DeletedResponse
        ),
        "GET /v1/responses/{name}/input_items": Operation(
            "The items that a stored response answered",
            None,
            answers.ItemList,
            query=("order", "after", "limit"),
        ),
        "POST /v1/messages": Operation(
            "Anthropic Messages", MessagesRequest, answers.Message, streams=True
        ),
        "POST /v1/messages/count_tokens": Operation(
            "The length of a prompt", CountRequest, answers.Counted
        ),
        "POST /v1/embeddings": Operation("Embeddings", EmbeddingsRequest, answers.EmbeddingList),
        "GET /v1/adapters": Operation("What is mounted", None, AdapterList),
        "POST /v1/adapters": Operation("Mounts an adapter", MountRequest, MountedAdapter),
        "DELETE /v1/adapters/{name}": Operation(
            "Unmounts an adapter", None, DeletedAdapter, query=("when",)
        ),
        "GET /v1/models": Operation(
            "What is served; in Anthropic's shape with the header anthropic-version",
            None,
            answers.ModelList,
            query=("limit", "after_id", "before_id"),
        ),
        "GET /v1/models/{name}": Operation("One name that is served", None, answers.Model),
        "POST /tokenize": Operation("Text to tokens", TokenizeRequest, answers.Tokens),
        "POST /detokenize": Operation("Tokens to text", DetokenizeRequest, answers.Prompt),
        "GET /health": Operation("Whether the driver loop turns", None, answers.Health),
        "GET /ready": Operation("Whether a model can answer", None, answers.Ready),
        "GET /stats": Operation("Numbers", None, watched.Stats),
        "GET /model_info": Operation("What routers ask a worker", None, answers.ModelInfo),
        "POST /admin/cache/flush": Operation("Makes the prefix cache durable", None, Flushed),
        "GET /admin/latency": Operation("Percentiles of the last minute", None, watched.LatencyNow),
        "GET /admin/prefixes": Operation("The prefix tree in outline", None, watched.Prefixes),
        "GET /admin/traces": Operation("The last requests", None, watched.TraceList),
        "GET /admin/traces/{name}": Operation("One request's way", None, watched.Trace),
        "GET /admin/rows": Operation("Rows that wait or run", None, watched.RowList),
        "DELETE /admin/rows/{name}": Operation("Ends a request", None, watched.CancelledRequest),
        "GET /openapi.json": Operation("This document"),
    }
)
ERRORS = (answers.Error, answers.MessagesError)


def document(routes: Mapping[str, Sequence[str]]) -> Schema:
    """`routes` are the methods of each path, in starlette's syntax. Each must have an operation."""
    found = {
        f"{method} {plain(path)}": OPERATIONS[f"{method} {plain(path)}"]
        for path, methods in routes.items()
        for method in methods
    }
    kinds = [kind for one in found.values() for kind in (one.takes, one.gives) if kind is not None]
    schemas, components = msgspec.json.schema_components(
        [*kinds, *ERRORS], ref_template="#/components/schemas/{name}"
    )
    refs = dict(zip([*kinds, *ERRORS], schemas, strict=True))
    paths: dict[str, dict[str, Schema]] = {}
    for name, operation in found.items():
        method, _, path = name.partition(" ")
        paths.setdefault(path, {})[method.lower()] = described(path, operation, refs)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Slipstream", "version": version("slipstream")},
        "security": [{"bearer": []}, {"key": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


def plain(path: str) -> str:
    """`path` in OpenAPI's syntax, which has no converters."""
    return re.sub(r"{(\w+):\w+}", r"{\1}", path)


def described(path: str, operation: Operation, refs: Mapping[type, Schema]) -> Schema:
    error = refs[answers.MessagesError if is_anthropic(path) else answers.Error]
    given = {"type": "object"} if operation.gives is None else refs[operation.gives]
    content: dict[str, Schema] = {"application/json": {"schema": given}}
    if operation.streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    made: dict[str, Any] = {
        "summary": operation.summary,
        "parameters": [*parameters(path, operation)],
        "responses": {
            "200": {"description": operation.summary, "content": content},
            "default": {
                "description": "A refusal or a fault",
                "content": {"application/json": {"schema": error}},
            },
        },
    }
    if operation.takes is not None:
        body = {"application/json": {"schema": refs[operation.takes]}}
        made["requestBody"] = {"required": True, "content": body}
    if path == OPEN_PATH:
        made["security"] = []
    return made


def parameters(path: str, operation: Operation) -> Sequence[Schema]:
    text = {"type": "string"}
    placed = [
        {"name": name, "in": "path", "required": True, "schema": text}
        for name in re.findall(r"{(\w+)}", path)
    ]
    asked = [{"name": name, "in": "query", "schema": text} for name in operation.query]
    return [*placed, *asked]
