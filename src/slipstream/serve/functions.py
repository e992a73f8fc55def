"""What every API asks of a function: a name of its own, and an object to take."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any

from slipstream.contracts.errors import InvalidRequest

NAME = re.compile(r"[\w.:/-]{1,128}", re.ASCII)


def check_function(
    name: str, parameters: Mapping[str, Any] | None, seen: Container[str], where: str
) -> None:
    """Raises InvalidRequest naming the part of the function at `where` that is wrong. `seen` are
    the names of those before it."""
    if not NAME.fullmatch(name):
        raise InvalidRequest(
            f"{where}.name is {name[:60]!r}; 1 to 128 letters, digits and _ - . : / make a name.",
            param=f"{where}.name",
        )
    if name in seen:
        raise InvalidRequest(f"{where}.name: there are two {name}.", param=f"{where}.name")
    if (parameters or {}).get("type", "object") != "object":
        raise InvalidRequest(
            f"{where}.parameters must be the schema of an object.", param=f"{where}.parameters"
        )
