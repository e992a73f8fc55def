"""What no file of the repository may hold, whatever its kind."""

from __future__ import annotations

import fnmatch
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

# Put together here, so that this file does not hold them.
HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("anaconda", "org"),
        ("npmjs", "org"),
        ("crates", "io"),
        ("proxy", "golang", "org"),
    )
)
FOLDERS = ("work", "root", "home", "Users")
PATHS = re.compile(rf"(?<![\w.}}/-])/(?:{'|'.join(FOLDERS)})/[\w.-]")
TICKETS = re.compile(r"\b(?:issue|pr|pull request)s?\s+#?\d+", re.IGNORECASE)
LOCKS = frozenset(
    [
        "uv.lock",
        "poetry.lock",
        "pdm.lock",
        "Pipfile.lock",
        "package-lock.json",
        "yarn.lock",
        "pnpm-lock.yaml",
    ]
)
EXACT = re.compile(r"(?P<name>[a-z0-9-]+)==[\w.+!]+(?: ; .+)?")


def files(root: Path) -> Iterator[Path]:
    """Every file that .gitignore does not leave out. Patterns are names, as ours are."""
    listed = (root / ".gitignore").read_text("utf-8").split()
    ignored = [".git", *(line.strip("/") for line in listed)]
    yield from _walk(root, ignored)


def _walk(folder: Path, ignored: list[str]) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if any(fnmatch.fnmatch(entry.name, pattern) for pattern in ignored):
            continue
        if entry.is_dir():
            yield from _walk(entry, ignored)
        else:
            yield entry


def forbidden_words(root: Path) -> list[str]:
    """Hosts of package registries, paths of one machine, numbers of tickets."""
    complaints = []
    for file in files(root):
        for number, line in enumerate(_lines(file), 1):
            where = f"{file.relative_to(root)}:{number}"
            complaints += [f"{where}: names {host}" for host in HOSTS if host in line]
            if PATHS.search(line):
                complaints.append(f"{where}: names a path of one machine")
            if TICKETS.search(line):
                complaints.append(f"{where}: names a ticket")
    return complaints


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        return []  # not text


def lock_files(root: Path) -> list[str]:
    """Lock files, which record addresses, that .gitignore would let in."""
    return [f"{f.relative_to(root)}: is a lock file" for f in files(root) if f.name in LOCKS]


def loose_versions(root: Path) -> list[str]:
    """Packages that pyproject.toml asks for and does not pin by an exact version."""
    text = (root / "pyproject.toml").read_text("utf-8")
    project = tomllib.loads(text)
    pinned: list[str] = project["tool"]["uv"]["constraint-dependencies"]
    names = {match["name"] for pin in pinned if (match := EXACT.fullmatch(pin))}
    groups = [
        project["project"]["dependencies"],
        *project["project"].get("optional-dependencies", {}).values(),
        *project.get("dependency-groups", {}).values(),
    ]
    wanted = {re.split(r"[^\w.-]", line)[0].lower() for group in groups for line in group}
    complaints = [f"pyproject.toml: {name} has no exact version" for name in wanted - names]
    return complaints + [
        f"{pin}: is no exact version" for pin in pinned if not EXACT.fullmatch(pin)
    ]
