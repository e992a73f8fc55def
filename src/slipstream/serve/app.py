"""The whole HTTP surface as one ASGI application. The only list of routes."""

from __future__ import annotations

import time

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from slipstream.contracts.clock import Clock, MonotonicClock
from slipstream.contracts.row import CancelReason
from slipstream.contracts.trace import Tracer
from slipstream.serve import openapi
from slipstream.serve.adapters import AdapterRoutes
from slipstream.serve.anthropic import messages as anthropic_messages
from slipstream.serve.embeddings import EmbeddingsRoute
from slipstream.serve.generation import Generations
from slipstream.serve.middleware import BodyLimit, Cors, Errors, Keys, RequestIds
from slipstream.serve.names import ServedNames
from slipstream.serve.openai import chat as openai_chat
from slipstream.serve.openai import completions as openai_completions
from slipstream.serve.ports import Engine
from slipstream.serve.queries import Queries
from slipstream.serve.responses.request import Responses
from slipstream.serve.responses.store import Shelf, Store
from slipstream.serve.routing import Methods, router
from slipstream.serve.watch.latency import Latency
from slipstream.serve.watch.meter import Meter
from slipstream.serve.watch.metrics import Counted, Metrics
from slipstream.serve.watch.recent import RecentTraces, Traces
from slipstream.serve.watch.rows import LiveRequests, Rows
from slipstream.serve.watch.tracing import Arrival, Tracers
from slipstream.serve.web.files import WebFiles
from slipstream.serve.wire import json_response
from slipstream.settings import Settings

KEEP_ALIVE = 10.0  # seconds of silence that a stream may show
MEGABYTE = 1 << 20


class App:
    """Borrows `engine` and `tracer`. `keep_alive` is in seconds; `clock` runs with the engine's."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        *,
        keep_alive: float = KEEP_ALIVE,
        clock: Clock | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        clock = self._clock = clock or MonotonicClock()
        adapters = engine.adapters
        names = ServedNames(engine.info.id, settings.served_names, lambda: adapters.names)
        self._adapters = AdapterRoutes(engine, names, strict=settings.strict)
        recent = RecentTraces()
        self._tracer = Tracers((recent, tracer)) if tracer else recent
        self._latency = Latency(clock)
        self._metrics = Metrics(engine, names.primary)
        self._live = LiveRequests(clock)
        self._traces = Traces(recent, self._live, clock)
        self._generations = Generations(
            engine,
            names,
            self._live,
            self._meter,
            strict=settings.strict,
            rows_max=settings.batch + settings.queue,
            keep_alive=keep_alive,
        )
        self._embeddings = EmbeddingsRoute(engine, names, strict=settings.strict)
        queries = Queries(
            engine,
            names,
            strict=settings.strict,
            clock=clock,
            created=int(time.time()),
        )
        self._paths = self._table(queries, Store(clock), Rows(engine, self._live))
        inner = BodyLimit(
            router({**self._paths, **self._plain_paths()}),
            limit=int(settings.max_body * MEGABYTE),
        )
        keys = settings.keys
        guarded = Errors(Keys(inner, keys) if keys else inner)
        self._app = RequestIds(Counted(Cors(guarded, settings.allowed_origins), self._metrics))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def cut(self) -> None:
        """Ends every generation at once."""
        self._live.cancel(CancelReason.SHUTDOWN)

    def _meter(self, scope: Scope) -> Meter:
        state = scope["state"]
        traceparent = Headers(scope=scope).get("traceparent", "")
        arrival = Arrival(state["request_id"], state["route"], traceparent)
        return Meter(arrival, self._metrics, self._latency, self._clock, self._tracer)

    async def _describe(self, scope: Scope, receive: Receive) -> Response:
        methods = {path: methods.names for path, methods in self._paths.items()}
        return json_response(openapi.document(methods))

    def _table(self, queries: Queries, store: Store, rows: Rows) -> dict[str, Methods]:
        generate = self._generations.handler
        shelf = Shelf(store)
        return {
            "/v1/chat/completions": Methods(POST=generate(openai_chat.parse)),
            "/v1/completions": Methods(POST=generate(openai_completions.parse)),
            "/v1/messages": Methods(POST=generate(anthropic_messages.parse)),
            "/v1/messages/count_tokens": Methods(POST=queries.count_tokens),
            "/v1/responses": Methods(POST=generate(Responses(store).parse)),
            "/v1/responses/{name}": Methods(GET=shelf.show, DELETE=shelf.delete),
            "/v1/responses/{name}/input_items": Methods(GET=shelf.input_items),
            "/v1/embeddings": Methods(POST=self._embeddings.embed),
            "/v1/adapters": Methods(GET=self._adapters.list, POST=self._adapters.mount),
            "/v1/adapters/{name}": Methods(DELETE=self._adapters.unmount),
            "/v1/models": Methods(GET=queries.models),
            "/v1/models/{name:path}": Methods(GET=queries.model),
            "/tokenize": Methods(POST=queries.tokenize),
            "/detokenize": Methods(POST=queries.detokenize),
            "/health": Methods(GET=queries.health),
            "/ready": Methods(GET=queries.ready),
            "/stats": Methods(GET=queries.stats),
            "/model_info": Methods(GET=queries.model_info),
            "/admin/cache/flush": Methods(POST=queries.flush_cache),
            "/admin/latency": Methods(GET=self._latency.show),
            "/admin/prefixes": Methods(GET=queries.prefixes),
            "/admin/traces": Methods(GET=self._traces.list),
            "/admin/traces/{name:path}": Methods(GET=self._traces.show),
            "/admin/rows": Methods(GET=rows.show),
            "/admin/rows/{name:path}": Methods(DELETE=rows.cancel),
            "/openapi.json": Methods(GET=self._describe),
        }

    def _plain_paths(self) -> dict[str, Methods]:
        """What scrapers and browsers get. It is no JSON, and so not of /openapi.json."""
        files = WebFiles()
        return {
            "/metrics": Methods(GET=self._metrics.show),
            "/": Methods(GET=files.page),
            "/web/{path:path}": Methods(GET=files.part),
        }
