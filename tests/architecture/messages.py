"""What the code says when something goes wrong, against the page that says what to do then."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from .source import PACKAGE

ANY = "…"  # stands for what a message fills in
KINDS = frozenset(
    {
        *("ModelError", "UsageError", "SlipstreamError", "Unavailable", "QueueFull", "NotFound"),
        *("Unauthorized", "WrongMethod", "TooLarge", "WrongMedia", "Fault", "ForwardFault"),
        *("Cancelled", "ByOperator", "OutOfTime"),
    }
)
LOUD = frozenset({"warning", "error"})
ROOMS_OF_OTHERS = ("bench", "testing")
ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
FEWEST = 8  # letters that make a message one: less is a cause handed on


def told(root: Path) -> set[str]:
    """The messages of errors and warnings that no field of a request is to blame for."""
    source = root / "src" / PACKAGE
    found: set[str] = set()
    for path in sorted(source.rglob("*.py")):
        if path.relative_to(source).parts[0] not in ROOMS_OF_OTHERS:
            for call in _calls(ast.parse(path.read_text("utf-8"))):
                found |= {text for argument in call.args[:2] for text in templates(argument)}
    return {text for text in found if len(re.findall(r"\w", text.replace(ANY, ""))) >= FEWEST}


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name(id=name) if name in KINDS:
                yield node
            case ast.Attribute(value=ast.Name(id="log"), attr=name) if name in LOUD:
                yield node


def templates(node: ast.expr) -> Iterator[str]:
    """The texts that an expression can be, with ANY for each part that is filled in."""
    match node:
        case ast.Constant(value=str(text)):
            yield re.sub(r"%(\.\w+)?[a-z]", ANY, text).replace("`", "")
        case ast.JoinedStr(values=parts):
            texts = [
                part.value if isinstance(part, ast.Constant) else ANY  # type: ignore[misc]
                for part in parts
            ]
            yield "".join(map(str, texts)).replace("`", "")
        case ast.IfExp(body=one, orelse=other):
            yield from templates(one)
            yield from templates(other)


def patterns(page: Path) -> list[str]:
    return ROW.findall(page.read_text("utf-8"))


def covers(pattern: str, text: str) -> bool:
    """Whether what `text` can become is what `pattern` says."""
    parts = [re.escape(part) for part in pattern.split(ANY)]
    return re.fullmatch(".*".join(parts), text, re.DOTALL) is not None


def unexplained(root: Path, page: Path) -> list[str]:
    known = patterns(page)
    return [
        f"{page.name}: {text!r} is not explained"
        for text in sorted(told(root))
        if not any(covers(pattern, text) for pattern in known)
    ]


def unsaid(root: Path, page: Path) -> list[str]:
    """Messages of the page that nothing in the code says any more."""
    every = [
        text
        for path in (root / "src" / PACKAGE).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.expr)
        for text in templates(node)
    ]
    return [
        f"{page.name}: nothing says {pattern!r}"
        for pattern in patterns(page)
        if not any(covers(pattern, text) for text in every)
    ]
