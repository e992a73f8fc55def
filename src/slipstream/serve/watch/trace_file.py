"""Traces as a file that Perfetto and Chrome open: the JSON form of trace events.

The file is a whole JSON array after every write, so that a crash leaves it readable.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from slipstream.contracts.clock import Clock
from slipstream.contracts.trace import Hop, RequestTrace

log = logging.getLogger(__name__)
HEAD = b'{"ph":"M","pid":1,"name":"process_name","args":{"name":"slipstream"}}'
END = b"\n]\n"
Event = Mapping[str, Any]


class TraceFile:
    """A Tracer. Raises OSError when the file cannot be made; later errors end it with a warning."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = path.open("wb", buffering=0)
        self._file.write(b"[\n" + HEAD + END)
        self._offset = time.time() - clock.now()  # viewers show the time of day
        self._numbers = itertools.count(1)

    def record(self, trace: RequestTrace) -> None:
        if self._file.closed:
            return
        found = b"".join(b",\n" + line(one) for one in self._events(trace))
        try:
            self._file.seek(-len(END), os.SEEK_END)
            self._file.write(found + END)
        except OSError as error:
            log.warning("the trace file ends: %s", error)
            self.close()

    def close(self) -> None:
        self._file.close()

    def _events(self, trace: RequestTrace) -> Iterator[Event]:
        """Each request has tracks of its own, named by number: the first for itself and the hops
        that follow each other, more for those that overlap."""
        number = next(self._numbers)
        root = Hop(trace.name, trace.start, trace.end)
        told = {**trace.attributes, "traceparent": trace.traceparent, "error": trace.error}
        yield self._event("b", root.name, root.start, f"{number}", told)
        for track, hops in enumerate(tracks(trace.hops)):
            name = f"{number}.{track}" if track else f"{number}"
            for hop in hops:
                yield self._event("b", hop.name, hop.start, name)
                yield self._event("e", hop.name, hop.end, name)
        for moment in trace.moments:
            yield self._event("n", moment.name, moment.at, f"{number}", moment.attributes)
        yield self._event("e", root.name, root.end, f"{number}")

    def _event(
        self, kind: str, name: str, at: float, track: str, args: Mapping[str, Any] | None = None
    ) -> Event:
        return {
            "ph": kind,
            "cat": "request",
            "name": name,
            "ts": round((at + self._offset) * 1e6, 1),
            "pid": 1,
            "tid": 1,
            "id": track,
            "args": args or {},
        }


def tracks(hops: Sequence[Hop]) -> list[list[Hop]]:
    """`hops` on as few tracks as hold them without overlap."""
    found: list[list[Hop]] = []
    for hop in sorted(hops, key=lambda hop: (hop.start, hop.end)):
        free = next((track for track in found if track[-1].end <= hop.start), None)
        if free is None:
            found.append([hop])
        else:
            free.append(hop)
    return found


def line(event: Event) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()
