"""Which model names requests may use. Knows nothing of folders or downloads."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slipstream.contracts.errors import NotFound

SHOWN = 100  # characters of a stranger's name that an error repeats


class ServedNames:
    """`patterns` (where * matches anything) if given, else what `model_id` is commonly called.

    `primary` is what a request that names no model gets.
    """

    def __init__(self, model_id: str, patterns: Sequence[str] = ()) -> None:
        usual = (model_id, model_id.rstrip("/").rpartition("/")[2], "default", "default_model")
        self.listed = tuple(dict.fromkeys(patterns or usual))
        self.primary = next((name for name in self.listed if "*" not in name), model_id)
        self._matches = re.compile(
            "|".join(".*".join(map(re.escape, name.split("*"))) for name in self.listed), re.DOTALL
        ).fullmatch

    def resolve(self, name: str | None) -> str:
        """The name that the response carries. Raises NotFound with the list."""
        if name is None:
            return self.primary
        if not self._matches(name):
            shown = name if len(name) <= SHOWN else name[:SHOWN] + "..."
            raise NotFound(
                f"The model {shown!r} is not served here. Served: {', '.join(self.listed)}.",
                param="model",
                code="model_not_found",
            )
        return name
