"""How a setting is spelled on the command line: what a field's metadata says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Flag:
    """`many`: repeatable, collects a tuple.

    `effectless`: taken so that a command line for mlx_lm.server starts, and changes nothing.
    `least` and `above` bound a number."""

    names: tuple[str, ...]
    help: str
    metavar: str | None = None
    many: bool = False
    choices: tuple[str, ...] = ()
    effectless: bool = False
    least: int | None = None
    above: int | None = None


def flag(
    *names: str,
    default: Any,
    help: str,
    metavar: str | None = None,
    many: bool = False,
    choices: Sequence[str] = (),
    effectless: bool = False,
    least: int | None = None,
    above: int | None = None,
) -> Any:
    """A dataclass field of Settings."""
    meta = {"flag": Flag(names, help, metavar, many, tuple(choices), effectless, least, above)}
    return field(default=default, metadata=meta)
