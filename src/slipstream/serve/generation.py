"""Runs parsed requests, for every API alike: submit, watch the client, stream or fold.

It does not know what a body or a chunk looks like, nor what happens behind the engine's port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from slipstream.contracts.completion import Completion
from slipstream.contracts.delta import Delta
from slipstream.contracts.errors import Cancelled, Fault, Unavailable
from slipstream.contracts.placement import Placement
from slipstream.contracts.row import CancelReason
from slipstream.serve import sse
from slipstream.serve.api import Account, Parse, Parsed, Reply, Tally
from slipstream.serve.fields import Context
from slipstream.serve.names import ServedNames
from slipstream.serve.ports import Engine, Running
from slipstream.serve.watch.meter import Meter
from slipstream.serve.watch.rows import LiveRequests
from slipstream.serve.wire import json_response, read_object

T = TypeVar("T")
Push = Callable[[int, Delta], Awaitable[None]]
OPEN_RESPONSES = "openresponses-version"  # a header of whoever reads that specification


def require_ready(engine: Engine) -> None:
    """Raises Unavailable where waiting helps, Fault where it does not."""
    if engine.state == "loading":
        raise Unavailable("The model is still loading; try again soon.")
    if engine.state == "draining":
        raise Unavailable("The server is shutting down.")
    if engine.state == "failed":
        raise Fault(f"The model could not be loaded: {engine.health() or 'no reason is known'}")


async def left(receive: Receive) -> None:
    """Returns when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def attended(work: Coroutine[Any, Any, T], receive: Receive) -> T:
    """What `work` gives. Ends it with the client, should it leave first, and raises Cancelled."""
    working = asyncio.create_task(work)
    watch = asyncio.create_task(left(receive))
    try:
        await asyncio.wait((working, watch), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Cancelled(CancelReason.DISCONNECT, "The client left before it had its answer.")
        return working.result()
    finally:
        watch.cancel()
        working.cancel()
        await asyncio.gather(watch, working, return_exceptions=True)


def lane_headers(placement: Placement) -> dict[str, str]:
    return {
        "x-slipstream-lane": placement.lane.value,
        "x-slipstream-reasons": ",".join(placement.reasons),
    }


class Generations:
    """Makes the handlers of the generating routes; what runs for them is in `live`."""

    def __init__(
        self,
        engine: Engine,
        names: ServedNames,
        live: LiveRequests,
        meter: Callable[[Scope], Meter],
        *,
        strict: bool,
        rows_max: int,
        keep_alive: float,
    ) -> None:
        """`meter` makes the one of a request that has just arrived."""
        self._engine = engine
        self._names = names
        self._live = live
        self._meter = meter
        self._strict = strict
        self._rows_max = rows_max
        self._keep_alive = keep_alive

    def handler(self, parse: Parse) -> Callable[[Scope, Receive], Awaitable[Generation]]:
        """The handler of a route whose bodies `parse` reads."""

        async def handle(scope: Scope, receive: Receive) -> Generation:
            meter = self._meter(scope)
            require_ready(self._engine)
            body = await read_object(scope, receive)
            context = Context(
                request_id=scope["state"]["request_id"],
                names=self._names,
                strict=self._strict,
                rows_max=self._rows_max,
                open_responses=OPEN_RESPONSES in Headers(scope=scope),
            )
            parsed = parse(body, context)
            meter.parsed()
            # Submitting may take as long as compiling a grammar does.
            runnings = await attended(self._all_or_none(parsed.completions), receive)
            meter.placed(runnings)
            return Generation(parsed, runnings, self._keep_alive, self._live, meter)

        return handle

    async def _all_or_none(self, completions: Sequence[Completion]) -> tuple[Running, ...]:
        runnings: list[Running] = []
        try:
            for completion in completions:
                runnings.append(await self._engine.submit(completion))
        except BaseException:
            for running in runnings:
                running.cancel(CancelReason.DISCONNECT)
            raise
        return tuple(runnings)


class Generation:
    """The response of one request. Owns its `runnings` until it returns, and ends them then."""

    def __init__(
        self,
        parsed: Parsed,
        runnings: Sequence[Running],
        keep_alive: float,
        live: LiveRequests,
        meter: Meter,
    ) -> None:
        self._parsed = parsed
        self._runnings = runnings
        self._keep_alive = keep_alive
        self._live = live
        self._meter = meter
        self._tally = Tally()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        completions = self._parsed.completions
        request_id = completions[0].request_id
        live = self._live.enter(request_id, self._runnings, completions[0].choices)
        if self._parsed.failed is not None:
            scope["state"]["failed"] = self._parsed.failed
        watch = asyncio.create_task(self._watch(receive))
        try:
            write = self._stream if self._parsed.stream else self._whole
            await write(self._parsed.reply, scope, receive, send)
        except BaseException as error:
            self._meter.fail(error)
            raise
        finally:
            watch.cancel()
            self._cancel()
            self._live.leave(live)
            scope["state"]["finish"] = self._meter.finish
            self._meter.end(completions, self._runnings)

    async def _stream(self, reply: Reply, scope: Scope, receive: Receive, send: Send) -> None:
        headers = self._headers()
        async with sse.Stream(send, headers, reply.keep_alive, self._keep_alive) as stream:

            async def push(source: int, delta: Delta) -> None:
                if frames := reply.push(source, delta):
                    await stream.write(frames)

            if opening := reply.opening(self._account()):
                await stream.write(opening)
            await self._drain(push)
            await stream.write(reply.ending(self._account()))

    async def _whole(self, reply: Reply, scope: Scope, receive: Receive, send: Send) -> None:
        deltas: list[tuple[int, Delta]] = []

        async def push(source: int, delta: Delta) -> None:
            deltas.append((source, delta))

        await self._drain(push)
        body = reply.body(deltas, self._account())
        await json_response(body, headers=self._headers())(scope, receive, send)

    async def _drain(self, push: Push) -> None:
        """Every delta, as it comes, from all runnings at once. The first failure ends all."""

        async def drain(source: int, running: Running) -> None:
            async for delta in running.deltas():
                self._tally.count(delta)
                self._meter.count(source, delta)
                await push(source, delta)

        tasks = [asyncio.create_task(drain(*numbered)) for numbered in enumerate(self._runnings)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, receive: Receive) -> None:
        """Ends the work of a client that has left, whatever phase it is in."""
        await left(receive)
        self._cancel()

    def _cancel(self) -> None:
        for running in self._runnings:
            running.cancel(CancelReason.DISCONNECT)

    def _account(self) -> Account:
        return Account.of(
            [running.prompt_tokens for running in self._runnings],
            [running.report for running in self._runnings],
            self._tally,
            self._runnings[0].ignored,
        )

    def _headers(self) -> dict[str, str]:
        return lane_headers(self._runnings[0].report.placement)
