"""A browser, and the server that it looks at: the real app on a thread, with a scripted engine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from serve.scripted import ScriptedEngine
from slipstream.serve.app import App
from slipstream.settings import Settings

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BUNDLES = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
PATIENCE = 10.0  # seconds
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-quic",
    "--no-first-run",
)


def chromium() -> str | None:
    """The browser of this machine, if it has one."""
    found = (shutil.which(name) for name in NAMES)
    bundles = (path for path in BUNDLES if Path(path).exists())
    return next(filter(None, (*found, *bundles)), None)


@dataclass(frozen=True, slots=True)
class Site:
    """A server that runs. `engine` belongs to its loop."""

    url: str
    engine: ScriptedEngine
    loop: asyncio.AbstractEventLoop

    def wait_for(self, event: asyncio.Event) -> None:
        """Returns once `event`, which belongs to the loop, is set. Raises TimeoutError."""
        asyncio.run_coroutine_threadsafe(event.wait(), self.loop).result(PATIENCE)


@contextlib.contextmanager
def site(**flags: Any) -> Iterator[Site]:
    engine = ScriptedEngine()
    app = App(engine, Settings(**flags))
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http="h11", ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    loop = asyncio.new_event_loop()
    serving = server.serve(sockets=[listener])
    thread = threading.Thread(target=loop.run_until_complete, args=(serving,))
    thread.start()
    try:
        yield Site(f"http://127.0.0.1:{listener.getsockname()[1]}", engine, loop)
    finally:
        loop.call_soon_threadsafe(app.cut)
        server.should_exit = True
        server.force_exit = True
        thread.join()
        loop.close()


def frames(*chunks: dict[str, Any]) -> str:
    """A stream of chat chunks that ends well."""
    return "".join(f"data: {json.dumps(one)}\n\n" for one in chunks) + "data: [DONE]\n\n"


def delta(**fields: Any) -> dict[str, Any]:
    finish = fields.pop("finish_reason", None)
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def asked(site: Site) -> Sequence[dict[str, Any]]:
    """The messages of the last request."""
    return [dict(message) for message in site.engine.last.messages or ()]
