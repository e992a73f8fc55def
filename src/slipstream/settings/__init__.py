"""One frozen Settings: every flag, its default, its help. The sole reader of flags and environment.

The command line is generated from the fields' metadata, and so are the docs' tables; a flag exists
nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from typing import Any

from slipstream.contracts.errors import UsageError
from slipstream.settings.answering import Answering
from slipstream.settings.environment import cache_home, environment_keys
from slipstream.settings.flag import Flag
from slipstream.settings.memory import Memory
from slipstream.settings.serving import Serving
from slipstream.settings.watching import LOG_LEVELS, Watching

__all__ = ("LOG_LEVELS", "Flag", "Settings", "cache_home", "environment_keys", "flags")


@dataclass(frozen=True, kw_only=True)
class Settings(Watching, Answering, Memory, Serving):  # the help shows the last one's flags first
    """What `slipstream serve` was told. `model` None is the starter.

    Raises UsageError, naming the flag, when a value cannot be meant.
    """

    def __post_init__(self) -> None:
        for name, flag in flags().items():
            check_range(name, flag, getattr(self, name))
        self.check_serving()
        self.check_memory()
        self.check_answering()

    @property
    def effectless(self) -> tuple[str, ...]:
        """The flags that were given and change nothing."""
        given = {f.name for f in fields(self) if getattr(self, f.name) != f.default}
        return tuple(
            flag.names[0] for name, flag in flags().items() if flag.effectless and name in given
        )


def check_range(name: str, flag: Flag, value: Any) -> None:
    """Raises UsageError for a number that is out of the flag's range, or not finite."""
    if value is None:
        return
    if flag.least is not None and not flag.least <= value < math.inf:
        raise UsageError(f"{flag.names[0]} must be at least {flag.least}.", param=name)
    if flag.above is not None and not flag.above < value < math.inf:
        raise UsageError(f"{flag.names[0]} must be greater than {flag.above}.", param=name)


def flags() -> Mapping[str, Flag]:
    """Field name -> Flag, in the order of the help."""
    described: tuple[Field[Any], ...] = fields(Settings)
    return {f.name: f.metadata["flag"] for f in described}
