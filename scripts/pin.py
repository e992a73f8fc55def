"""Writes the exact version of every package into pyproject.toml's `constraint-dependencies`.

What is pinned stays; what is new is added; what is no longer needed goes. `--upgrade` forgets
the old pins first. Names and versions only: no addresses and no lock file.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^constraint-dependencies = \[\n.*?^\]\n", re.MULTILINE | re.DOTALL)
PIN = re.compile(r"(?P<name>[a-z0-9-]+)(?:\[[^\]]*\])?==(?P<version>\S+)(?: ; (?P<marker>.+))?")
EXPORT = (
    *("uv", "export", "--quiet", "--format", "requirements.txt", "--all-groups", "--all-extras"),
    *("--no-hashes", "--no-header", "--no-annotate", "--no-emit-project"),
)


def resolved(project: str) -> str:
    """The requirements that uv finds for the text of a pyproject.toml, on every platform."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pyproject.toml").write_text(project, "utf-8")
        done = subprocess.run(EXPORT, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit("uv could not resolve the project; with --upgrade the old pins are free.")
    return done.stdout


def pins(requirements: Iterable[str]) -> list[str]:
    """`name==version` for each package; a marker only where two versions divide the platforms.

    Raises SystemExit for a requirement that is not an exact version.
    """
    found: dict[str, dict[str, str | None]] = {}
    for line in requirements:
        match = PIN.fullmatch(line.strip())
        if match is None:
            raise SystemExit(f"not an exact version: {line.strip()}")
        found.setdefault(match["name"], {})[match["version"]] = match["marker"]
    return [
        f"{name}=={version} ; {marker}" if len(versions) > 1 and marker else f"{name}=={version}"
        for name, versions in sorted(found.items())
        for version, marker in sorted(versions.items())
    ]


def block(lines: Iterable[str]) -> str:
    return "constraint-dependencies = [\n" + "".join(f'    "{line}",\n' for line in lines) + "]\n"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="take the newest of everything")
    options = parser.parse_args(arguments)

    file = ROOT / "pyproject.toml"
    text = file.read_text("utf-8")
    if not BLOCK.search(text):
        raise SystemExit("pyproject.toml has no constraint-dependencies to rewrite.")
    start = BLOCK.sub(block(()), text) if options.upgrade else text
    found = pins(resolved(start).splitlines())
    # Read again: resolving takes a while, and only the block is ours.
    file.write_text(BLOCK.sub(lambda _: block(found), file.read_text("utf-8")), "utf-8")
    print(f"{len(found)} packages pinned")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
