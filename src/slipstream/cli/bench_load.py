"""`bench serve` and `bench peers`: their options, and what they print."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstream.cli import opening
from slipstream.contracts.errors import UsageError

if TYPE_CHECKING:
    from slipstream.bench.load import Level
    from slipstream.bench.serve import Plan
    from slipstream.bench.summary import Cell

URLS = typer.Argument(help="servers, such as http://127.0.0.1:8080; several are compared")
Workloads = Annotated[
    str, typer.Option("--workload", metavar="LIST", help="names with commas between, or `all`")
]
Concurrency = Annotated[
    str | None, typer.Option(metavar="LIST", help="closed loop: so many clients (1,4,8,16)")
]
Rate = Annotated[
    str | None, typer.Option(metavar="LIST", help="open loop: conversations a second, Poisson")
]
Requests = Annotated[
    int | None,
    typer.Option(min=1, help="conversations of a run (one or two for each client, at least 4)"),
]
Seconds = Annotated[float | None, typer.Option(help="begin no conversation after this time")]
Timeout = Annotated[float, typer.Option(help="seconds after which a request has failed")]
Rounds = Annotated[int, typer.Option(min=1, help="runs of each load; intervals need two")]
Warmup = Annotated[int, typer.Option(min=0, help="requests of each workload before the clock")]
Prompt = Annotated[int, typer.Option(min=8, help="words of the usual prompt")]
Output = Annotated[int, typer.Option(min=2, help="tokens of the usual answer")]
Goodput = Annotated[
    list[str] | None,
    typer.Option(metavar="METRIC:MS", help="bound of a good request, ttft:500,tpot:50; repeatable"),
]
Seed = Annotated[int, typer.Option(help="other prompts and arrivals")]
Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="folder for bench.txt, bench.svg, bench.json")
]
Extra = Annotated[
    str, typer.Option(metavar="JSON", help="fields for each body; {} where unknown ones fail")
]
Models = Annotated[
    list[str] | None, typer.Option("--model", help="model name; repeatable, one for each address")
]
Key = Annotated[str | None, typer.Option("--api-key", help="sent as a bearer token")]
Model = Annotated[
    str | None, typer.Option("--model", help="as for serve (default: the starter model)")
]
Peers = Annotated[
    str | None,
    typer.Option("--peer", metavar="LIST", help="mlx_lm.server,mlx_vlm.server,llama.cpp"),
]
Gguf = Annotated[
    Path | None, typer.Option(metavar="FILE", help="for llama.cpp (default: the starter's)")
]
Python = Annotated[
    str | None, typer.Option(metavar="PATH", help="interpreter that has the peers' packages")
]
Quick = Annotated[bool, typer.Option("--quick", help="one round of short answers: a look only")]


def serve(
    urls: Annotated[list[str], URLS],
    model: Models = None,
    api_key: Key = None,
    workload: Workloads = "equal",
    concurrency: Concurrency = None,
    rate: Rate = None,
    requests: Requests = None,
    seconds: Seconds = None,
    timeout: Timeout = 600.0,
    rounds: Rounds = 3,
    warmup: Warmup = 1,
    prompt: Prompt = 128,
    output: Output = 64,
    goodput: Goodput = None,
    extra: Extra = '{"ignore_eos": true}',
    seed: Seed = 0,
    out: Out = None,
) -> None:
    """Load on any OpenAI-compatible servers: first token, gaps, tokens a second, errors."""
    from slipstream.bench import figures, processes
    from slipstream.bench import serve as bench
    from slipstream.bench.workloads import Size

    plan = bench.Plan(
        workloads=named(workload),
        levels=levels(concurrency, rate),
        rounds=rounds,
        requests=requests,
        seconds=seconds,
        timeout=timeout,
        warmup=warmup,
        size=Size(prompt=prompt, output=output),
        bounds=figures.bounds(goodput or ()),
        seed=seed,
    )
    fields = parsed(extra)

    async def run() -> list[Cell]:
        servers = await bench.targets(urls, model or (), api_key, fields)
        return await bench.compare(servers, plan, rows=typer.echo, progress=progress)

    conclude("serve", processes.run(run()), plan, out)


def peers(
    model: Model = None,
    peer: Peers = None,
    gguf: Gguf = None,
    python: Python = None,
    workload: Workloads = "all",
    concurrency: Concurrency = None,
    requests: Requests = None,
    rounds: Rounds = 3,
    prompt: Prompt = 64,
    output: Output = 32,
    quick: Quick = False,
    seed: Seed = 0,
    out: Out = None,
) -> None:
    """Ours beside the servers that others run on the same weights, and where we lose."""
    info = opening.model(model)

    from slipstream.bench import processes
    from slipstream.bench import serve as bench
    from slipstream.bench.peers import choose, targets
    from slipstream.bench.workloads import Size

    plan = bench.Plan(
        workloads=named(workload),
        levels=levels(concurrency, None),
        rounds=1 if quick else rounds,
        requests=requests,
        for_each=1,
        size=Size(prompt=prompt // 2 if quick else prompt, output=output // 2 if quick else output),
        seed=seed,
    )
    path = shutil.which(python or sys.executable)
    if path is None:
        raise UsageError(f"--python {python}: there is no such interpreter.")
    weights = gguf or (starter_gguf() if model is None else None)

    async def run() -> list[Cell]:
        names = await choose(split(peer), path, weights, note=progress)
        rows = max(level.clients or 1 for level in plan.levels)
        async with targets(info, rows, names=names, gguf=weights, python=path) as servers:
            return await bench.compare(servers, plan, rows=typer.echo, progress=progress)

    conclude("peers", processes.run(run()), plan, out)


def starter_gguf() -> Path:
    from slipstream.models import starter

    return starter.installed()


def conclude(name: str, cells: Sequence[Cell], plan: Plan, out: Path | None) -> None:
    """Prints the tables and the last line; writes the files."""
    from slipstream.bench.result import Result

    result = Result.of(cells, plan.bounds)
    typer.echo("\n" + result.text)
    if result.behind:
        typer.echo("\nBehind: " + "; ".join(result.behind))
    if out is not None:
        result.write(out, asdict(plan))
    typer.echo(json.dumps({"bench": name, "rows": result.rates, "ratios": result.ratios}))


def progress(text: str) -> None:
    typer.echo(text, err=True)


def split(text: str | None) -> list[str]:
    return [word for word in (text or "").replace(",", " ").split() if word]


def named(text: str) -> list[str]:
    """Workloads by name. Raises UsageError."""
    from slipstream.bench.workloads import WORKLOADS

    names = list(WORKLOADS) if text == "all" else split(text)
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown or not names:
        raise UsageError(f"--workload {text}: choose from all, {', '.join(WORKLOADS)}.")
    return names


def levels(concurrency: str | None, rate: str | None) -> list[Level]:
    """Closed or open, not both: their tables would not compare. Raises UsageError."""
    from slipstream.bench.load import Level

    if concurrency and rate:
        raise UsageError("--concurrency or --rate, not both: a closed loop or an open one.")
    try:
        if rate:
            made = [Level(rate=float(word)) for word in split(rate)]
        else:
            made = [Level(clients=int(word)) for word in split(concurrency or "1,4,8,16")]
    except ValueError:
        made = []
    if not made or not all(level.value > 0 for level in made):
        raise UsageError("--concurrency and --rate take positive numbers, with commas between.")
    return made


def parsed(text: str) -> dict[str, Any]:
    """Raises UsageError."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageError("--extra takes one JSON object, such as '{\"ignore_eos\": true}'.")
    return found
