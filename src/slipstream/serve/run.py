"""Puts the application on a socket with uvicorn, from the first signal of life to the last.

It does not know how a model is loaded; it waits for it and answers /health meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn

from slipstream.contracts.errors import SlipstreamError
from slipstream.contracts.trace import Tracer
from slipstream.serve.app import KEEP_ALIVE, App
from slipstream.serve.ports import Engine
from slipstream.settings import Settings

log = logging.getLogger(__name__)

IDLE_CONNECTION = 75  # seconds that a client may keep an unused connection
LAST_WORDS = 1.0  # seconds that responses get to end once the engine has closed
BACKLOG = 2048
SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve(
    engine: Engine,
    settings: Settings,
    *,
    announce: Callable[[str], None],
    keep_alive: float = KEEP_ALIVE,
    tracer: Tracer | None = None,
) -> int:
    """Serves until a signal; returns the exit code. Takes `engine` and closes it, unless it
    still loads: then the end of the process is all it needs.

    `announce` gets one line when the address listens and one when the model can answer.
    `keep_alive` is the longest silence of a stream, in seconds. Borrows `tracer`."""
    try:
        listener = bind(settings.host, settings.port)
    except OSError as error:
        log.error("cannot listen on %s:%d: %s", settings.host, settings.port, explained(error))
        await engine.close(0)
        return 1
    app = App(engine, settings, keep_alive=keep_alive, tracer=tracer)
    server = Server(configured(app, settings))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    loading = asyncio.create_task(engine.wait_ready())
    try:
        with signals(asyncio.get_running_loop()) as asked:
            address = spoken(listener)
            announce(f"Listening on {address}")
            code = await until_stopped(engine, serving, loading, asked, announce, address)
            server.should_exit = True
            await close(engine, app, settings.limits.drain_timeout, asked, announce)
            await finish(server, serving)
    finally:
        loading.cancel()
    return code


async def until_stopped(
    engine: Engine,
    serving: asyncio.Task[None],
    loading: asyncio.Task[None],
    asked: asyncio.Queue[int],
    announce: Callable[[str], None],
    address: str,
) -> int:
    """Returns when a signal came, the model failed to load, or the socket was lost."""
    stop = asyncio.create_task(asked.get())
    try:
        await asyncio.wait({serving, loading, stop}, return_when=asyncio.FIRST_COMPLETED)
        if loading.done() and not stop.done():
            try:
                loading.result()
            except SlipstreamError as error:
                log.error("%s", error)
                return 1
            announce(f"Ready: {engine.info.id} at {address}")
            await asyncio.wait({serving, stop}, return_when=asyncio.FIRST_COMPLETED)
        return 0 if stop.done() else 1
    finally:
        stop.cancel()


async def close(
    engine: Engine,
    app: App,
    drain: float,
    asked: asyncio.Queue[int],
    announce: Callable[[str], None],
) -> None:
    """Gives what runs `drain` seconds; a second signal cuts that short."""
    if engine.state == "loading":
        return  # nothing runs, and the rest of the load may take minutes
    stats = engine.stats()
    if running := stats.group.active + stats.solo.active:
        announce(f"Stopping: {running} running requests get {drain:g} s; Ctrl-C ends them now.")
    closing = asyncio.create_task(engine.close(drain))
    again = asyncio.create_task(asked.get())
    await asyncio.wait({closing, again}, return_when=asyncio.FIRST_COMPLETED)
    if again.done():
        app.cut()
    again.cancel()
    await closing


async def finish(server: Server, serving: asyncio.Task[None]) -> None:
    """Lets the last responses end, then hangs up on clients that do not read or write."""
    await asyncio.wait({serving}, timeout=LAST_WORDS)
    for connection in tuple(server.server_state.connections):
        connection.transport.abort()
    await serving


class Server(uvicorn.Server):
    """uvicorn's server, which leaves signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def configured(app: App, settings: Settings) -> uvicorn.Config:
    debug = settings.log_level == "debug"
    if not debug:
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=debug,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=IDLE_CONNECTION,
        backlog=BACKLOG,
    )


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError, as when the port is taken."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return socket.create_server(address, family=family, backlog=BACKLOG)


def explained(error: OSError) -> str:
    """Why an address cannot be listened on, and what to do."""
    match error.errno:
        case errno.EADDRINUSE:
            return "the port is taken. Stop what listens there, or choose another --port."
        case errno.EACCES:
            return "the port needs more rights. Choose a --port above 1023."
        case _:
            return f"{error.strerror}. Choose a --host that is an address of this machine."


def spoken(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextlib.contextmanager
def signals(loop: asyncio.AbstractEventLoop) -> Iterator[asyncio.Queue[int]]:
    """Signals that ask to stop, in order."""
    asked: asyncio.Queue[int] = asyncio.Queue()
    for one in SIGNALS:
        loop.add_signal_handler(one, asked.put_nowait, one)
    try:
        yield asked
    finally:
        for one in SIGNALS:
            loop.remove_signal_handler(one)
