"""Stop strings: text goes in, text that can no longer be part of one comes out.

It does not know about tokens. Its slow twin is `str.find` over the whole text.
"""

from __future__ import annotations

from collections.abc import Sequence


class Stops:
    """Ends a text before the earliest place where one of `stops` begins, wherever it is cut.

    Holds back the longest tail that may still begin a stop string, and nothing more.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        assert all(stops), "an empty stop string would end every text at once"
        self._stops = tuple(stops)
        self._held = ""
        self.matched = False
        self.found = ""  # the stop string that ended the text, the shortest that begins there

    def push(self, text: str) -> str:
        """Safe text. Nothing once `matched`."""
        if self.matched or not self._stops:
            return "" if self.matched else text
        return self._release(self._held + text, final=False)

    def flush(self) -> str:
        """Ends the text: what was held back, up to a match if there is one in it."""
        return "" if self.matched else self._release(self._held, final=True)

    def end_with(self, name: str) -> None:
        """The text was ended by a token that does not show in it, and is called `name`."""
        if name in self._stops:
            self.found = name

    def _release(self, text: str, final: bool) -> str:
        places = ((at, len(stop), stop) for stop in self._stops if (at := text.find(stop)) >= 0)
        whole, _, stop = min(places, default=(len(text), 0, ""))
        partial = whole if final else self._first_partial(text, whole)
        # A stop that began earlier, and may still complete, would win over the one found.
        self.matched = whole < len(text) and partial >= whole
        if self.matched:
            self.found = stop
        self._held = "" if self.matched else text[partial:]
        return text[:partial]

    def _first_partial(self, text: str, end: int) -> int:
        """Where the earliest unfinished stop string before `end` begins, else `end`."""
        for stop in self._stops:
            at = text.find(stop[0], max(0, len(text) - len(stop) + 1), end)
            while at >= 0:
                if stop.startswith(text[at:]):
                    end = at
                    break
                at = text.find(stop[0], at + 1, end)
        return end
