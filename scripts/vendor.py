"""Fetches the libraries of the web page, at exact versions, into its vendor folder.

Needs npm. Their files are taken as they were published, but for the names in `import`, which a
browser without a build step must find beside them, and comments that name source maps.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ROOT / "src" / "slipstream" / "serve" / "web" / "static" / "vendor"
TESTED = ROOT / "tests" / "web" / "vendor"
HEAD = """# Libraries of others

Written by `scripts/vendor.py`. A licence lies beside the files of its library.

| library | version | licence | files |
|---|---|---|---|
"""
IMPORTS: Mapping[str, str] = {
    "preact": "./preact.js",
    "preact/hooks": "./preact-hooks.js",
    "@preact/signals-core": "./signals-core.js",
}
SPECIFIER = re.compile(r'\bfrom"(?P<name>[^"]+)"')
SOURCE_MAP = re.compile(rb"\n?/[/*][#@] sourceMappingURL=[^\n]*\n?")


@dataclass(frozen=True, slots=True)
class Library:
    """`files` maps what is taken of the package to its name here."""

    name: str
    version: str
    licence: str
    files: Mapping[str, str]
    licence_file: str = "LICENSE"


PAGE = (
    Library(
        "preact",
        "11.2.0",
        "MIT",
        {"dist/preact.mjs": "preact.js", "hooks/dist/hooks.mjs": "preact-hooks.js"},
    ),
    Library("@preact/signals-core", "1.14.5", "MIT", {"dist/signals-core.mjs": "signals-core.js"}),
    Library("@preact/signals", "2.11.4", "MIT", {"dist/signals.mjs": "signals.js"}),
    Library("htm", "3.1.1", "Apache-2.0", {"dist/htm.mjs": "htm.js"}),
    Library("marked", "18.2.1", "MIT", {"lib/marked.esm.js": "marked.js"}),
    Library("dompurify", "3.5.0", "Apache-2.0 or MPL-2.0", {"dist/purify.es.mjs": "dompurify.js"}),
    Library(
        "@highlightjs/cdn-assets",
        "11.12.0",
        "BSD-3-Clause",
        {"es/highlight.min.js": "highlight.js"},
    ),
    Library(
        "uplot",
        "1.6.32",
        "MIT",
        {"dist/uPlot.esm.js": "uplot.js", "dist/uPlot.min.css": "uplot.css"},
    ),
)
TESTS = (Library("axe-core", "4.14.1", "MPL-2.0", {"axe.min.js": "axe.js"}),)


def packed(library: Library) -> Iterator[tuple[str, bytes]]:
    """(name here, content) of each file of `library`, its licence last."""
    wanted = {**library.files, library.licence_file: f"{plain(library.name)}.LICENSE"}
    with tempfile.TemporaryDirectory() as folder:
        order = ("npm", "pack", "--silent", f"{library.name}@{library.version}")
        subprocess.run(order, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).iterdir()
        with tarfile.open(archive) as held:
            for path, name in wanted.items():
                file = held.extractfile(f"package/{path}")
                assert file is not None, f"{library.name} has no {path}"
                yield name, adapted(file.read())


def plain(name: str) -> str:
    return name.lstrip("@").replace("/", "-")


def adapted(content: bytes) -> bytes:
    text = SOURCE_MAP.sub(b"\n", content).decode()
    return SPECIFIER.sub(lambda m: f'from"{IMPORTS.get(m["name"], m["name"])}"', text).encode()


def vendor(folder: Path, libraries: tuple[Library, ...]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table = HEAD
    for library in libraries:
        for name, content in packed(library):
            (folder / name).write_bytes(content)
        files = ", ".join(f"`{name}`" for name in library.files.values())
        table += f"| {library.name} | {library.version} | {library.licence} | {files} |\n"
    (folder / "VENDOR.md").write_text(table, "utf-8")


def main() -> int:
    vendor(SHIPPED, PAGE)
    vendor(TESTED, TESTS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
