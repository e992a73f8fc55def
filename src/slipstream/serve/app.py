"""The whole HTTP surface as one ASGI application. The only list of routes."""

from __future__ import annotations

import time

from starlette.types import Receive, Scope, Send

from slipstream.contracts.clock import Clock, MonotonicClock
from slipstream.serve import openai_chat, openai_completions
from slipstream.serve.generation import Generations
from slipstream.serve.middleware import BodyLimit, Cors, Errors, Keys, RequestIds
from slipstream.serve.names import ServedNames
from slipstream.serve.ports import Engine
from slipstream.serve.queries import Queries
from slipstream.serve.routing import Methods, router
from slipstream.settings import Settings

KEEP_ALIVE = 10.0  # seconds of silence that a stream may show
MEGABYTE = 1 << 20


class App:
    """Borrows `engine`. `keep_alive` is in seconds."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        *,
        keep_alive: float = KEEP_ALIVE,
        clock: Clock | None = None,
    ) -> None:
        names = ServedNames(engine.info.id, settings.served_names)
        self._generations = Generations(
            engine,
            names,
            strict=settings.strict,
            rows_max=settings.batch + settings.queue,
            keep_alive=keep_alive,
        )
        queries = Queries(
            engine,
            names,
            strict=settings.strict,
            clock=clock or MonotonicClock(),
            created=int(time.time()),
        )
        inner = BodyLimit(router(self._paths(queries)), limit=int(settings.max_body * MEGABYTE))
        keys = settings.keys
        guarded = Errors(Keys(inner, keys) if keys else inner)
        self._app = RequestIds(Cors(guarded, settings.allowed_origins))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def cut(self) -> None:
        """Ends every generation at once."""
        self._generations.cut()

    def _paths(self, queries: Queries) -> dict[str, Methods]:
        generate = self._generations.handler
        return {
            "/v1/chat/completions": Methods(POST=generate(openai_chat.parse)),
            "/v1/completions": Methods(POST=generate(openai_completions.parse)),
            "/v1/models": Methods(GET=queries.models),
            "/v1/models/{name:path}": Methods(GET=queries.model),
            "/tokenize": Methods(POST=queries.tokenize),
            "/detokenize": Methods(POST=queries.detokenize),
            "/health": Methods(GET=queries.health),
            "/ready": Methods(GET=queries.ready),
            "/stats": Methods(GET=queries.stats),
            "/model_info": Methods(GET=queries.model_info),
        }
