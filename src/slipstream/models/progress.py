"""How long work says how far it is. Knows no terminal."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many items are done, and how many there are; 0 if unknown."""


def silent(what: str, done: int, total: int) -> None:
    """The Progress of a caller who does not want to know."""
