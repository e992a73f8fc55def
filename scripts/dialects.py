"""The page on tools and reasoning: what is promised by hand, the dialects from the code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slipstream.text.reasoning import DIALECTS
from slipstream.text.tools.families import FORMS, PLAIN
from slipstream.text.tools.syntax import Form, FreeText, Maybe, OneOf, Piece

HEAD = """# Tools and reasoning

Made from the code by `make docs`; edit `scripts/dialects.py` instead.

A model's way of calling tools and of marking its reasoning is found by what its chat template and
its tokenizer declare, never by its name.

## Calls

- Text before and between calls streams as it comes. A call's `arguments` stream in pieces that add
  up to one JSON object. White space around calls is dropped.
- JSON is read as models write it: Python's `True` and `None`, single quotes, lone backslashes and
  line breaks in strings, a comma too many. It always comes out as strict JSON.
- Values without quotes (Qwen3-Coder, GLM, MiniMax and the like) get the type that the tool's schema
  gives them; a value of no such type comes out as a string.
- A call that cannot be read comes out as text, and the calls beside it are calls. If pieces of it
  are out already, they stand, and its arguments are not whole.
- So it is with a call that `max_tokens` cuts off; `finish_reason` is `length` then. Else an answer
  with a call finishes as `tool_calls`.
- Where calls have no marker, a JSON object or a list is a call only as the whole answer, and only
  with the name of an offered tool.
- Stop strings do not look into calls or reasoning.

## What may be asked

- `tool_choice: "none"`: the tools are not offered to the model.
- `"auto"`: the model decides. A chat template that takes no tools refuses them: 400, `tools`.
- `"required"`, or naming a tool: a grammar makes the call, in the model's own form, so that every
  model can. The tools are offered where the template takes any.
- `allowed_tools`: the others are not offered.
- `parallel_tool_calls: false`: the answer ends with its first call, as it does with a named tool.
- `strict: true` in a tool: a grammar holds its calls to its schema, also with `"auto"`; text stays
  free.

Under `required`, for a named tool and where `strict`, the schema is kept as
[structured output](structured.md) keeps one. Between tags without quotes, of what a schema says of
a string only a list of values is kept. With tools, `response_format` holds for an answer that calls
none; other forms of output are refused beside tools.

## Forms of calls

The first row whose markers a template has counts, else the first whose markers are all tokens of
the vocabulary, else the last row.

| form | declared by | a call of `look` with `{"at": "sea", "days": 3}` |
|---|---|---|
"""
REASONING = """
## Reasoning

It comes out as `reasoning_content`, without its markers. A prompt that ends with the opening marker
opens it; else it begins where the marker stands at the start of the answer or of a line. One that
is cut off is all reasoning. Where output is bound to a form, the form holds behind the reasoning.

What is asked of it reaches the template by the template's own names: `reasoning_effort` also
switches `enable_thinking` or `thinking`, those two stand for one another, and so do
`thinking_budget`, `reasoning_budget` and `max_thinking_tokens`. What a template does not read is
declared in `slipstream.ignored`.

| begins | ends |
|---|---|
| `<\\|channel\\|>analysis<\\|message\\|>` | `<\\|end\\|>` |
"""
SAMPLE: Mapping[str, Any] = {
    "type": "object",
    "properties": {"at": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["at", "days"],
}
VALUES = {"string": "sea", "integer": "3", "object": '{"at": "sea", "days": 3}'}


def dialects_page() -> str:
    forms = "".join(_row(form) for form in (*FORMS, PLAIN))
    marks = "".join(f"| {_code(one.begin)} | {_code(one.end)} |\n" for one in DIALECTS)
    return HEAD + forms + REASONING + marks


def _row(form: Form) -> str:
    declared = " or ".join(" with ".join(map(_code, signs)) for signs in form.declared)
    call = "".join(_written(form.bound("look", SAMPLE)))
    begin, end = form.around
    return f"| {form.name} | {declared or 'nothing'} | {_code(begin + call + end)} |\n"


def _written(pieces: Any) -> Iterator[str]:
    for piece in pieces:
        yield from _piece(piece)


def _piece(piece: Piece) -> Iterator[str]:
    match piece:
        case str():
            yield piece
        case FreeText():
            yield VALUES["string"] + piece.end
        case OneOf():
            yield piece.texts[0]
        case Maybe():
            yield from _written(piece.pieces)
        case _:
            sample = VALUES[piece["type"]]
            yield f'"{sample}"' if piece["type"] == "string" else sample


def _code(text: str) -> str:
    """As code in a cell; a line break shows as a sign."""
    shown = text.replace("\n", "⏎").replace("|", "\\|")
    return f"`` {shown} ``" if "`" in shown else f"`{shown}`"
