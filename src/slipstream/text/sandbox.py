"""Jinja for chat templates: Hugging Face's additions, inside limits on work and time.

It does not know messages. Counted: loop steps, calls, literals, and every text that grows by `+`,
`*`, `~`, capture, `replace`, `join`, padding or formatting. Not counted: time and copies inside one
built-in call over data that exists, such as `sort` or `split`; the sizes above bound them.
"""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from types import BuiltinMethodType
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, TemplateRuntimeError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.meta import find_undeclared_variables
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

ABSENT_FILTERS = ("wordwrap", "urlize", "xmlattr")  # no template needs what they can cost
ABSENT_METHODS = frozenset({"translate", "encode", "to_bytes"})
PADDING_FILTERS = ("center", "indent", "slice", "batch", "round")
PADDING_METHODS = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs"})
WIDEST = 10_000  # the most padding that one call may ask for
# Fields whose width is too large, or not to be seen here.
WIDE_PERCENT = re.compile(r"%[^a-zA-Z%]*(\d{5}|\*)")
WIDE_BRACES = re.compile(r"\{[^{}]*:[^{}]*(\d{5}|\{)")
LONGEST_INTEGER = 1 << 14  # bits


class Refused(TemplateError):
    """The template itself said no, by raise_exception."""


class TooCostly(TemplateRuntimeError):
    """The template did more than it may."""


class Budget:
    """What one rendering may still do: `units` of work (a character built, a loop step, a call),
    `largest` characters in one text, `seconds` of this thread's time."""

    def __init__(
        self,
        *,
        seconds: float = 2.0,
        units: int = 1 << 30,
        largest: int = 1 << 26,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._left = units
        self._largest = largest
        self._seconds = seconds
        self._clock = clock
        self._until = clock() + seconds

    def fits(self, size: int) -> None:
        """Raises TooCostly when nothing may be as large as `size`."""
        if size > self._largest:
            raise TooCostly(f"it builds more than {self._largest} characters in one piece")

    def spend(self, size: int) -> None:
        """Raises TooCostly when `size` is too large, or there is no work or time left for it."""
        self.fits(size)
        self._left -= size
        if self._left < 0:
            raise TooCostly("it does too much work")
        if self._clock() > self._until:
            raise TooCostly(f"it takes more than {self._seconds:g} seconds")


class Generation(Extension):
    """`{% generation %}` marks what the model wrote. It matters in training only."""

    tags = {"generation"}  # noqa: RUF012  (a set by the base class's declaration)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class Metered(NodeTransformer):
    """Makes what Jinja does on its own (loops, literals, `~`) calls of the sandbox."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(_call("tick", [], node), lineno=node.lineno))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _call("joined", node.nodes, node)

    def visit_List(self, node: nodes.List) -> nodes.Node:
        self.generic_visit(node)
        return node if _constant(node.items) else _call("weighed", [node], node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        target = node.ctx != "load"  # `for a, b in ...`
        return node if target or _constant(node.items) else _call("weighed", [node], node)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        return _call("weighed", [node], node) if node.items else node


def _constant(items: Iterable[nodes.Expr]) -> bool:
    return all(isinstance(item, nodes.Const) for item in items)


def _call(method: str, arguments: list[nodes.Expr], place: nodes.Node) -> nodes.Expr:
    attribute = nodes.EnvironmentAttribute(method, lineno=place.lineno)
    return nodes.Call(attribute, arguments, [], None, None, lineno=place.lineno)


class Quiet(Namespace):
    """Jinja's namespace, which does not print what it holds."""

    def __repr__(self) -> str:
        return "<namespace>"


def raise_exception(message: str) -> NoReturn:
    raise Refused(message)


class Sandbox(ImmutableSandboxedEnvironment):
    """Compiles templates, and runs each within its own Budget. Several threads may render."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        extensions = [Generation, loopcontrols]
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
        self._budget: ContextVar[Budget] = ContextVar("budget")
        del self.globals["lipsum"]
        self.globals |= {
            "raise_exception": raise_exception,
            "namespace": Quiet,
            "dict": self._dict,
        }
        for name in ABSENT_FILTERS:
            del self.filters[name]
        for name in PADDING_FILTERS:
            self.filters[name] = self._padding(self.filters[name])
        self.filters |= {
            "tojson": self._tojson,
            "join": self._join,
            "replace": self._replace,
            "format": self._format,
        }

    def compiled(self, source: str) -> Template:
        """Raises jinja2.TemplateSyntaxError."""
        tree = Metered().visit(self.parse(source))
        tree.set_environment(self)
        return self.from_string(tree)

    def undeclared(self, source: str) -> set[str]:
        """The names that `source` reads and does not set itself."""
        return find_undeclared_variables(self.parse(source))

    def render(self, template: Template, variables: Mapping[str, Any], budget: Budget) -> str:
        """Raises Refused, TooCostly, and whatever else a template can fail with."""
        with self._spending(budget):
            return self.concat(template.generate(variables))

    @contextmanager
    def _spending(self, budget: Budget) -> Iterator[None]:
        token = self._budget.set(budget)
        try:
            yield
        finally:
            self._budget.reset(token)

    def spend(self, size: int) -> None:
        self._budget.get().spend(size)

    def tick(self) -> None:
        """A loop step. Calling it is what counts it."""

    def weighed(self, value: Any) -> Any:
        """`value`, after counting all that is in it: a literal may hold one thing many times."""
        self._weigh(value)
        return value

    def _weigh(self, value: Any) -> int:
        total = 0
        waiting = [value]
        while waiting:
            item = waiting.pop()
            total += len(item) if isinstance(item, (str, list, tuple, dict)) else 1
            self.spend(1)
            if isinstance(item, dict):
                waiting += [*item.keys(), *item.values()]
            elif isinstance(item, (list, tuple)):
                waiting += item
        self.spend(total)
        return total

    def concat(self, parts: Iterable[str]) -> str:
        """How Jinja puts together what a template, a macro or a captured block printed.

        Counts while it collects, so that too much output ends before it is built."""
        budget = self._budget.get()
        kept = []
        total = 0
        for part in parts:
            total += len(part)
            budget.spend(len(part) + 1)
            budget.fits(total)
            kept.append(part)
        return "".join(kept)

    def joined(self, *parts: object) -> str:
        return self.concat(str(part) for part in parts)

    def call(  # the names are Jinja's, so that a template may use any keyword
        __self,
        __context: Context,
        __obj: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        __self.spend(1)
        if isinstance(__obj, BuiltinMethodType):
            __obj = __self._method(__obj)
        return super().call(__context, __obj, *args, **kwargs)

    def _method(self, method: BuiltinMethodType) -> Callable[..., Any]:
        """A method of the data; a metered one where it may return far more than it was given."""
        name, owner = method.__name__, method.__self__
        if name in ABSENT_METHODS:
            raise TooCostly(f"it calls {name}")
        if not isinstance(owner, str):
            return method
        if name == "replace":
            return functools.partial(self._replace, owner)
        if name == "join":
            return functools.partial(self._join, d=owner)
        if name in PADDING_METHODS:
            return functools.partial(self._padding(getattr(str, name)), owner)
        return method

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(right, int):
            self._count(operator, left, right)
        elif operator == "*":
            times = left if isinstance(left, int) else right
            if isinstance(times, int):
                self.spend(self._weigh(right if times is left else left) * max(0, times))
        elif operator == "%" and isinstance(left, str):
            self._check_format(WIDE_PERCENT, left, right)
        elif isinstance(left, (str, list, tuple)) and isinstance(right, (str, list, tuple)):
            self.spend(len(left) + len(right))
        return super().call_binop(context, operator, left, right)

    def _count(self, operator: str, left: int, right: int) -> None:
        bits = left.bit_length()
        if operator == "**":
            bits *= abs(right)
        elif operator == "*":
            bits += right.bit_length()
        if bits > LONGEST_INTEGER:
            raise TooCostly("it computes a number that is too long")

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        text: str = value.__self__

        def metered(*args: Any, **kwargs: Any) -> str:
            self._check_format(WIDE_BRACES, text, [args, kwargs])
            return wrapped(*args, **kwargs)

        return metered

    def _check_format(self, wide: re.Pattern[str], text: str, values: Any) -> None:
        if wide.search(text):
            raise TooCostly("it formats with a width that is too large")
        fields = text.count("{") + text.count("%")
        self.spend(len(text) + self._weigh(values) * max(1, fields))

    def _format(self, value: Any, *args: Any, **kwargs: Any) -> str:
        self._check_format(WIDE_PERCENT, str(value), [args, kwargs])
        return str(value) % (kwargs or args)

    def _pad(self, value: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> None:
        wide = max((_width(given) for given in (*args, *kwargs.values())), default=0)
        if wide > WIDEST:
            raise TooCostly(f"it pads by more than {WIDEST}")
        lines = value.count("\n") + value.count("\t") if isinstance(value, str) else 0
        self.spend((lines + 1) * wide)

    def _padding(self, wrapped: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(wrapped)  # keeps Jinja's marks on it
        def metered(*args: Any, **kwargs: Any) -> Any:
            value, *rest = args[1:] if isinstance(args[0], nodes.EvalContext) else args
            self._pad(value, rest, kwargs)
            return wrapped(*args, **kwargs)

        return metered

    def _replace(self, value: Any, old: Any, new: Any, count: int | None = None) -> str:
        text, old, new = str(value), str(old), str(new)
        times = -1 if count is None else count
        found = text.count(old)
        self.spend(len(text) + (found if times < 0 else min(found, times)) * len(new))
        return text.replace(old, new, times)

    def _join(self, value: Iterable[Any], d: Any = "", attribute: Any = None) -> str:
        if attribute is not None:
            value = (self.getitem(item, attribute) for item in value)
        between = str(d)
        pieces = (str(item) for item in value)
        first = next(pieces, "")
        return self.concat(chain((first,), (between + piece for piece in pieces)))

    def _dict(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        made: dict[Any, Any] = self.weighed(dict(*args, **kwargs))
        return made

    def _tojson(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | str | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """Plain JSON, where Jinja's own escapes for HTML."""
        between = sum(map(len, separators or ()))
        self.spend(self._weigh(value) * (1 + _width(indent) + between))
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )


def _width(given: object) -> int:
    return given if isinstance(given, int) else len(given) if isinstance(given, str) else 0
