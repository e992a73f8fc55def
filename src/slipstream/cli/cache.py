"""`cache`: looks after the folder of `serve --ssd-cache`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from slipstream.cli.terminal import FAILED, guarded, progress, size
from slipstream.contracts.errors import SlipstreamError, UsageError

if TYPE_CHECKING:
    from slipstream.backends.mlx.prefix.disk.care import Contents
    from slipstream.backends.mlx.prefix.disk.folder import Folder

T = TypeVar("T")
GB = 1 << 30
Place = Annotated[Path, typer.Argument(metavar="DIR", help="the folder given to --ssd-cache")]
AsJson = Annotated[bool, typer.Option("--json", help="for programs: a JSON object")]


def app() -> typer.Typer:
    made = typer.Typer(no_args_is_help=True, help="Look after the prefix cache on disk.")
    for command in (ls, gc, verify):
        made.command(command.__name__)(guarded(command))
    return made


def ls(folder: Place, as_json: AsJson = False) -> None:
    """List what the cache holds, by model."""
    from slipstream.backends.mlx.prefix.disk import care as disk_care

    found = reading(lambda: disk_care.contents(opened(folder)))
    models = by_model(found)
    if as_json:
        entries = [
            {
                "name": entry.label.name,
                "model": entry.label.model,
                "kind": entry.label.kind,
                "start": entry.label.start,
                "stop": entry.label.stop,
                "bytes": entry.size,
            }
            for entry in found.entries
        ]
        bad = [{"name": one.name, "bytes": one.size, "why": one.why} for one in found.bad]
        answer = {"bytes": found.nbytes, "models": models, "entries": entries, "bad": bad}
        typer.echo(json.dumps(answer, indent=2))
        return
    for name, numbers in models.items():
        files, tokens = numbers["files"], numbers["tokens"]
        typer.echo(f"{name}  {files} files  {tokens} tokens  {size(numbers['bytes'])}")
    if found.bad:
        typer.echo(f"{len(found.bad)} files cannot be used; `slipstream cache gc` removes them.")
    typer.echo(f"{size(found.nbytes)} in all.")


def by_model(found: Contents) -> dict[str, dict[str, int]]:
    models: dict[str, dict[str, int]] = {}
    for entry in found.entries:
        numbers = models.setdefault(entry.label.model, {"files": 0, "tokens": 0, "bytes": 0})
        numbers["files"] += 1
        numbers["tokens"] += len(entry.label.ids)
        numbers["bytes"] += entry.size
    return models


def gc(
    folder: Place,
    to: Annotated[
        float | None,
        typer.Option("--size", metavar="GB", help="drop what is used least until then"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Remove what no server can use, and what is over a size."""
    from slipstream.backends.mlx.prefix.disk import care as disk_care

    if to is not None and not to >= 0:
        raise UsageError("--size must be at least 0.", param="size")
    most = None if to is None else int(to * GB)
    swept = reading(lambda: disk_care.sweep(opened(folder), most))
    if as_json:
        typer.echo(json.dumps({"removed": swept.files, "bytes": swept.bytes}))
    else:
        typer.echo(f"Removed {swept.files} files, {size(swept.bytes)}.")


def verify(
    folder: Place,
    repair: Annotated[bool, typer.Option("--repair", help="remove what is bad")] = False,
    as_json: AsJson = False,
) -> None:
    """Read every file and compare its checksum. Exit code 1 when bad ones are left."""
    from slipstream.backends.mlx.prefix.disk import care as disk_care

    place = opened(folder)

    def checked() -> tuple[int, list[Any]]:
        total, bad = len(place.sizes()), []
        with progress() as draw:
            for done, (_, found) in enumerate(disk_care.verify(place), 1):
                draw("Checking", done, total)
                bad += [found] if found else []
        if repair:
            disk_care.remove(place, {one.name: one for one in bad})
        return total, bad

    total, bad = reading(checked)
    if as_json:
        named = [{"name": one.name, "bytes": one.size, "why": one.why} for one in bad]
        typer.echo(json.dumps({"files": total, "bad": named, "repaired": repair}, indent=2))
    else:
        for one in bad:
            typer.echo(f"{one.name}: {one.why}{'; removed' if repair else ''}")
        typer.echo(f"{total - len(bad)} of {total} files are whole.")
    if bad and not repair:
        raise typer.Exit(FAILED)


def opened(path: Path) -> Folder:
    from slipstream.backends.mlx.prefix.disk.folder import Folder

    if not path.is_dir():
        raise UsageError(f"{path} is not a folder.", param="DIR")
    return Folder(path)


def reading(action: Callable[[], T]) -> T:
    """What `action` gives. Raises SlipstreamError when the system refuses."""
    try:
        return action()
    except OSError as error:
        raise SlipstreamError(f"The folder cannot be used: {error}") from error
