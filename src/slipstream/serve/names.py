"""Which model names requests may use, adapters' names behind a colon. Knows no folders."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from slipstream.contracts.errors import NotFound

SHOWN = 100  # characters of a stranger's name that an error repeats


class ServedNames:
    """`patterns` (where * matches anything) if given, else what `model_id` is commonly called.

    `primary` is what a request that names no model gets. `adapters` gives those mounted now; each
    makes name:adapter a name too.
    """

    def __init__(
        self,
        model_id: str,
        patterns: Sequence[str] = (),
        adapters: Callable[[], Collection[str]] = tuple,
    ) -> None:
        usual = (model_id, model_id.rstrip("/").rpartition("/")[2], "default", "default_model")
        self.listed = tuple(dict.fromkeys(patterns or usual))
        self.primary = next((name for name in self.listed if "*" not in name), model_id)
        self._adapters = adapters
        self._matches = re.compile(
            "|".join(".*".join(map(re.escape, name.split("*"))) for name in self.listed), re.DOTALL
        ).fullmatch

    def resolve(self, name: str | None) -> str:
        """The name that the response carries. Raises NotFound with the list."""
        if name is None:
            return self.primary
        if not self._matches(name) and self.adapter(name) is None:
            shown = name if len(name) <= SHOWN else name[:SHOWN] + "..."
            names = (*self.listed, *self.adapted)
            raise NotFound(
                f"The model {shown!r} is not served here. Served: {', '.join(names)}.",
                param="model",
                code="model_not_found",
            )
        return name

    def adapter(self, name: str | None) -> str | None:
        """The adapter that a model's name asks for."""
        model, colon, adapter = (name or "").rpartition(":")
        asked = colon and adapter in self._adapters() and self._matches(model)
        return adapter if asked else None

    @property
    def adapted(self) -> tuple[str, ...]:
        """A name for each adapter that is mounted."""
        return tuple(f"{self.primary}:{adapter}" for adapter in self._adapters())
