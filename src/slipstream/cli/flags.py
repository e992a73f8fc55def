"""The flags of Settings as a command's parameters. A flag is written down in settings/ only."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Annotated, Any, Literal, get_type_hints

import typer

from slipstream.contracts.errors import UsageError
from slipstream.settings import Settings, flags
from slipstream.settings.flag import Flag

POSITIONAL = "positional_model"
COMMA_SEPARATED = frozenset({"allowed_origins"})


def command(run: Callable[[Settings], None], help: str) -> Callable[..., None]:
    """`run` as a command that takes MODEL and every flag. Raises UsageError as Settings does."""

    def taking_flags(**values: Any) -> None:
        run(settings(values))

    parameters = list(described())
    taking_flags.__doc__ = help
    taking_flags.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    taking_flags.__annotations__ = {p.name: p.annotation for p in parameters}
    return taking_flags


def settings(values: Mapping[str, Any]) -> Settings:
    """Settings of parsed `values`. Raises UsageError naming the flag."""
    given = dict(values)
    positional = given.pop(POSITIONAL)
    if positional is not None and given["model"] not in (None, positional):
        raise UsageError(
            f"Two models are named, {positional} and --model {given['model']}. Name one.",
            param="model",
        )
    given["model"] = given["model"] if positional is None else positional
    for name, described_flag in flags().items():
        if described_flag.many:
            items = given[name] or ()
            if name in COMMA_SEPARATED:
                items = [part.strip() for item in items for part in item.split(",")]
            given[name] = tuple(item for item in items if item)
    return Settings(**given)


def described() -> Iterator[inspect.Parameter]:
    """MODEL, then one option for each field of Settings."""
    argument = typer.Argument(metavar="MODEL", help="see --model", show_default=False)
    model = Annotated[str | None, argument]
    yield parameter(POSITIONAL, model, None)
    types = get_type_hints(Settings)
    for field in fields(Settings):
        flag: Flag = field.metadata["flag"]
        default = None if field.default is MISSING or flag.many else field.default
        option = typer.Option(
            *flag.names, metavar=flag.metavar, help=flag.help, case_sensitive=False
        )
        yield parameter(field.name, Annotated[kind(flag, types[field.name]), option], default)


def kind(flag: Flag, declared: Any) -> Any:
    if flag.choices:
        return Literal[flag.choices]
    return list[str] | None if flag.many else declared


def parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
