"""`doctor`: what this machine can do, what is missing, and how to mend it."""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from slipstream.cli.terminal import FAILED, size
from slipstream.settings import Settings, cache_home

OK, WARN, MISSING = "ok", "warn", "missing"
COLOURS = ((OK, typer.colors.GREEN), (WARN, typer.colors.YELLOW), (MISSING, typer.colors.RED))
PACKAGES = ("mlx", "mlx-lm", "transformers", "tokenizers", "llguidance", "huggingface-hub")
ROOM = 1_000_000_000  # bytes: less than this in the cache folder is worth a word


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report. `fix` says what to do, where there is something to do."""

    name: str
    state: str
    detail: str
    fix: str = ""


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="for programs: a JSON list")] = False,
) -> None:
    """Say what works here and what is missing. The exit code is 1 if anything is."""
    checks = list(examined(cache_home()))
    if as_json:
        typer.echo(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        show(checks)
    if any(check.state == MISSING for check in checks):
        raise typer.Exit(FAILED)


def show(checks: list[Check]) -> None:
    colours = dict(COLOURS)
    width = max(len(check.name) for check in checks)
    for check in checks:
        state = typer.style(f"{check.state:7}", fg=colours[check.state])
        fix = f"  -> {check.fix}" if check.fix else ""
        typer.echo(f"{state}  {check.name:{width}}  {check.detail}{fix}")


def examined(cache: Path) -> Iterator[Check]:
    """Every check, in the order of the report. `cache` is looked at, not made."""
    yield Check("python", OK, f"{platform.python_version()} on {platform.platform()}")
    yield from map(package, PACKAGES)
    yield from device()
    yield folder(cache)
    yield starter(cache)
    yield hub()
    yield port(Settings().host, Settings().port)


def package(name: str) -> Check:
    try:
        return Check(name, OK, version(name))
    except PackageNotFoundError:
        return Check(name, MISSING, "not installed", f"install {name}")


def device() -> Iterator[Check]:
    """What the backend says of its device, and whether its matrix library is a slow one."""
    try:
        from slipstream.backends.mlx.device import REFERENCE, report

        described = report()
    except (ImportError, OSError, RuntimeError) as error:
        yield Check("device", MISSING, str(error), "install mlx for this platform")
        return
    for name, value in described.items():
        if value.startswith(REFERENCE):
            yield Check(name, WARN, value, "install libopenblas0-pthread, or the package mkl")
        else:
            yield Check(name, OK, value)


def folder(cache: Path) -> Check:
    """Whether models can be written to `cache`, judged at its nearest folder that exists."""
    there = next(parent for parent in (cache, *cache.parents) if parent.is_dir())
    if not os.access(there, os.W_OK | os.X_OK):
        fix = "name another folder with SLIPSTREAM_CACHE"
        return Check("cache folder", MISSING, f"{there} is not writable", fix)
    free = shutil.disk_usage(there).free
    detail = f"{cache}, {size(free)} free"
    if free < ROOM:
        return Check("cache folder", WARN, detail, "make room: `slipstream rm` removes a model")
    return Check("cache folder", OK, detail)


def starter(cache: Path) -> Check:
    from slipstream.models import starter

    if starter.present(cache):
        return Check("starter model", OK, str(starter.folder(cache)))
    if starter.is_installed():
        return Check("starter model", OK, "installed; converted when first used")
    return Check("starter model", WARN, "not here", "`slipstream get starter`")


def hub() -> Check:
    from slipstream.models import disk

    home = disk.hub_home()
    stored = list(disk.in_hub(None))
    partial = [model.id for model in stored if model.problem]
    detail = f"{home}, {len(stored)} models, {size(sum(model.size for model in stored))}"
    if partial:
        fix = f"`slipstream get {partial[0]}` fetches the rest"
        return Check("hub cache", WARN, f"{detail}, not whole: {', '.join(partial)}", fix)
    return Check("hub cache", OK, detail)


def port(host: str, number: int) -> Check:
    try:
        with socket.create_server((host, number)):
            return Check("port", OK, f"{number} is free")
    except OSError as error:
        fix = "stop what listens there, or serve with another --port"
        return Check("port", WARN, f"{number}: {error.strerror}", fix)
