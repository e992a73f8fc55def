"""Who may import whom. Imports inside functions and under TYPE_CHECKING count like any other."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from .source import PACKAGE, Module, modules, name_of

CORE = ("contracts", "settings", "engine", "text", "models", "backends.mlx", "library")

ROOMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "contracts": (),
        "settings": ("contracts",),
        "engine": ("contracts",),
        "text": ("contracts",),
        "models": ("contracts",),
        "backends": (),
        "backends.mlx": ("contracts",),
        "testing": ("contracts",),
        "serve": ("contracts", "engine", "text", "settings"),
        "library": ("contracts", "settings", "engine", "text", "models", "backends.mlx"),
        "slipstream": ("contracts", "settings", "library"),
        "bench": (*CORE, "slipstream"),
        "cli": (*CORE, "slipstream", "serve", "bench", "testing"),
    }
)
"""Room -> the other rooms that it may import."""

STANDARD_ONLY = frozenset({"contracts", "settings", "engine"})

HOMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "mlx": ("backends.mlx",),
        "mlx_lm": ("backends.mlx",),
        "starlette": ("serve",),
        "uvicorn": ("serve",),
        "prometheus_client": ("serve",),
        "opentelemetry": ("serve",),
        "tokenizers": ("text",),
        "jinja2": ("text",),
        "gguf": ("models",),
        "huggingface_hub": ("models",),
        "typer": ("cli",),
        "transformers": (),
    }
)
"""A library -> the rooms that may import it. Others are free outside STANDARD_ONLY."""

ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"})


def imported(module: Module) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of all that a module imports; `from a import b` gives a.b."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [node.module] if node.module else []
            if node.level:
                start = module.imports_from
                base = start[: len(start) - node.level + 1] + base
            yield from ((node.lineno, ".".join([*base, alias.name])) for alias in node.names)
        elif isinstance(node, ast.Call) and name_of(node.func) in {"import_module", "__import__"}:
            target = node.args[0] if node.args else None
            if isinstance(target, ast.Constant) and isinstance(target.value, str):
                yield node.lineno, target.value
            elif module.room != "backends.mlx":
                yield node.lineno, "a computed name"


def wrong_rooms(source: Path) -> list[str]:
    """Imports between rooms that the data flow does not know."""
    known = {module.name: module for module in modules(source)}
    complaints = []
    for module in known.values():
        if module.room not in ROOMS:
            complaints.append(f"{module.path}: {module.room} is no room of this house")
            continue
        for line, name in imported(module):
            target = _own(name, known)
            if target is None or target.room == module.room:
                continue
            if target.room not in ROOMS[module.room]:
                complaints.append(f"{module.path}:{line}: {module.room} imports {target.room}")
    return complaints


def wrong_libraries(source: Path, standard: frozenset[str]) -> list[str]:
    """Libraries outside their home. `standard` holds the standard library's names."""
    complaints = []
    for module in modules(source):
        for line, name in imported(module):
            top = name.split(".")[0]
            if top == PACKAGE or top in standard:
                continue
            strict = module.room in STANDARD_ONLY
            if strict or module.room not in HOMES.get(top, (module.room,)) or " " in top:
                complaints.append(f"{module.path}:{line}: {module.room} imports {top}")
    return complaints


def environment_readers(source: Path) -> list[str]:
    """Uses of the process environment outside settings/environment.py."""
    complaints = []
    for module in modules(source):
        if module.path == "settings/environment.py":
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT:
                used = name_of(node.value) == "os"
            elif isinstance(node, ast.ImportFrom) and node.module == "os":
                used = any(alias.name in ENVIRONMENT for alias in node.names)
            else:
                continue
            if used:
                complaints.append(f"{module.path}:{node.lineno}: reads the environment")
    return complaints


def cycles(source: Path) -> list[str]:
    """Modules that reach themselves through imports, one complaint for each knot of them."""
    known = {module.name: module for module in modules(source)}
    graph = {
        name: {t.name for _, n in imported(module) if (t := _own(n, known))} - {name}
        for name, module in known.items()
    }
    reach = {name: _reachable(name, graph) for name in graph}
    knots = {
        frozenset(other for other in reach[name] if name in reach[other])
        for name in graph
        if name in reach[name]
    }
    return sorted(f"a cycle of imports: {', '.join(sorted(knot))}" for knot in knots)


def _own(name: str, known: Mapping[str, Module]) -> Module | None:
    """The module of ours that an imported name lives in: the name itself, or what holds it."""
    return known.get(name) or known.get(name.rpartition(".")[0])


def _reachable(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph[name]
    return seen
