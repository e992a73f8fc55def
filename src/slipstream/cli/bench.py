"""`bench`: claims of speed as programs that anyone can run."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from slipstream.cli import opening
from slipstream.cli.terminal import guarded

Model = Annotated[
    str | None, typer.Option("--model", help="as for serve (default: the starter model)")
]


def app() -> typer.Typer:
    made = typer.Typer(no_args_is_help=True, help="Measure: tables, and a last line of JSON.")
    made.command("engine")(guarded(engine))
    made.command("mixed")(guarded(mixed))
    made.command("sampler")(guarded(sampler))
    return made


def engine(
    model: Model = None,
    batch: Annotated[list[int] | None, typer.Option("--batch", help="rows; repeatable")] = None,
    steps: Annotated[int, typer.Option("--steps", help="tokens of each answer")] = 48,
    rounds: Annotated[int, typer.Option("--rounds", help="interleaved repetitions")] = 3,
) -> None:
    """The raw loop, the engine and the server, at several batch sizes."""
    info = opening.model(model)

    from slipstream.bench.engine import Bench, Plan
    from slipstream.bench.report import finish, render

    plan = Plan(batches=batch or (1, 4, 8, 16), steps=steps, rounds=rounds)
    rows, skew = asyncio.run(Bench(info, plan).run())
    if skew:
        typer.echo("One row of 4,000 tokens and seven of 64, and what a join and a leave add:")
        typer.echo(render([{"how": name, **cells} for name, cells in skew.items()]))
    finish("engine", rows, sys.stdout, skew=skew)


def mixed(
    model: Model = None,
    steps: Annotated[int, typer.Option("--steps", help="tokens of each answer")] = 40,
    rounds: Annotated[int, typer.Option("--rounds", help="interleaved repetitions")] = 3,
) -> None:
    """Sixteen rows of all shapes against sixteen plain ones, and each shape alone."""
    info = opening.model(model)

    from slipstream.bench import shapes
    from slipstream.bench.report import finish

    finish("mixed", asyncio.run(shapes.mixed(info, steps, rounds)), sys.stdout)


def sampler(
    model: Model = None,
    rows: Annotated[int, typer.Option("--rows", help="rows of the step")] = 16,
) -> None:
    """What each stage between logits and token costs."""
    info = opening.model(model)

    from slipstream.bench import shapes
    from slipstream.bench.report import finish

    finish("sampler", asyncio.run(shapes.stages(info, rows)), sys.stdout)
