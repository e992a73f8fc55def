"""`serve`: gets the model whole, then hands the engine to the HTTP side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import typer

from slipstream.cli import opening
from slipstream.cli.terminal import log_to_stderr, vanish
from slipstream.settings import Settings, environment_keys

REQUEST = '{"messages": [{"role": "user", "content": "Hello"}]}'


def serve(settings: Settings) -> None:
    """Serves until it is told to stop. Raises ModelError, UsageError, or Exit with the code."""
    log_to_stderr(settings.log_level)
    keys = (*settings.keys, *environment_keys())
    settings = replace(settings, api_keys=keys, api_key_file=None)
    info = opening.model(settings.model)

    from slipstream.library import Engine
    from slipstream.serve.run import serve as listen

    engine = Engine(settings, info)
    announce = announcer(guarded_by_key=bool(keys))
    code = asyncio.run(listen(engine, settings, announce=announce))
    if engine.state == "loading":
        vanish(code)
    raise typer.Exit(code)


def announcer(*, guarded_by_key: bool) -> Callable[[str], None]:
    """Prints what serve.run announces, and with the first line a request to paste.

    The address is a line's last word.
    """
    key = " -H 'Authorization: Bearer KEY'" if guarded_by_key else ""
    first = True

    def announce(line: str) -> None:
        nonlocal first
        typer.echo(line)
        if first:
            address = line.split()[-1]
            typer.echo(
                f"Try: curl {address}/v1/chat/completions --retry 5{key} "
                f"-H 'Content-Type: application/json' -d '{REQUEST}'"
            )
        first = False

    return announce
