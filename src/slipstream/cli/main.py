"""`slipstream`: the verbs and their options. Imports nothing heavy until a verb runs."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Literal

import typer

from slipstream.cli import bench, cache, doctor, fit, models, serve, talk, top
from slipstream.cli.flags import command
from slipstream.cli.terminal import guarded, log_to_stderr
from slipstream.settings import LOG_LEVELS


def main() -> None:
    """The entry point. Exit codes: 0 good, 1 it failed, 2 wrong usage."""
    app()()


def app() -> typer.Typer:
    """The command line, made anew."""
    made = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(every)
    made.command("serve")(guarded(command(serve.serve, help="Serve a model over HTTP.")))
    made.command("generate")(guarded(talk.generate))
    made.command("chat")(guarded(talk.chat))
    made.command("get")(guarded(models.get))
    made.command("ls")(guarded(models.ls))
    made.command("rm")(guarded(models.rm))
    made.command("fit")(guarded(fit.fit))
    made.command("top")(guarded(top.top))
    made.command("doctor")(guarded(doctor.doctor))
    made.add_typer(bench.app(), name="bench")
    made.add_typer(cache.app(), name="cache")
    return made


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"slipstream {version('slipstream')}")
        raise typer.Exit


def every(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=show_version, is_eager=True, help="print the version and stop"
        ),
    ] = False,
    log_level: Annotated[
        Literal[LOG_LEVELS],
        typer.Option("--log-level", case_sensitive=False, help="how much to log"),
    ] = "warning",
) -> None:
    """An LLM server on MLX where everything rides in one batch and every answer says why."""
    log_to_stderr(log_level)
