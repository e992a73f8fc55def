"""The list of a converted folder's files with sizes and SHA-256 digests, and checks against it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

NAME = "slipstream.json"


def digest(path: Path) -> str:
    """SHA-256 of a file, hexadecimal. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write(folder: Path, source: str) -> None:
    """Lists every file of `folder` in its manifest; `source` is the digest of what it is from."""
    files = {
        path.name: {"size": path.stat().st_size, "sha256": digest(path)}
        for path in sorted(folder.iterdir())
    }
    text = json.dumps({"source_sha256": source, "files": files}, indent=2)
    (folder / NAME).write_text(text, "utf-8")


def problem(folder: Path, *, digests: bool) -> str | None:
    """What is wrong with the first bad file, or None. Sizes always, digests where asked."""
    try:
        files = json.loads((folder / NAME).read_text("utf-8"))["files"]
        for name, known in files.items():
            path = folder / name
            if path.stat().st_size != known["size"]:
                return f"{path} has {path.stat().st_size} bytes instead of {known['size']}"
            if digests and digest(path) != known["sha256"]:
                return f"{path} is not what was written: its SHA-256 differs"
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{folder / NAME} is not a manifest"
    return None
