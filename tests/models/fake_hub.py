"""A hub on this machine's own port: one repository, and connections that it can cut."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from .folders import HASH

ID = "org/tiny"


class FakeHub(ThreadingHTTPServer):
    """Serves `files` as ID. While `limit` is set, no byte of a file beyond it is sent."""

    daemon_threads = True

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = files
        self.limit: int | None = None
        self.fetched: set[str] = set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: FakeHub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == f"/api/models/{ID}/revision/main" or path == f"/api/models/{ID}":
            self.answer_json({"_id": "1", "id": ID, "sha": HASH, "siblings": [], "tags": []})
        elif path.startswith(f"/api/models/{ID}/tree/"):
            self.answer_json([self.entry(name) for name in self.server.files])
        elif path.startswith(f"/{ID}/resolve/"):
            self.answer_file(path.rpartition("/")[2])
        else:
            self.answer(404, b"", {"X-Error-Code": "RepoNotFound"})

    def entry(self, name: str) -> Mapping[str, object]:
        data = self.server.files[name]
        digest = hashlib.sha1(data).hexdigest()
        return {"type": "file", "path": name, "size": len(data), "oid": digest}

    def answer_file(self, name: str) -> None:
        data = self.server.files[name]
        headers = {
            "ETag": f'"{hashlib.sha1(data).hexdigest()}"',
            "X-Repo-Commit": HASH,
        }
        if self.command == "GET":
            self.server.fetched.add(name)
        self.answer(200, data, headers, data[: self.server.limit])

    def answer_json(self, value: object) -> None:
        self.answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def answer(
        self, status: int, body: bytes, headers: Mapping[str, str], sent: bytes | None = None
    ) -> None:
        """Promises `body`, and sends `sent` instead where that is given."""
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body if sent is None else sent)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextmanager
def serving(folder: Path) -> Iterator[FakeHub]:
    """The files of `folder` on a fake hub."""
    hub = FakeHub({path.name: path.read_bytes() for path in folder.iterdir()})
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        thread.join()
        hub.server_close()
