"""The fake backend's prefix cache: what was kept, and the longest of it that a prompt begins with.

The plain twin of a real one: no bound, no bytes, every entry is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.contracts.row import RowSpec

Space = tuple[str, tuple[str, ...]]


class FakePrefixes:
    """States by the tokens that made them. With `snapshots` an entry serves only as a whole."""

    def __init__(self, *, snapshots: bool) -> None:
        self._snapshots = snapshots
        self._entries: dict[tuple[Space, tuple[int, ...]], tuple[int, ...]] = {}

    def keep(self, spec: RowSpec, ids: Sequence[int], states: Sequence[int]) -> None:
        """`states[n]` is the state after n of `ids`."""
        assert len(states) == len(ids) + 1
        self._entries[space(spec), tuple(ids)] = tuple(states)

    def find(self, spec: RowSpec) -> tuple[int, ...]:
        """The states of the longest known prefix of the prompt, which is never all of it."""
        ids = spec.prompt.ids[:-1]
        best: tuple[int, ...] = (0,)
        for (where, known), states in self._entries.items():
            if where != space(spec):
                continue
            common = alike(known, ids)
            if common >= len(best) and (common == len(known) or not self._snapshots):
                best = states[: common + 1]
        return best


def space(spec: RowSpec) -> Space:
    return spec.prompt.cache_salt, spec.prompt.needs.adapters


def alike(one: Sequence[int], two: Sequence[int]) -> int:
    """How many tokens both begin with."""
    pairs = zip(one, two, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(two)))
