"""The servers that others run, started beside ours on the same weights.

It knows how they start and what their requests need; no workload.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from slipstream.backends.mlx.device import load_blas, open_device
from slipstream.bench.processes import STARTING, child, free_port, logged, served
from slipstream.bench.report import Row
from slipstream.bench.target import OURS, Target
from slipstream.contracts.errors import Fault, UsageError
from slipstream.contracts.model import ModelInfo
from slipstream.settings import Settings

ROUTE = "/v1/chat/completions"
MLX_LM, MLX_VLM, LLAMA = "mlx_lm.server", "mlx_vlm.server", "llama.cpp"
LLAMA_SERVER = "llama-server"
LLAMA_CONTEXT = 4096  # tokens of each of its slots
BLAS = "import ctypes, sys; ctypes.CDLL(sys.argv.pop(1), mode=ctypes.RTLD_GLOBAL)\n"
RUN = "import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
FOUND = "import importlib.util as u; raise SystemExit(u.find_spec({module!r}) is None)"
# The package embeds llama.cpp's own HTTP server, and has no command line of its own.
EMBEDDED = """
import signal, sys, xllamacpp
wanted = xllamacpp.CommonParams()
wanted.model.path, wanted.verbosity = sys.argv[1], 1
wanted.port, wanted.n_parallel, wanted.n_ctx, wanted.cpuparams.n_threads = map(int, sys.argv[2:])
server = xllamacpp.Server(wanted)
signal.pause()
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """What each peer may need to know. `python`: the interpreter that has those installed that we
    do not depend on."""

    folder: Path  # the weights
    gguf: Path | None  # the same for llama.cpp
    python: str
    blas: str | None
    rows: int
    threads: int
    eos_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Peer:
    """`module` must be installed for it. `command` gets a port; `more` goes into each body."""

    module: str
    command: Callable[[Setting, int], Sequence[str]]
    more: Callable[[Setting], Mapping[str, Any]]


def _mlx(module: str, *arguments: str) -> Callable[[Setting, int], Sequence[str]]:
    def command(setting: Setting, port: int) -> Sequence[str]:
        code, first = RUN.format(module=module), []
        if setting.blas is not None:
            code, first = BLAS + code, [setting.blas]
        place = ("--model", str(setting.folder), "--port", str(port))
        return [_interpreter(module, setting.python), "-c", code, *first, *place, *arguments]

    return command


def _interpreter(module: str, python: str) -> str:
    return sys.executable if module.startswith("mlx_lm") else python


def _llama(setting: Setting, port: int) -> Sequence[str]:
    context = LLAMA_CONTEXT * setting.rows
    if program := shutil.which(LLAMA_SERVER):
        place = (program, "-m", str(setting.gguf), "--port", str(port))
        sizes = ("-np", setting.rows, "-c", context, "-t", setting.threads)
        return [*place, *map(str, sizes), "--log-verbosity", "1"]
    numbers = (port, setting.rows, context, setting.threads)
    return [setting.python, "-c", EMBEDDED, str(setting.gguf), *map(str, numbers)]


def _no_end(setting: Setting) -> Mapping[str, Any]:
    """For servers without `ignore_eos`: the ending tokens are made impossible instead."""
    return {"logit_bias": {str(token): -100 for token in setting.eos_ids}}


def _model_too(setting: Setting) -> Mapping[str, Any]:
    return {**_no_end(setting), "model": str(setting.folder)}


PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        MLX_LM: Peer("mlx_lm", _mlx("mlx_lm.server", "--log-level", "WARNING"), _no_end),
        MLX_VLM: Peer(
            "mlx_vlm",
            _mlx("mlx_vlm.server", "--host", "127.0.0.1", "--log-level", "WARNING"),
            _model_too,
        ),
        LLAMA: Peer("xllamacpp", _llama, lambda _setting: {"ignore_eos": True}),
    }
)
HINTS: Mapping[str, str] = MappingProxyType(
    {
        MLX_LM: "Install mlx-lm, or name an interpreter that has it with --python.",
        MLX_VLM: "Install mlx-vlm, or name an interpreter that has it with --python.",
        LLAMA: "Put llama-server on PATH or install xllamacpp (see --python), and name the file "
        "of the same weights with --gguf.",
    }
)


async def installed(name: str, python: str) -> bool:
    """Whether the peer can be started here."""
    if name == LLAMA and shutil.which(LLAMA_SERVER):
        return True
    module = PEERS[name].module
    code = FOUND.format(module=module)
    async with child(_interpreter(module, python), "-c", code) as process:
        return await process.wait() == 0


async def choose(
    wanted: Sequence[str], python: str, gguf: Path | None, *, note: Callable[[str], None]
) -> list[str]:
    """The peers `wanted`, each of which must be here; without any, those that are here.

    Raises UsageError."""
    if unknown := [name for name in wanted if name not in PEERS]:
        raise UsageError(f"--peer {unknown[0]}: choose from {', '.join(PEERS)}.")
    missing = {name for name in wanted or PEERS if not await installed(name, python)}
    if gguf is None:
        missing.add(LLAMA)
    for name in missing.intersection(wanted):
        raise UsageError(f"--peer {name}: {HINTS[name]}")
    for name in missing.difference(wanted):
        note(f"Left out: {name}. {HINTS[name]}")
    return [name for name in wanted or PEERS if name not in missing]


@asynccontextmanager
async def targets(
    info: ModelInfo,
    batch: int,
    *,
    peer: bool = False,
    names: Sequence[str] = (),
    gguf: Path | None = None,
    python: str = sys.executable,
) -> AsyncIterator[list[Target]]:
    """Ours, and the peers `names` (with `peer`, mlx_lm.server), warm, on one folder of weights.

    Where ours would widen the weights at load, all MLX servers get the widened ones."""
    names = [MLX_LM] if peer else names
    blas = load_blas().path if names else None
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(_weights(info)) if names else info.path
        url = await stack.enter_async_context(served(Settings(model=str(folder), batch=batch)))
        found = [Target(OURS, url, {"ignore_eos": True}, salted=True)]
        setting = Setting(folder, gguf, python, blas, batch, os.cpu_count() or 1, info.eos_ids)
        for name in names:
            found.append(await stack.enter_async_context(_started(name, setting)))
        for target in found:
            await _warm(target)
        yield found


@asynccontextmanager
async def _started(name: str, setting: Setting) -> AsyncIterator[Target]:
    peer, port = PEERS[name], free_port()
    async with logged(name, peer.command(setting, port), port):
        yield Target(name, f"http://127.0.0.1:{port}{ROUTE}", peer.more(setting))


async def _warm(target: Target) -> None:
    """One answer; a server that listens may still load for a while."""
    until = time.monotonic() + STARTING
    while True:
        try:
            await target.ask([{"role": "user", "content": "Hello"}], 4)
        except Fault as fault:
            if fault.code != "status 503" or time.monotonic() > until:
                raise
            await asyncio.sleep(0.2)
        else:
            return


@contextmanager
def _weights(info: ModelInfo) -> Iterator[Path]:
    device = open_device()
    if not device.is_cpu:
        yield info.path
        return
    from slipstream.backends.mlx.widen import write_widened

    with TemporaryDirectory(prefix="slipstream-bench-") as folder:
        write_widened(info.path, Path(folder), device)
        yield Path(folder)


def ratios(rows: Sequence[Row], by: Sequence[str]) -> list[Row]:
    """Times of theirs over times of ours, for rows that agree in the columns `by`."""
    ours = {tuple(row[name] for name in by): row for row in rows if row["server"] == OURS}
    made: list[Row] = []
    for row in rows:
        same = ours.get(tuple(row[name] for name in by))
        if row["server"] == MLX_LM and same is not None:
            times = [name for name in row if name.endswith("_ms")]
            made.append(
                {name: row[name] for name in by}
                | {name.removesuffix("_ms"): _over(row[name], same[name]) for name in times}
            )
    return made


def _over(theirs: float | int | str | None, ours: float | int | str | None) -> float:
    assert theirs is not None and ours is not None
    return float(theirs) / float(ours)
