"""What texts and prompts have in common: one function that every layer needs."""

from __future__ import annotations

from collections.abc import Sequence


def shared(one: Sequence[object], two: Sequence[object]) -> int:
    """How many items two sequences of one kind begin with alike.

    Slices are compared, halving what is left, so the work is done where slices are compared."""
    low, high = 0, min(len(one), len(two))
    if one[:high] == two[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
