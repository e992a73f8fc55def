"""Keys from a terminal as they are pressed, by name."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

ARROWS = (("\x1b[A", "up"), ("\x1bOA", "up"), ("\x1b[B", "down"), ("\x1bOB", "down"))
LONGEST = 32  # bytes of one read


class Keys:
    """Reads a terminal that is in raw mode."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def next(self, seconds: float) -> list[str]:
        """The keys that come within `seconds`, as soon as there are any; the end is a q."""
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        if not ready:
            return []
        typed = os.read(self._descriptor, LONGEST)
        return named(typed.decode("utf-8", "ignore")) if typed else ["q"]


def named(typed: str) -> list[str]:
    """The names of the keys in `typed`. Ctrl-C and Ctrl-D are a q."""
    found = []
    while typed:
        code, name = next((one for one in ARROWS if typed.startswith(one[0])), (typed[0], typed[0]))
        found.append("q" if name in "\x03\x04" else name)
        typed = typed[len(code) :]
    return found


@contextmanager
def raw() -> Iterator[Keys]:
    """Keys of stdin, which is as before at the end."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield Keys(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
