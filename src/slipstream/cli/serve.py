"""`serve`: gets the model whole, then hands the engine to the HTTP side."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import typer

from slipstream.cli import opening
from slipstream.cli.terminal import log_to_stderr, vanish
from slipstream.contracts.clock import MonotonicClock
from slipstream.contracts.errors import UsageError
from slipstream.contracts.trace import Tracer
from slipstream.settings import Settings, environment_keys

log = logging.getLogger(__name__)
REQUEST = '{"messages": [{"role": "user", "content": "Hello"}]}'


def serve(settings: Settings) -> None:
    """Serves until it is told to stop. Raises ModelError, UsageError, or Exit with the code."""
    log_to_stderr(settings.log_level)
    for flag in settings.effectless:
        log.warning("%s is of mlx_lm.server and changes nothing here", flag)
    keys = (*settings.keys, *environment_keys())
    settings = replace(settings, api_keys=keys, api_key_file=None)
    info = opening.model(settings.model)

    from slipstream.library import Engine
    from slipstream.serve.run import serve as listen

    engine = Engine(settings, info)
    announce = announcer(guarded_by_key=bool(keys))
    with tracing(settings) as tracer:
        code = asyncio.run(listen(engine, settings, announce=announce, tracer=tracer))
    if engine.state == "loading":
        vanish(code)
    raise typer.Exit(code)


@contextmanager
def tracing(settings: Settings) -> Iterator[Tracer | None]:
    """What --trace and --otlp ask for, closed in the end. Raises UsageError."""
    from slipstream.serve.watch.tracing import Tracers

    made: list[Tracer] = []
    if settings.trace is not None:
        made.append(to_file(settings.trace))
    if settings.otlp is not None:
        made.append(to_collector(settings.otlp))
    tracer = Tracers(made) if made else None
    try:
        yield tracer
    finally:
        if tracer is not None:
            tracer.close()


def to_file(path: Path) -> Tracer:
    from slipstream.serve.watch.trace_file import TraceFile

    try:
        return TraceFile(path, MonotonicClock())
    except OSError as error:
        raise UsageError(f"--trace: {error}", param="trace") from error


def to_collector(url: str) -> Tracer:
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--otlp is {url!r}; an address is like http://localhost:4318.")
    try:
        from slipstream.serve.watch.trace_otlp import Otlp, exporter
    except ImportError as error:
        raise UsageError(
            "--otlp needs OpenTelemetry's exporter: install slipstream[otlp].", param="otlp"
        ) from error
    return Otlp(exporter(url), MonotonicClock())


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
