"""Servers that a bench starts end with it; peers are started as they want to be."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slipstream.bench import processes
from slipstream.bench.peers import LLAMA, MLX_LM, MLX_VLM, PEERS, Setting, choose
from slipstream.contracts.errors import Fault, UsageError

SLEEPER = "import signal, os; print(os.getpid(), flush=True); signal.pause()"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER
BENCH = f"""
import asyncio, sys
from asyncio.subprocess import PIPE
from slipstream.bench import processes

async def main():
    async with processes.child(sys.executable, "-c", {SLEEPER!r}, stdout=PIPE) as server:
        print((await server.stdout.readline()).decode().strip(), flush=True)
        await asyncio.Event().wait()

try:
    processes.run(main())
except KeyboardInterrupt:
    sys.exit(130)
"""
SETTING = Setting(
    folder=Path("weights"),
    gguf=Path("weights.gguf"),
    python="other-python",
    blas="libblas.so",
    rows=4,
    threads=2,
    eos_ids=(2, 5),
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_bench_that_is_told_to_stop_takes_its_server_along(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", BENCH], stdout=subprocess.PIPE) as bench:
        try:
            assert bench.stdout is not None
            server = int(bench.stdout.readline())
            bench.send_signal(number)
            assert bench.wait() == 130
        finally:
            bench.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)


@pytest.mark.anyio
async def test_a_server_that_ignores_being_asked_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE", 0.01)
    command = (sys.executable, "-c", STUBBORN)
    async with processes.child(*command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        await server.stdout.readline()
    assert server.returncode == -signal.SIGKILL


@pytest.mark.anyio
async def test_a_server_that_ends_at_its_start_is_a_fault_with_its_name_and_words() -> None:
    command = [sys.executable, "-c", "print('no such model')"]
    with pytest.raises(Fault, match=r"(?s)acme did not start.*no such model"):
        async with processes.logged("acme", command, processes.free_port()):
            pass


@pytest.mark.parametrize(("name", "python"), [(MLX_LM, sys.executable), (MLX_VLM, "other-python")])
def test_mlx_servers_load_the_same_blas_first(name: str, python: str) -> None:
    command = PEERS[name].command(SETTING, 1234)
    assert command[:2] == [python, "-c"] and command[3] == "libblas.so"
    assert command[2].index("ctypes.CDLL") < command[2].index("runpy")
    assert command[4:8] == ["--model", "weights", "--port", "1234"]
    assert PEERS[name].more(SETTING)["logit_bias"] == {"2": -100, "5": -100}


def test_llama_cpp_gets_a_slot_for_each_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    command = PEERS[LLAMA].command(SETTING, 1234)
    assert command[0] == "other-python" and command[3:] == [
        "weights.gguf",
        "1234",
        "4",
        "16384",
        "2",
    ]
    program = tmp_path / "llama-server"
    program.write_text("")
    program.chmod(0o755)
    command = PEERS[LLAMA].command(SETTING, 1234)
    assert command[0] == str(program) and command[command.index("-np") + 1] == "4"


@pytest.mark.anyio
async def test_peers_that_are_not_here_are_left_out_unless_they_are_asked_for() -> None:
    notes: list[str] = []
    here = await choose([], sys.executable, None, note=notes.append)
    assert MLX_LM in here and LLAMA not in here
    assert any(LLAMA in note for note in notes)
    with pytest.raises(UsageError, match="--gguf"):
        await choose([LLAMA], sys.executable, None, note=notes.append)
    with pytest.raises(UsageError, match="choose from"):
        await choose(["vllm"], sys.executable, None, note=notes.append)


def test_a_bench_that_ends_well_gives_its_result() -> None:
    assert processes.run(asyncio.sleep(0, "good")) == "good"
