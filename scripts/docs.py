"""Writes the pages that the code dictates. `--check` only says whether they are as written."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path

import msgspec
from dialects import dialects_page
from lanes import lanes_page

from slipstream.serve.anthropic.messages import NEVER as MESSAGES_REFUSE
from slipstream.serve.anthropic.messages import MessagesRequest
from slipstream.serve.embeddings import NEVER as EMBEDDINGS_REFUSE
from slipstream.serve.embeddings import EmbeddingsRequest
from slipstream.serve.fields import NEVER, NOT_YET
from slipstream.serve.openai.chat import ChatRequest
from slipstream.serve.openai.completions import TextRequest
from slipstream.serve.responses.request import REFUSED, ResponsesRequest
from slipstream.settings import Settings, flags
from slipstream.settings.flag import Flag

ROOT = Path(__file__).resolve().parent.parent
FLAGS_HEAD = """# Flags of `slipstream serve`

Made from the code by `make docs`; edit `settings/` instead.

| flag | default | meaning |
|---|---|---|
"""
FIELDS_HEAD = """# Fields of the routes

Made from the code by `make docs`; edit `serve/fields.py` instead. A field without a note is
applied. A field that is not here changes nothing: it is listed in `slipstream.ignored`, or refused
with `--strict`.

| field | chat | completions | responses | messages | embeddings | note |
|---|---|---|---|---|---|---|
"""


REFUSALS = {
    "chat and completions": NEVER,
    "responses": REFUSED,
    "messages": MESSAGES_REFUSE,
    "embeddings": EMBEDDINGS_REFUSE,
}


def flags_page() -> str:
    defaults = {field.name: field.default for field in fields(Settings)}
    return FLAGS_HEAD + "".join(
        f"| {_spelling(flag)} | {_default(defaults[name])} | {_meaning(flag)} |\n"
        for name, flag in flags().items()
    )


def _spelling(flag: Flag) -> str:
    value = f" {flag.metavar}" if flag.metavar else ""
    return ", ".join(f"`{name}{value}`" for name in flag.names)


def _default(value: object) -> str:
    if value is MISSING or value is None or value == ():
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _meaning(flag: Flag) -> str:
    choices = f" (one of {', '.join(flag.choices)})" if flag.choices else ""
    return (flag.help + choices).replace("|", "\\|")


def fields_page() -> str:
    kinds = (ChatRequest, TextRequest, ResponsesRequest, MessagesRequest, EmbeddingsRequest)
    taken = [{field.encode_name for field in msgspec.structs.fields(kind)} for kind in kinds]
    taken[2] -= REFUSED.keys()
    names = sorted(set().union(*taken, *REFUSALS.values()))
    return FIELDS_HEAD + "".join(
        f"| `{name}` | {' | '.join(_yes(name in route) for route in taken)} | {_note(name)} |\n"
        for name in names
    )


def _yes(here: bool) -> str:
    return "yes" if here else ""


def _note(field: str) -> str:
    if field in NOT_YET:
        return f"refused for now: {NOT_YET[field]}"
    notes = (
        f"{routes} refuse it: {table[field]}"
        for routes, table in REFUSALS.items()
        if field in table
    )
    return "; ".join(notes)


def written() -> Iterator[tuple[str, str]]:
    """(path under docs/, text) of every generated page."""
    yield "reference/flags.md", flags_page()
    yield "reference/fields.md", fields_page()
    yield "reference/lanes.md", lanes_page()
    yield "reference/tools.md", dialects_page()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 when a page is old")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="the folder of the pages")
    options = parser.parse_args(arguments)

    old = [
        (options.docs / path, text)
        for path, text in written()
        if not (page := options.docs / path).is_file() or page.read_text("utf-8") != text
    ]
    for page, text in old:
        print(f"{page.name}: {'is old' if options.check else 'written'}")
        if not options.check:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, "utf-8")
    return 1 if old and options.check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
