"""Bytes promised to live rows, each at its full length. Belongs to the device thread.

Knows no places and no ranks: who asks first is up to the caller.
"""

from __future__ import annotations

from slipstream.contracts.errors import OverBudget

GB = 1 << 30


class Ledger:
    """A row is promised its bytes before it is made, and keeps them until it has ended."""

    def __init__(self) -> None:
        self._promises: dict[int, int] = {}

    @property
    def promised(self) -> int:
        return sum(self._promises.values())

    def fits(self, nbytes: int, budget: int) -> bool:
        """Whether `nbytes` more stay within `budget`; 0 is no bound.

        Raises OverBudget for what would not fit with nothing else promised: it must not wait."""
        if not budget:
            return True
        if nbytes > budget:
            raise OverBudget(
                f"The request may grow to {nbytes / GB:.3g} GB of memory, and all requests "
                f"together may hold {budget / GB:.3g} GB. Ask for fewer tokens (max_tokens), "
                "raise --kv-budget, or choose a smaller --kv-scheme.",
                param="max_tokens",
            )
        return self.promised + nbytes <= budget

    def reserve(self, key: int, nbytes: int) -> None:
        """Promises `nbytes` to the row `key`; once more changes nothing."""
        assert nbytes >= 0
        self._promises.setdefault(key, nbytes)

    def release(self, key: int) -> None:
        """Takes the promise back, if there is one."""
        self._promises.pop(key, None)
