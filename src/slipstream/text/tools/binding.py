"""The grammar of an answer that must call tools, or whose calls must keep their schemas.

It does not compile it, and does not know who asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from slipstream.contracts.completion import Completion, GrammarText, ToolMode
from slipstream.contracts.errors import InvalidRequest
from slipstream.text.grammar_source import CALLS_KIND, JSON_STYLE, check_schema
from slipstream.text.tools.syntax import Form, FreeText, Maybe, OneOf, Piece, Syntax

MOST_CALLS = 32  # in one answer that is bound
ANY_ARGUMENTS: Mapping[str, Any] = MappingProxyType({"type": "object"})
TEXT = r"/(.|\n)*/"
NO_CALL = r"/[^{[\s](.|\n)*/"  # where calls have no marker, text begins like none


def binding(completion: Completion, form: Form, special: Mapping[str, int]) -> GrammarText | None:
    """The grammar of the whole answer, or None where it is free. `special`: the ids of the form's
    markers that are special tokens. Raises InvalidRequest where two forms exclude each other."""
    choice = completion.tool_choice
    tools = [tool["function"] for tool in completion.tools]
    if not tools or choice.mode is ToolMode.NONE:
        return completion.grammar
    must = choice.mode in (ToolMode.REQUIRED, ToolMode.NAMED)
    if must and completion.grammar is not None:
        raise InvalidRequest(
            f"{completion.grammar.param} cannot be joined with a tool_choice that demands a call.",
            param=completion.grammar.param,
        )
    if choice.mode is ToolMode.NAMED:
        tools = [tool for tool in tools if tool["name"] == choice.name]
    if not must and completion.grammar is None and not any(tool.get("strict") for tool in tools):
        return None
    writer = Writer(form, special, single=form.alone or not choice.parallel)
    if must:
        start = writer.calls(tools, checked=True)
    elif completion.grammar is None:
        start = writer.among_text(tools)
    else:
        start = writer.or_answer(tools, completion.grammar)
    return GrammarText(CALLS_KIND, writer.text(start), "tool_choice" if must else "tools")


class Writer:
    """Writes Lark, rule by rule; JSON Schemas stand in it as %json. `single`: one call at most."""

    def __init__(self, form: Form, special: Mapping[str, int], *, single: bool) -> None:
        self._form = form
        self._special = special
        self._single = single
        signs = sorted(special, key=len, reverse=True)
        self._split = re.compile(f"({'|'.join(map(re.escape, signs))})" if signs else "(?!)")
        self._rules: list[str] = []

    def text(self, start: str) -> str:
        return "\n".join([f"start: {start}", *self._rules])

    def calls(
        self, tools: Sequence[Mapping[str, Any]], *, checked: bool = False, cut: str = ""
    ) -> str:
        """The rule for one call or several, without `cut`, with which every one begins. Tools that
        are not `strict` may be given any arguments, unless all are `checked`."""
        before, after = self._form.around
        first = self._call(tools, checked, "" if before else cut)
        parts = [*self._tokens(before.removeprefix(cut)), first]
        if not self._single and (before or not cut):
            call = self._call(tools, checked, "") if cut else first
            between = " ".join(self._tokens(self._form.between))
            parts.append(f"({between} {call}){{0,{MOST_CALLS - 1}}}")
        return self._rule(" ".join([*parts, *self._tokens(after)]))

    def or_answer(self, tools: Sequence[Mapping[str, Any]], grammar: GrammarText) -> str:
        """Calls, or an answer in the form of `grammar`, which must be JSON."""
        if grammar.kind == "json_schema":
            check(grammar.text, grammar.param, "It")
            schema = json.loads(grammar.text)
        elif grammar.kind == "json_object":
            schema = ANY_ARGUMENTS
        else:
            raise InvalidRequest(
                f"{grammar.param} cannot be joined with tools; response_format can.",
                param=grammar.param,
            )
        if self._form.key:  # all is JSON, and only within one schema both can begin alike
            calls = [self._object(tool) for tool in tools]
            whole = [moved(one, f"/anyOf/{n}") for n, one in enumerate([*calls, schema])]
            return self._rule(self._json({"anyOf": whole}))
        final = " ".join(self._tokens(self._form.final))
        return f"{self.calls(tools)} | {self._rule(f'{final} {self._json(schema)}')}"

    def _object(self, tool: Mapping[str, Any]) -> Mapping[str, Any]:
        """The schema of a call that is all JSON."""
        key = self._form.key
        arguments = moved(self._schema(tool, checked=False), f"/properties/{key}")
        return {
            "type": "object",
            "properties": {"name": {"const": tool["name"]}, key: arguments},
            "required": ["name", key],
            "additionalProperties": False,
        }

    def among_text(self, tools: Sequence[Mapping[str, Any]]) -> str:
        """Text with any number of calls in it; where calls have no marker, text or calls."""
        form = self._form
        openers = (*form.openers, *form.noise) if isinstance(form, Syntax) else ()
        sample = form.around[0] or form.bound("f", {})[0]
        trigger = next((one for one in openers if str(sample).startswith(one)), "")
        if not trigger:
            final = " ".join(self._tokens(form.final))
            prose = self._rule(f"{final} {TEXT if form.final else NO_CALL}")
            return f"{self.calls(tools)} | {prose}"
        calls = f"{self._free(trigger)} {self.calls(tools, cut=trigger)}"
        text = self._rule(TEXT)
        return f"{calls} | {text}" if self._single else f"({calls})* {text}"

    def _call(self, tools: Sequence[Mapping[str, Any]], checked: bool, cut: str) -> str:
        return self._rule(" | ".join(self._one(tool, checked, cut) for tool in tools))

    def _one(self, tool: Mapping[str, Any], checked: bool, cut: str) -> str:
        pieces = list(self._form.bound(tool["name"], self._schema(tool, checked)))
        assert isinstance(pieces[0], str)
        pieces[0] = pieces[0].removeprefix(cut)
        return self._rule(self._sequence(pieces))

    def _schema(self, tool: Mapping[str, Any], checked: bool) -> Mapping[str, Any]:
        schema: Mapping[str, Any] | None = tool.get("parameters")
        if not schema or not (checked or tool.get("strict")):
            return ANY_ARGUMENTS
        check(json.dumps(schema), "tools", f"The schema of tool {tool['name']}")
        return schema

    def _rule(self, body: str, *, lazy: bool = False) -> str:
        name = f"r{len(self._rules)}"
        self._rules.append(f"{name}{'[lazy]' if lazy else ''}: {body}")
        return name

    def _sequence(self, pieces: Sequence[Piece]) -> str:
        return " ".join(filter(None, map(self._piece, pieces)))

    def _piece(self, piece: Piece) -> str:
        match piece:
            case str():
                return " ".join(self._tokens(piece))
            case FreeText():
                return self._free(piece.end)
            case OneOf():
                return f"({' | '.join(map(json.dumps, piece.texts))})"
            case Maybe():
                return f"({self._sequence(piece.pieces)})?"
        return self._rule(self._json(piece))

    def _json(self, schema: Mapping[str, Any]) -> str:
        styled = {**schema, "x-guidance": dict(JSON_STYLE)}
        return f"%json {json.dumps(styled, ensure_ascii=False)}"

    def _free(self, end: str) -> str:
        """Any text through the first `end`. A special token cannot be part of the text, so there
        nothing has to be looked for."""
        tokens = list(self._tokens(end))
        at = next((n for n, token in enumerate(tokens) if token.startswith("<[")), None)
        if at is None:
            return self._rule(f"{TEXT} {json.dumps(end)}", lazy=True)
        return " ".join([self._rule(TEXT), *tokens[at:]])

    def _tokens(self, text: str) -> Iterator[str]:
        """`text` as literals and special tokens."""
        for part in filter(None, self._split.split(text)):
            yield f"<[{self._special[part]}]>" if part in self._special else json.dumps(part)


def check(schema: str, param: str, what: str) -> None:
    """Raises InvalidRequest where a schema cannot be kept."""
    try:
        check_schema(schema)
    except InvalidRequest as error:
        raise InvalidRequest(f"{what} cannot be kept: {error.message}.", param=param) from error


def moved(schema: Any, path: str) -> Any:
    """`schema` as it says the same at `path` of a larger one."""
    if isinstance(schema, list):
        return [moved(part, path) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {name: moved(part, path) for name, part in schema.items()}
    if isinstance(pointer := schema.get("$ref"), str) and pointer.startswith("#"):
        made["$ref"] = f"#{path}{pointer[1:]}"
    return made
