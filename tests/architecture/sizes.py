"""Budgets: how long a file, a class, a function and a module's opening may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from .source import Module, modules, scopes

FILE, CLASS, FUNCTION = 400, 250, 50  # lines; each must stay below
DOCSTRING = 8  # lines, at most

EXCEPTIONS: Mapping[str, str] = MappingProxyType(
    {"contracts/errors.py docstring": "the one exception tree is drawn there"}
)
"""What may be over, and why. It only shrinks: an entry that is not needed is a complaint."""


def oversized(source: Path, exceptions: Mapping[str, str]) -> list[str]:
    """Everything over its budget that has no exception, and exceptions without need."""
    found = {key: text for module in modules(source) for key, text in _over(module)}
    complaints = [text for key, text in found.items() if key not in exceptions]
    complaints += [f"{key}: needs no exception" for key in exceptions if key not in found]
    return complaints


def _over(module: Module) -> Iterator[tuple[str, str]]:
    lines = len(module.text.splitlines())
    if lines >= FILE:
        yield module.path, f"{module.path}: {lines} lines, a file has fewer than {FILE}"
    for name, node in scopes(module.tree):
        budget = CLASS if isinstance(node, ast.ClassDef) else FUNCTION
        size = _height(node)
        if size >= budget:
            key = f"{module.path}:{name}"
            yield key, f"{key}: {size} lines, it has fewer than {budget}"
    yield from _opening(module)


def _opening(module: Module) -> Iterator[tuple[str, str]]:
    if not module.tree.body:
        return
    key = f"{module.path} docstring"
    if ast.get_docstring(module.tree) is None:
        yield key, f"{module.path}: opens without saying its job"
    elif (size := _height(module.tree.body[0])) > DOCSTRING:
        yield key, f"{module.path}: opens with {size} lines, at most {DOCSTRING}"


def _height(node: ast.AST) -> int:
    return node.end_lineno - node.lineno + 1  # type: ignore[attr-defined]
