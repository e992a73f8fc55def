"""Habits that the syntax shows: probing, swallowed errors, module state, unfinished work."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from .source import FUNCTIONS, SCOPES, Module, modules, name_of, scopes

PROBES: Mapping[str, str] = MappingProxyType(
    {
        "backends/mlx/footprint.py": "the caches are mlx-lm's",
        "backends/mlx/fused.py": "the mixers are mlx-lm's",
        "backends/mlx/opening.py": "the caches are mlx-lm's",
    }
)
"""Files that may ask an object what it has, and whose object that is."""
PROBING_ROOMS = frozenset({"backends.mlx", "text"})

SWALLOWS: Mapping[str, str] = MappingProxyType(
    {
        "backends/mlx/launch.py:contained": "a row's own code may only end that row",
        "engine/driver.py:Driver.turn": "the device thread outlives whatever a turn raises",
        "engine/driver.py:Driver._run_unit": "the error goes to whoever awaits the job",
        "serve/middleware.py:Errors.__call__": "the app's edge: every error becomes an answer",
    }
)
"""Functions that may catch everything and go on, and why."""

STATE: Mapping[str, str] = MappingProxyType(
    {"text/sandbox.py:tags": "jinja2 declares the tags of an extension as a set"}
)
"""Names that may be bound to a mutable container, and why."""

CONTAINERS = frozenset(
    [
        "list",
        "dict",
        "set",
        "bytearray",
        "deque",
        "defaultdict",
        "OrderedDict",
        "Counter",
        "ChainMap",
        "count",
        "Lock",
        "RLock",
        "Queue",
        "SimpleQueue",
        "WeakKeyDictionary",
        "WeakValueDictionary",
        "WeakSet",
    ]
)
DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
UNFINISHED = re.compile(r"#.*\b(TODO|FIXME|XXX|HACK)\b")


def probes(source: Path, allowed: Mapping[str, str]) -> list[str]:
    """hasattr, getattr with a default, and types compared by name, outside `allowed` files.

    Only the rooms that hold foreign objects may be allowed. Unneeded entries are complaints.
    """
    found: dict[str, list[str]] = {}
    for module in modules(source):
        for node in ast.walk(module.tree):
            if what := _probe(node):
                found.setdefault(module.path, []).append(f"{module.path}:{node.lineno}: {what}")
    rooms = {module.path: module.room for module in modules(source)}
    complaints = [
        line
        for path, lines in found.items()
        if path not in allowed or rooms[path] not in PROBING_ROOMS
        for line in lines
    ]
    return complaints + [f"{path}: needs no exception" for path in allowed if path not in found]


def _probe(node: ast.AST) -> str | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "hasattr":
            return "asks with hasattr"
        if node.func.id == "getattr" and len(node.args) == 3:
            return "asks with getattr and a default"
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        if any(isinstance(side, ast.Attribute) and side.attr == "__name__" for side in sides):
            return "compares a type by its name"
    return None


def swallowed(source: Path, allowed: Mapping[str, str]) -> list[str]:
    """Handlers that catch everything and do not end in a raise, outside `allowed` functions."""
    found: dict[str, str] = {}
    for module in modules(source):
        for name, handler in _handlers(module.tree):
            if _broad(handler) and not isinstance(handler.body[-1], ast.Raise):
                key = f"{module.path}:{name}"
                found[key] = f"{key}:{handler.lineno}: catches everything and goes on"
    complaints = [text for key, text in found.items() if key not in allowed]
    return complaints + [f"{key}: needs no exception" for key in allowed if key not in found]


def _handlers(node: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.ExceptHandler]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ExceptHandler):
            yield inside, child
        name = f"{inside}.{child.name}".lstrip(".") if isinstance(child, SCOPES) else inside
        yield from _handlers(child, name)


def _broad(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or name_of(kind) in {"Exception", "BaseException"} for kind in kinds)


def mutable_state(source: Path, allowed: Mapping[str, str]) -> list[str]:
    """Mutable containers bound in a module or a class body, and `global` statements.

    A constant table is a tuple, a frozenset or a MappingProxyType.
    """
    found: dict[str, str] = {}
    complaints = []
    for module in modules(source):
        owners = [module.tree, *(n for _, n in scopes(module.tree) if isinstance(n, ast.ClassDef))]
        for node in (node for owner in owners for node in _outside_scopes(owner)):
            if isinstance(node, ast.Assign | ast.AnnAssign) and _mutable(node.value):
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                if name_of(target) == "__all__":
                    continue  # a list by custom
                key = f"{module.path}:{name_of(target)}"
                found[key] = f"{key}:{node.lineno}: holds mutable state"
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Global):
                complaints.append(f"{module.path}:{node.lineno}: rebinds a module's name")
    complaints += [text for key, text in found.items() if key not in allowed]
    return complaints + [f"{key}: needs no exception" for key in allowed if key not in found]


def _outside_scopes(owner: ast.AST) -> Iterator[ast.AST]:
    """What runs with the body of a module or class: all below it but other scopes."""
    for node in ast.iter_child_nodes(owner):
        if not isinstance(node, SCOPES):
            yield node
            yield from _outside_scopes(node)


def _mutable(value: ast.AST | None) -> bool:
    return isinstance(value, DISPLAYS) or (
        isinstance(value, ast.Call) and name_of(value.func) in CONTAINERS
    )


def accountants(source: Path) -> list[str]:
    """Every place but the first that adds up a `Memory`; fakes are not asked."""
    places = [
        f"{module.path}:{node.lineno}: accounts bytes a second time"
        for module in modules(source)
        if module.room not in {"contracts", "testing"}
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and name_of(node.func) == "Memory"
    ]
    return places[1:]


def unfinished(source: Path) -> list[str]:
    """Notes to come back, NotImplementedError, and bodies left empty outside protocols."""
    complaints = []
    for module in modules(source):
        for line, text in enumerate(module.text.splitlines(), 1):
            if UNFINISHED.search(text):
                complaints.append(f"{module.path}:{line}: a note to come back")
        complaints += [f"{module.path}:{line}: {what}" for line, what in _stubs(module)]
    return complaints


def _stubs(module: Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Raise):
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if name_of(raised) == "NotImplementedError":
                yield node.lineno, "raises NotImplementedError"
    excused = {
        id(part)
        for _, node in scopes(module.tree)
        if isinstance(node, ast.ClassDef) and any(map(_is_protocol, node.bases))
        for part in ast.walk(node)
    }
    for name, node in scopes(module.tree):
        if isinstance(node, FUNCTIONS) and id(node) not in excused and _empty(node):
            yield node.lineno, f"{name} has an empty body"


def _is_protocol(base: ast.expr) -> bool:
    return name_of(base.value if isinstance(base, ast.Subscript) else base) == "Protocol"


def _empty(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is only `...`; a docstring alone says that doing nothing is meant."""
    last = node.body[-1]
    declared = any(name_of(decorator) == "overload" for decorator in node.decorator_list)
    return isinstance(last, ast.Expr) and _is_ellipsis(last.value) and not declared


def _is_ellipsis(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis
