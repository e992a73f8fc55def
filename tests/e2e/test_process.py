"""How the process begins and ends: signals, wrong flags, models that are not whole."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from slipstream.models import starter
from slipstream.settings import cache_home

from .server import PATIENCE, Server, chat, client, opened, ready, run, started, streamed

QUICKLY = 3.0  # seconds, on a machine that is busy with other tests


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def serving(log_file: Path) -> Iterator[Server]:
    with ready(log_file) as server:
        yield server


@pytest.mark.anyio
async def test_sigterm_lets_streams_end_and_exits_well(serving: Server) -> None:
    async with client(serving) as http:
        body = chat("Tell me a long story.", max_tokens=24, ignore_eos=True)
        streams = [asyncio.create_task(streamed(http, body)) for _ in range(4)]
        async with opened(http, body) as stream:
            await anext(stream)
            serving.process.send_signal(signal.SIGTERM)
            rest = [chunk async for chunk in stream]
        answers = await asyncio.gather(*streams)
    assert rest[-1]["usage"]["completion_tokens"] == 24
    assert {answer.finish for answer in answers} == {"length"}
    assert serving.process.wait(PATIENCE) == 0
    assert "Traceback" not in serving.log and "ERROR" not in serving.log


@pytest.mark.anyio
@pytest.mark.slow
async def test_a_second_ctrl_c_cuts_a_stream_and_says_so(serving: Server) -> None:
    async with client(serving) as http:
        body = chat("Tell me a long story.", max_tokens=2000, ignore_eos=True)
        async with opened(http, body) as stream:
            await anext(stream)
            serving.process.send_signal(signal.SIGINT)
            await refusing(http)
            serving.process.send_signal(signal.SIGINT)
            while "error" not in (last := await anext(stream)):
                pass
    assert "shutting down" in last["error"]["message"]
    assert serving.process.wait(PATIENCE) == 0
    assert "Traceback" not in serving.log


async def refusing(http: httpx.AsyncClient) -> None:
    """Until the server takes no new work."""
    while True:
        try:
            if (await http.get("/ready")).status_code == 503:
                return
        except httpx.ConnectError:
            return


@pytest.mark.parametrize("pause", [0.0, 1.5])
def test_ctrl_c_while_the_model_loads_exits_quickly(log_file: Path, pause: float) -> None:
    with started(log_file) as server:
        with suppress(subprocess.TimeoutExpired):
            server.process.wait(pause)
        asked = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE) == 0
        assert time.monotonic() - asked < QUICKLY
        assert server.log == ""


def test_a_wrong_flag_is_wrong_usage() -> None:
    done = run("serve", "--bach", "4")
    assert done.returncode == 2
    assert "--bach" in done.stderr and "--batch" in done.stderr


def test_a_model_that_is_not_here_names_those_that_are() -> None:
    starter.ensure(cache_home())
    done = run("serve", "smollm3")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert starter.NAME in done.stderr


def test_a_busy_port_says_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("serve", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1
    assert "--port" in done.stderr


def test_truncated_weights_are_one_clear_line(tmp_path: Path) -> None:
    starter.ensure(cache_home())
    broken = tmp_path / "broken"
    shutil.copytree(starter.folder(cache_home()), broken)
    os.truncate(broken / "model.safetensors", 1_000_000)
    done = run("serve", str(broken), "--port", "0")
    assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1
    assert "model.safetensors is truncated" in done.stderr
