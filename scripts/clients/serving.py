"""One server for the clients: the real application and engine, with a record of the wire.

    python scripts/clients/serving.py told|starter WIRE_FILE

`starter` runs the starter model; `told` its tokenizer with a scripted model of a long context,
which agents need. Prints its address as the last word of its first line.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import uvicorn
from told import ToldBackend
from wire import Recorder

from slipstream.library import Engine
from slipstream.models.obtain import obtain
from slipstream.serve.app import App
from slipstream.serve.run import bind, configured, spoken
from slipstream.settings import Settings, cache_home
from slipstream.text.tokenizer import Tokenizer

LONG = 48_000  # tokens: room for an agent's first prompt of 20,000, not for 32,000 more
NAMES = ("default", "claude-*", "gpt-*")


def engine_of(kind: str, settings: Settings) -> Engine:
    info = obtain(None, cache_home(), download=True)
    if kind == "starter":
        return Engine(settings, info)
    tokenizer = Tokenizer.load(info.path)
    return Engine(settings, replace(info, context=LONG), lambda *_: ToldBackend(tokenizer))


async def main(kind: str, wire: Path, bodies: Path | None) -> None:
    template = Path(__file__).with_name("told.jinja") if kind == "told" else None
    settings = Settings(port=0, served_names=NAMES, chat_template=template)
    engine = engine_of(kind, settings)
    await engine.wait_ready()
    listener = bind(settings.host, settings.port)
    recorder = Recorder(App(engine, settings), wire, bodies)
    print(f"Ready at {spoken(listener)}", flush=True)
    try:
        await uvicorn.Server(configured(recorder, settings)).serve(sockets=[listener])
    finally:
        await engine.close(0)


if __name__ == "__main__":
    kind, wire, *bodies = sys.argv[1:]
    asyncio.run(main(kind, Path(wire), Path(bodies[0]) if bodies else None))
