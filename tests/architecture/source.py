"""Python files as the checks see them: a dotted name, a room, a syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "slipstream"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.ClassDef)


@dataclass(frozen=True)
class Module:
    """One file of the package. `path` is relative to the package, `name` is the import name."""

    path: str
    name: str
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """Which part of the tree it belongs to: "engine", "backends.mlx", "settings", ..."""
        parts = self.name.split(".")[1:]
        if not parts:
            return PACKAGE
        return ".".join(parts[:2]) if parts[0] == "backends" else parts[0]

    @property
    def imports_from(self) -> list[str]:
        """The package that relative imports start at, as parts of its name."""
        parts = self.name.split(".")
        return parts if self.path.endswith("__init__.py") else parts[:-1]


def modules(source: Path) -> list[Module]:
    """Every module of the package in the folder `source`, by path."""
    package = source / PACKAGE
    return [_read(file, package) for file in sorted(package.rglob("*.py"))]


def _read(file: Path, package: Path) -> Module:
    relative = file.relative_to(package)
    parts = [PACKAGE, *relative.with_suffix("").parts]
    if parts[-1] == "__init__":
        parts.pop()
    text = file.read_text("utf-8")
    return Module(relative.as_posix(), ".".join(parts), text, ast.parse(text, str(file)))


def scopes(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Every class and function, nested ones too, with its qualified name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, SCOPES):
            name = f"{prefix}{node.name}"
            yield name, node
            yield from scopes(node, f"{name}.")
        else:
            yield from scopes(node, prefix)


def name_of(node: ast.AST | None) -> str:
    """The last part of a name: `b` of `a.b`, `a` of `a`, nothing of anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
