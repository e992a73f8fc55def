"""Servers as processes that end with the bench, however it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from tempfile import TemporaryFile
from typing import Any, TypeVar

from slipstream.contracts.errors import Fault
from slipstream.settings import Settings

T = TypeVar("T")
SERVE = "from slipstream.cli.main import main; main()"
STARTING = 120.0  # seconds until a server must answer
GRACE = 10.0  # seconds for a server to end when it is asked to
SAID = 2000  # characters of the last words of a server that did not start
STOPS = (signal.SIGTERM, signal.SIGHUP)


def run(main: Coroutine[Any, Any, T]) -> T:
    """asyncio.run, but SIGTERM and SIGHUP end `main` as Ctrl-C does: through its `finally`s.

    Raises KeyboardInterrupt then."""

    async def stoppable() -> T:
        task = asyncio.current_task()
        assert task is not None
        for number in STOPS:
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await main

    try:
        return asyncio.run(stoppable())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


@asynccontextmanager
async def child(
    *command: str, stdout: int | None = None, stderr: int | None = None
) -> AsyncIterator[Process]:
    """A process in a group of its own. The group is asked to end with this block, then killed."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=stdout, stderr=stderr, start_new_session=True
    )
    try:
        yield process
    finally:
        await _end(process)


async def _end(process: Process) -> None:
    with suppress(ProcessLookupError, TimeoutError):
        os.killpg(process.pid, signal.SIGTERM)
        await asyncio.wait_for(process.wait(), GRACE)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


async def listening(name: str, process: Process, port: int) -> None:
    """Until it takes connections. Raises Fault when it ends first, or takes too long."""
    until = time.monotonic() + STARTING
    while time.monotonic() < until and process.returncode is None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.2)
            continue
        writer.close()
        return
    raise Fault(f"{name} did not start.")


@asynccontextmanager
async def logged(name: str, command: Sequence[str], port: int) -> AsyncIterator[None]:
    """A server that listens. What it says is kept quiet, unless it does not start."""
    with TemporaryFile() as log:
        async with child(*command, stdout=log.fileno(), stderr=STDOUT) as process:
            try:
                await listening(name, process, port)
            except Fault as fault:
                log.seek(0)
                said = log.read().decode(errors="replace")[-SAID:]
                raise Fault(f"{fault.message} It said:\n{said}") from None
            yield


@asynccontextmanager
async def served(settings: Settings, *more: str) -> AsyncIterator[str]:
    """Our server of `settings.model`, with `more` flags; gives its chat address."""
    assert settings.model is not None
    arguments = ["serve", settings.model, "--port", "0", "--batch", str(settings.batch), *more]
    async with child(sys.executable, "-c", SERVE, *arguments, stdout=PIPE) as process:
        assert process.stdout is not None
        async for line in process.stdout:
            if line.startswith(b"Ready"):
                yield line.decode().split()[-1] + "/v1/chat/completions"
                return
        raise Fault("The server did not start; its message stands above.")
