"""The routes that answer without generating: models, probes, counters, tokens.

Every answer is read off the engine's port at the moment of asking.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response
from starlette.types import Receive, Scope

from slipstream.contracts.clock import Clock
from slipstream.contracts.errors import InvalidRequest
from slipstream.serve.anthropic import models as anthropic_models
from slipstream.serve.anthropic.messages import parse_count
from slipstream.serve.fields import Context, convert, ignored
from slipstream.serve.generation import require_ready
from slipstream.serve.messages import ChatMessage, for_template
from slipstream.serve.names import ServedNames
from slipstream.serve.ports import Engine
from slipstream.serve.wire import json_response, read_object

MOST = 1 << 20  # characters or tokens: what takes longer would hold up everyone else's streams


class TokenizeRequest(msgspec.Struct, kw_only=True):
    """`add_special_tokens` is by default true for a prompt, false for messages."""

    model: str | None = None
    prompt: Annotated[str, Meta(max_length=MOST)] | None = None
    messages: list[ChatMessage] | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None


class DetokenizeRequest(msgspec.Struct, kw_only=True):
    model: str | None = None
    tokens: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=MOST)]


class Queries:
    """The handlers; see routing.Handler. `created` is when the server started, in Unix seconds."""

    def __init__(
        self, engine: Engine, names: ServedNames, *, strict: bool, clock: Clock, created: int
    ) -> None:
        self._engine = engine
        self._names = names
        self._strict = strict
        self._clock = clock
        self._started = clock.now()
        self._created = created

    async def models(self, scope: Scope, receive: Receive) -> Response:
        require_ready(self._engine)
        names = (*self._names.listed, *self._names.adapted)
        if anthropic_models.asks(scope):
            entries = [self._anthropic_model(name) for name in names]
            return json_response(anthropic_models.page(entries, scope))
        return json_response({"object": "list", "data": [self._model(name) for name in names]})

    async def model(self, scope: Scope, receive: Receive) -> Response:
        require_ready(self._engine)
        name = self._names.resolve(scope["path_params"]["name"])
        described = self._anthropic_model if anthropic_models.asks(scope) else self._model
        return json_response(described(name))

    async def health(self, scope: Scope, receive: Receive) -> Response:
        reason = self._engine.health()
        if reason is None:
            return json_response({"status": "ok", "state": self._engine.state})
        return json_response({"status": "unhealthy", "reason": reason}, status=503)

    async def ready(self, scope: Scope, receive: Receive) -> Response:
        require_ready(self._engine)
        return json_response({"status": "ready"})

    async def model_info(self, scope: Scope, receive: Receive) -> Response:
        return json_response(
            {
                "model_path": str(self._engine.info.path),
                "served_model_name": self._names.primary,
                "is_generation": True,
                "context_length": self._engine.context,
                "max_model_len": self._engine.context,
            }
        )

    async def stats(self, scope: Scope, receive: Receive) -> Response:
        stats = self._engine.stats()
        solo = {"active": stats.solo.active, "submitted": stats.solo.submitted}
        memory = dataclasses.asdict(stats.memory)
        prefix = memory.pop("prefix")
        del memory["segments"]  # GET /admin/prefixes has them
        return json_response(
            {
                "model": self._engine.info.id,
                "uptime_s": round(self._clock.now() - self._started, 3),
                "turns": stats.turns,
                "lanes": {"group": dataclasses.asdict(stats.group), "solo": solo},
                "queue": {
                    "waiting": stats.waiting,
                    "max": stats.queue_max,
                    "rejected": stats.rejected,
                },
                "lease": {"held_by": stats.lease_held_by, "waiting": stats.lease_waiting},
                "memory": memory,
                "prefix_cache": prefix,
                "tokens": {
                    "prompt": stats.prompt_tokens,
                    "cached": stats.cached_tokens,
                    "generated": stats.generated_tokens,
                },
                "placements": stats.placements,
                "spec": dataclasses.asdict(stats.spec),
                "finish": stats.finish,
            }
        )

    async def prefixes(self, scope: Scope, receive: Receive) -> Response:
        """The heaviest branches of the prefix tree."""
        memory = self._engine.stats().memory
        segments = [dataclasses.asdict(one) for one in memory.segments]
        return json_response({"entries": memory.prefix.entries, "segments": segments})

    async def flush_cache(self, scope: Scope, receive: Receive) -> Response:
        require_ready(self._engine)
        return json_response(dataclasses.asdict(await self._engine.flush_cache()))

    async def tokenize(self, scope: Scope, receive: Receive) -> Response:
        require_ready(self._engine)
        body = await read_object(scope, receive)
        request = convert(body, TokenizeRequest)
        self._names.resolve(request.model)
        if (request.prompt is None) == (request.messages is None):
            raise InvalidRequest("Send prompt or messages, one of them.", param="prompt")
        special = request.add_special_tokens
        messages = (
            None if request.messages is None else for_template(request.messages, body["messages"])
        )
        tokens = self._engine.tokenize(
            text=request.prompt,
            messages=messages,
            add_special_tokens=messages is None if special is None else special,
        )
        answer: dict[str, Any] = {
            "tokens": tokens,
            "count": len(tokens),
            "max_model_len": self._engine.context,
        }
        if request.return_token_strs:
            answer["token_strs"] = [self._engine.token_text(token) for token in tokens]
        return json_response({**answer, **declared(ignored(body, request, self._strict))})

    async def count_tokens(self, scope: Scope, receive: Receive) -> Response:
        require_ready(self._engine)
        body = await read_object(scope, receive)
        context = Context(scope["state"]["request_id"], self._names, self._strict, rows_max=1)
        completion = parse_count(body, context)
        size = self._engine.count_tokens(completion)
        unread = declared((*completion.ignored, *size.ignored))
        return json_response({"input_tokens": size.tokens, **unread})

    async def detokenize(self, scope: Scope, receive: Receive) -> Response:
        require_ready(self._engine)
        body = await read_object(scope, receive)
        request = convert(body, DetokenizeRequest)
        self._names.resolve(request.model)
        vocabulary = self._engine.info.vocab_size
        for token in request.tokens:
            if token >= vocabulary:
                raise InvalidRequest(
                    f"tokens: {token} is not below {vocabulary}, the size of the vocabulary.",
                    param="tokens",
                )
        answer = {"prompt": self._engine.detokenize(request.tokens)}
        return json_response({**answer, **declared(ignored(body, request, self._strict))})

    def _anthropic_model(self, name: str) -> Mapping[str, Any]:
        context = self._engine.context
        return anthropic_models.entry(name, created=self._created, context=context)

    def _model(self, name: str) -> Mapping[str, Any]:
        embeds = self._engine.info.pooling is not None
        return {
            "id": name,
            "object": "model",
            "created": self._created,
            "owned_by": "slipstream",
            "root": self._engine.info.id,
            "max_model_len": self._engine.context,
            "abilities": ["chat", "completions", *["embeddings"] * embeds],
        }


def declared(found: Sequence[str]) -> Mapping[str, Any]:
    """The `slipstream` object, where there are fields to declare."""
    return {"slipstream": {"ignored": found}} if found else {}
