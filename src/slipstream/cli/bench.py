"""`bench`: claims of speed as programs that anyone can run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from slipstream.cli import bench_load, opening
from slipstream.cli.terminal import guarded

if TYPE_CHECKING:
    from slipstream.bench.report import Row

Model = Annotated[
    str | None, typer.Option("--model", help="as for serve (default: the starter model)")
]

Peer = Annotated[
    bool, typer.Option("--peer", help="ask mlx_lm.server the same, on the same weights")
]
Rounds = Annotated[int, typer.Option("--rounds", min=1, help="interleaved repetitions")]


def app() -> typer.Typer:
    made = typer.Typer(no_args_is_help=True, help="Measure: tables, and a last line of JSON.")
    made.command("engine")(guarded(engine))
    made.command("prefix")(guarded(prefix))
    made.command("fairness")(guarded(fairness))
    made.command("mixed")(guarded(mixed))
    made.command("sampler")(guarded(sampler))
    made.command("adapters")(guarded(adapters))
    made.command("kv")(guarded(kv))
    made.command("tracing")(guarded(tracing))
    made.command("serve")(guarded(bench_load.serve))
    made.command("peers")(guarded(bench_load.peers))
    return made


def engine(
    model: Model = None,
    batch: Annotated[list[int] | None, typer.Option("--batch", help="rows; repeatable")] = None,
    steps: Annotated[int, typer.Option("--steps", help="tokens of each answer")] = 48,
    rounds: Annotated[int, typer.Option("--rounds", help="interleaved repetitions")] = 3,
) -> None:
    """The raw loop, the engine and the server, at several batch sizes."""
    info = opening.model(model)

    from slipstream.bench import processes
    from slipstream.bench.engine import Bench, Plan
    from slipstream.bench.report import finish, render

    plan = Plan(batches=batch or (1, 4, 8, 16), steps=steps, rounds=rounds)
    rows, skew = processes.run(Bench(info, plan).run())
    if skew:
        typer.echo("One row of 4,000 tokens and seven of 64, and what a join and a leave add:")
        typer.echo(render([{"how": name, **cells} for name, cells in skew.items()]))
    finish("engine", rows, sys.stdout, skew=skew)


def prefix(model: Model = None, rounds: Rounds = 3, peer: Peer = False) -> None:
    """What the prefix cache saves: agents with one prefix, a chat, repeated prompts."""
    info = opening.model(model)

    from slipstream.bench import peers, processes
    from slipstream.bench.prefix import Plan, run
    from slipstream.bench.report import finish, render

    plan = Plan(rounds=rounds)
    found = processes.run(run(info, plan, peer=peer, rows=typer.echo, progress=bench_load.progress))
    typer.echo("Repeated prompts:\n" + render(found.repeats))
    typer.echo("A chat:\n" + render(found.turns))
    against = {
        "agents": peers.ratios(found.agents, ("cache",)),
        "repeats": peers.ratios(found.repeats, ("tokens",)),
        "turns": peers.ratios(found.turns, ("cache", "turn")),
    }
    show_ratios(against)
    typer.echo("Agents that arrive together and share a prefix:")
    more = {"repeats": found.repeats, "turns": found.turns}
    finish("prefix", found.agents, sys.stdout, **more, ratios=against)


def fairness(model: Model = None, rounds: Rounds = 3, peer: Peer = False) -> None:
    """What long prompts do to running streams, and to a short one that comes last."""
    info = opening.model(model)

    from slipstream.bench import peers, processes
    from slipstream.bench.fairness import Plan, run
    from slipstream.bench.report import finish

    plan = Plan(rounds=rounds)
    rows = processes.run(run(info, plan, peer=peer, progress=bench_load.progress))
    against = {"fairness": peers.ratios(rows, ())}
    show_ratios(against)
    finish("fairness", rows, sys.stdout, ratios=against)


def show_ratios(against: Mapping[str, Sequence[Row]]) -> None:
    """Prints tables of ratios, where there is a peer."""
    from slipstream.bench.report import render

    for name, rows in against.items():
        if rows:
            typer.echo(f"Times of mlx_lm.server over ours, {name}:\n{render(rows)}")


def mixed(
    model: Model = None,
    steps: Annotated[int, typer.Option("--steps", help="tokens of each answer")] = 40,
    rounds: Annotated[int, typer.Option("--rounds", help="interleaved repetitions")] = 3,
) -> None:
    """Sixteen rows of all shapes against sixteen plain ones, and each shape alone."""
    info = opening.model(model)

    from slipstream.bench import processes, shapes
    from slipstream.bench.report import finish

    finish("mixed", processes.run(shapes.mixed(info, steps, rounds)), sys.stdout)


def tracing(
    model: Model = None,
    rounds: Annotated[int, typer.Option("--rounds", min=2, help="interleaved repetitions")] = 6,
) -> None:
    """What traces cost: eight streams on a server without them, with a file, and with turns."""
    info = opening.model(model)

    from slipstream.bench import processes
    from slipstream.bench import tracing as bench
    from slipstream.bench.report import finish

    plan = bench.Plan(rounds=rounds)
    found = processes.run(bench.run(info, plan, note=lambda line: typer.echo(line, err=True)))
    finish("tracing", found, sys.stdout)


def sampler(
    model: Model = None,
    rows: Annotated[int, typer.Option("--rows", help="rows of the step")] = 16,
) -> None:
    """What each stage between logits and token costs."""
    info = opening.model(model)

    from slipstream.bench import processes, shapes
    from slipstream.bench.report import finish

    finish("sampler", processes.run(shapes.stages(info, rows)), sys.stdout)


def adapters(
    model: Model = None,
    rows: Annotated[int, typer.Option("--rows", min=1, help="requests at once")] = 8,
    rank: Annotated[int, typer.Option("--rank", min=1, help="of each adapter")] = 8,
    steps: Annotated[int, typer.Option("--steps", help="tokens of each answer")] = 48,
    rounds: Rounds = 3,
) -> None:
    """Rows over four adapters, and over one, against rows without any."""
    info = opening.model(model)

    from slipstream.bench import processes
    from slipstream.bench.adapters import Bench, Plan
    from slipstream.bench.report import finish

    plan = Plan(rows=rows, rank=rank, steps=steps, rounds=rounds)
    finish("adapters", processes.run(Bench(info, plan).run()), sys.stdout)


def kv(
    model: Model = None,
    scheme: Annotated[
        list[str] | None, typer.Option("--scheme", help="as --kv-scheme of serve; repeatable")
    ] = None,
    tokens: Annotated[int, typer.Option("--tokens", min=257, help="of the text")] = 2049,
) -> None:
    """What KV schemes take, cost and say: bytes, parts of a forward, perplexity, divergence."""
    info = opening.model(model)

    from slipstream.bench.kv import SCHEMES, run
    from slipstream.bench.report import finish

    finish("kv", run(info, scheme or SCHEMES, tokens), sys.stdout, tokens=tokens)
