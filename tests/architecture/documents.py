"""Docs against code: names, links, commands and tables say what is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from .imports import ROOMS
from .source import PACKAGE, modules, scopes

CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"(?P<path>[\w./-]+\.(?:py|md|toml))(?::(?P<symbol>[A-Za-z_][\w.]*))?")
DOTTED = re.compile(rf"{PACKAGE}\.(?P<room>\w+)[\w.]*")
LINK = re.compile(r"\]\((?P<target>[^)#\s]*)(?:#[^)\s]*)?\)")
ROUTE = re.compile(r"[A-Z]+ /\S*")
FENCE = re.compile(r"^```.*?^```\n?", re.MULTILINE | re.DOTALL)
HOPS = 10


def pages(root: Path) -> list[Path]:
    """Every page of prose in the repository."""
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])


def missing_names(root: Path) -> list[str]:
    """Files and symbols in backticks that do not exist.

    `engine/gateway.py:Gateway.submit` is a symbol of a file, looked for in the package and then
    from the root; `slipstream.settings.flags` is a dotted name. Dotted names that begin with no
    room of ours are something else, such as fields of a response.
    """
    defined = _defined(root / "src")
    rooms = {room.split(".")[0] for room in ROOMS}
    complaints = []
    for page in pages(root):
        for name in CODE.findall(FENCE.sub("", page.read_text("utf-8"))):
            if match := FILE.fullmatch(name):
                good = _file_has(root, match["path"], match["symbol"])
            elif (match := DOTTED.fullmatch(name)) and match["room"] in rooms:
                good = name in defined
            else:
                continue
            if not good:
                complaints.append(f"{page.relative_to(root)}: {name} does not exist")
    return complaints


def _file_has(root: Path, path: str, symbol: str | None) -> bool:
    for base in (root / "src" / PACKAGE, root):
        if (file := base / path).is_file():
            return symbol is None or symbol in set(symbols(ast.parse(file.read_text("utf-8"))))
    return False


def _defined(source: Path) -> set[str]:
    known: set[str] = set()
    for module in modules(source):
        known |= {module.name, *(f"{module.name}.{symbol}" for symbol in symbols(module.tree))}
    return known


def symbols(tree: ast.Module) -> Iterator[str]:
    """Classes, functions, and the names that a module or a class body binds."""
    owners: list[tuple[str, ast.AST]] = [("", tree)]
    for name, node in scopes(tree):
        yield name
        if isinstance(node, ast.ClassDef):
            owners.append((f"{name}.", node))
    for prefix, owner in owners:
        for statement in owner.body:  # type: ignore[attr-defined]
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            if isinstance(statement, ast.AnnAssign):
                targets = [statement.target]
            yield from (f"{prefix}{t.id}" for t in targets if isinstance(t, ast.Name))


def broken_links(root: Path) -> list[str]:
    """Links to files that are not there. Addresses on the net are not followed."""
    return [
        f"{page.relative_to(root)}: {target} leads nowhere"
        for page in pages(root)
        for target in LINK.findall(FENCE.sub("", page.read_text("utf-8")))
        if target and "://" not in target and not (page.parent / target).exists()
    ]


def wrong_hops(root: Path) -> list[str]:
    """docs/flow.md numbers ten hops in order, and each names a symbol of the code."""
    text = (root / "docs" / "flow.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \|(.*)$", text, re.MULTILINE)
    complaints = [
        f"docs/flow.md: hop {number} names no symbol"
        for number, row in rows
        if not any((m := FILE.fullmatch(name)) and m["symbol"] for name in CODE.findall(row))
    ]
    if [int(number) for number, _ in rows] != list(range(1, HOPS + 1)):
        complaints.append(f"docs/flow.md: the hops are not numbered 1 to {HOPS}")
    return complaints


def wrong_invariants(root: Path) -> list[str]:
    """docs/invariants.md lists I1 to I9, and each names a test file."""
    text = (root / "docs" / "invariants.md").read_text("utf-8")
    rows = re.findall(r"^\| (I\d+) \|(.*)$", text, re.MULTILINE)
    complaints = [
        f"docs/invariants.md: {number} names no test"
        for number, row in rows
        if not any(name.startswith("tests/") for name in CODE.findall(row))
    ]
    if [number for number, _ in rows] != [f"I{n}" for n in range(1, 10)]:
        complaints.append("docs/invariants.md: the list is not I1 to I9")
    return complaints


def undocumented(page: Path, words: Iterable[str]) -> list[str]:
    """Words that a page should hold in backticks and does not."""
    known = set(CODE.findall(FENCE.sub("", page.read_text("utf-8"))))
    return [f"{page.name}: {word} is not documented" for word in words if word not in known]


def wrong_routes(root: Path) -> list[str]:
    """Routes of serve/app.py that the table of docs/api.md lacks, and the reverse."""
    tree = ast.parse((root / "src" / PACKAGE / "serve" / "app.py").read_text("utf-8"))
    served = {
        f"{method.arg} {re.sub(r'{.*?}', '{}', path.value)}"
        for table in ast.walk(tree)
        if isinstance(table, ast.Dict)
        for path, methods in zip(table.keys, table.values, strict=True)
        if isinstance(path, ast.Constant) and isinstance(methods, ast.Call)
        for method in methods.keywords
    }
    text = (root / "docs" / "api.md").read_text("utf-8")
    told = {re.sub(r"{.*?}", "{}", name) for name in CODE.findall(text) if ROUTE.fullmatch(name)}
    complaints = [f"docs/api.md: {route} is not documented" for route in sorted(served - told)]
    return complaints + [f"docs/api.md: there is no {route}" for route in sorted(told - served)]


def wrong_commands(root: Path) -> list[str]:
    """What README tells to run, what CI runs and what make runs are the same lines."""
    readme = (root / "README.md").read_text("utf-8")
    ci = (root / ".ci" / "run").read_text("utf-8").splitlines()
    makefile = (root / "Makefile").read_text("utf-8")
    complaints = []
    test = next((line for line in readme.splitlines() if line.endswith(" pytest")), None)
    if test is None:
        return ["README.md: does not say how to run the tests"]
    if not any(line.startswith(test) for line in ci):
        complaints.append(f".ci/run: does not run the README's `{test}`")
    for recipe, line in _recipes(makefile, ("check", "test")):
        if recipe == "test" and line != test.rpartition("&& ")[2]:
            complaints.append(f"Makefile: `make test` is not the README's `{test}`")
        if recipe == "check" and not any(line in other for other in ci):
            complaints.append(f".ci/run: does not run `{line}` of `make check`")
    return complaints


def _recipes(makefile: str, wanted: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    target = ""
    for line in makefile.splitlines():
        if line.startswith("\t") and target in wanted:
            yield target, line.strip()
        elif match := re.match(r"(\w+):", line):
            target = match[1]
