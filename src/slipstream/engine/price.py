"""What a prompt token costs, in seconds on top of a step, learned from the time forwards took.

Believes bad news sooner than good: attention makes each chunk of a long prompt dearer.
"""

from __future__ import annotations

SMOOTHING = 0.3  # weight of the newest step that fills nothing
BETTER_KEEPS = 0.7  # of what was known before a forward that was cheaper per token
WORSE_KEEPS = 0.1  # and before one that was dearer
GROWTH = 2  # times the largest fill that was measured may be tried


class Price:
    """A ratio of fading sums, so that a small fill, whose time is mostly noise, weighs little."""

    def __init__(self) -> None:
        self._step = 0.0  # seconds of a forward in which no row fills
        self._tokens = 0.0
        self._seconds = 0.0  # that those tokens took
        self._largest = 0

    def measure(self, filled: int, seconds: float) -> None:
        """A forward took `seconds`, and `filled` tokens beyond one per row were in it."""
        if filled == 0:
            known = self._step or seconds
            self._step = known + SMOOTHING * (seconds - known)
            return
        spent = max(0.0, seconds - self._step)
        dearer = spent * self._tokens > self._seconds * filled
        kept = WORSE_KEEPS if dearer else BETTER_KEEPS
        self._tokens = kept * self._tokens + filled
        self._seconds = kept * self._seconds + spent
        self._largest = max(self._largest, filled)

    def fitting(self, gap: float) -> int:
        """Most prompt tokens whose forward should stay within `gap` seconds, never far more than
        were tried before. 0 while nothing is known, or when nothing fits."""
        most, room = GROWTH * self._largest, max(0.0, gap - self._step)
        if most * self._seconds <= room * self._tokens:
            return most
        return int(room * self._tokens / self._seconds)
