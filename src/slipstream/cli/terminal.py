"""What the commands print, and how they end when something goes wrong. Knows no command."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import NoReturn, ParamSpec

import typer

from slipstream.contracts.errors import SlipstreamError, UsageError

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
log = logging.getLogger("slipstream.cli")
P = ParamSpec("P")


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """`command` with every way to fail turned into one line on stderr and an exit code.

    The traceback goes to the log, at debug.
    """

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort):
            raise
        except UsageError as error:
            end(error.message, WRONG_USAGE)
        except SlipstreamError as error:
            log.debug("where it failed", exc_info=True)
            end(error.message, FAILED)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader has what it wanted; the interpreter must not try to flush again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except Exception as error:
            log.debug("where it failed", exc_info=True)
            hint = "`slipstream --log-level debug ...` shows where."
            complain(f"A fault of ours: {type(error).__name__}: {error}. {hint}")
            raise typer.Exit(FAILED) from None

    return run


def end(message: str, code: int) -> NoReturn:
    complain(message)
    raise typer.Exit(code) from None


def vanish(code: int) -> NoReturn:
    """Ends the process at once, with `code`.

    For a model that still loads: its thread cannot be stopped, and the interpreter's own way
    out would tear it apart with a message of its own.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def complain(message: str) -> None:
    typer.echo(f"slipstream: {message}", err=True)


def log_to_stderr(level: str) -> None:
    """Sends our own records of `level` and above to stderr; libraries only warn."""
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("slipstream").setLevel(level.upper())


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """A models.progress.Progress: a bar on a terminal, else one line for each piece of work."""
    if sys.stderr.isatty():
        with bar() as draw:
            yield draw
    else:
        yield Lines()


class Lines:
    """Says each piece of work once, when it begins."""

    def __init__(self) -> None:
        self.said: str | None = None

    def __call__(self, what: str, done: int, total: int) -> None:
        if what != self.said:
            self.said = what
            typer.echo(f"{what} ...", err=True)


@contextmanager
def bar() -> Iterator[Callable[[str, int, int], None]]:
    from rich.console import Console
    from rich.progress import Progress

    drawn = Progress(console=Console(stderr=True), transient=True)
    task = drawn.add_task("", total=None)

    def draw(what: str, done: int, total: int) -> None:
        if total:
            drawn.start()
            drawn.update(task, description=what, completed=done, total=total)
        else:  # of unknown length: whoever does it draws, so no bar may be in its way
            drawn.stop()
            typer.echo(f"{what} ...", err=True)

    try:
        yield draw
    finally:
        drawn.stop()


def size(count: float) -> str:
    """Bytes for people: 1.5 GB."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}" if unit != "B" else f"{count:.0f} B"
        count /= 1000
    return f"{count:.1f} GB"
