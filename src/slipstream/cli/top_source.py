"""Where `top` gets its numbers: the routes of a running server, read in the background."""

from __future__ import annotations

import http.client
import json
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from slipstream.contracts.errors import SlipstreamError, UsageError

TIMEOUT = 10.0  # seconds
Row = Mapping[str, Any]
"""An entry of GET /admin/rows."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What /stats and /admin/rows answered; `at` in seconds, monotonic."""

    at: float
    stats: Mapping[str, Any]
    rows: Sequence[Row]


class Source(Protocol):
    def read(self) -> Sample:
        """Raises SlipstreamError."""
        ...

    def cancel(self, request_id: str) -> None:
        """One that is gone already is fine. Raises SlipstreamError."""
        ...


class Server:
    """A Source over HTTP, on one connection that is made anew after an error."""

    def __init__(self, url: str, key: str | None) -> None:
        """Raises UsageError when `url` is none."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{url} is no address; one is like http://127.0.0.1:8080.")
        self._url = url
        self._path = parts.path.rstrip("/")
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=TIMEOUT)

    def read(self) -> Sample:
        stats = self._ask("GET", "/stats")
        rows = self._ask("GET", "/admin/rows")["rows"]
        return Sample(time.monotonic(), stats, rows)

    def cancel(self, request_id: str) -> None:
        self._ask("DELETE", f"/admin/rows/{quote(request_id, safe='')}", missing={})

    def _ask(self, method: str, path: str, missing: Any = None) -> Any:
        """The JSON of an answer, or `missing` for a 404 where that is given."""
        try:
            self._connection.request(method, self._path + path, headers=self._headers)
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise SlipstreamError(f"{self._url} does not answer: {error}") from error
        if response.status == 404 and missing is not None:
            return missing
        if response.status == 401:
            raise SlipstreamError(f"{self._url} wants a key: --api-key, or SLIPSTREAM_API_KEY.")
        if response.status != 200:
            raise SlipstreamError(f"{self._url}{path} answers {response.status}.")
        try:
            return json.loads(body)
        except ValueError as error:
            raise SlipstreamError(f"{self._url}{path} is no Slipstream server's.") from error


class Poller:
    """Reads `source` every `interval` seconds on a thread of its own, so that keys never wait."""

    def __init__(self, source: Source, interval: float) -> None:
        self.news = threading.Event()
        self.sample: Sample | None = None
        self.trouble: str | None = None
        self._source = source
        self._interval = interval
        self._cancels: queue.SimpleQueue[str] = queue.SimpleQueue()

    def start(self) -> None:
        """A daemon: a server that does not answer must not keep `top` from ending."""
        threading.Thread(target=self._run, name="slipstream-top", daemon=True).start()

    def cancel(self, request_id: str) -> None:
        self._cancels.put(request_id)

    def _run(self) -> None:
        doomed: str | None = None
        while True:
            self.poll(doomed)
            try:
                doomed = self._cancels.get(timeout=self._interval)
            except queue.Empty:
                doomed = None

    def poll(self, doomed: str | None = None) -> None:
        """Ends the request `doomed`, then reads once."""
        try:
            if doomed is not None:
                self._source.cancel(doomed)
            self.sample, self.trouble = self._source.read(), None
        except SlipstreamError as error:
            self.trouble = error.message
        self.news.set()
