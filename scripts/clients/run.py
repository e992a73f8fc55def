"""Real clients against Slipstream: installs each apart, runs its checks, prints a table.

    python scripts/clients/run.py [--only openai,litellm] [--fresh] [--keep]

Each client does one chat, one stream, one round trip of a tool, one structured output, and leaves
one stream in the middle. They talk to 127.0.0.1 and to nobody else. The last line is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clients import CLIENTS, HERE, Client, Environment

CHECKS = ("chat", "stream", "tools", "structured", "cancel")
PATIENCE = 600  # seconds that one client may take
FREED = 20  # seconds within which a server has let go of what a client left
ROUTES = ("/v1/", "/tokenize", "/health")


@dataclass(slots=True)
class Server:
    kind: str
    process: subprocess.Popen[str]
    url: str
    wire: Path

    def asked(self, since: int) -> list[dict]:
        """The requests of clients after the first `since` lines of the wire."""
        lines = self.wire.read_text().splitlines()[since:] if self.wire.exists() else []
        found = [json.loads(line) for line in lines]
        return [one for one in found if one["path"].startswith(ROUTES)]

    def lines(self) -> int:
        return len(self.wire.read_text().splitlines()) if self.wire.exists() else 0

    def get(self, path: str) -> dict:
        with urllib.request.urlopen(self.url + path, timeout=30) as reply:
            return json.load(reply)

    def free(self) -> bool:
        """Whether no row is left, in a while that no answer would take to end by itself."""
        end = time.monotonic() + FREED
        while self.get("/admin/rows")["rows"]:
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        return True


@dataclass(slots=True)
class Result:
    client: Client
    version: str = ""
    problem: str = ""  # why it could not be installed, or did not run to its end
    checks: dict[str, dict] = field(default_factory=dict)
    requests: int = 0
    longest_prompt: int = 0
    refused: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)

    @property
    def passed(self) -> int:
        return sum(check["ok"] for check in self.checks.values())

    def cell(self, check: str) -> str:
        if check not in self.checks:
            return "-"
        return "yes" if self.checks[check]["ok"] else "NO"

    def line(self) -> dict:
        return {
            "client": self.client.name,
            "package": self.client.shown,
            "version": self.version,
            "problem": self.problem,
            "checks": {name: check["ok"] for name, check in self.checks.items()},
            "errors": {n: c["error"] for n, c in self.checks.items() if not c["ok"]},
            "requests": self.requests,
            "longest_prompt": self.longest_prompt,
            "refused": self.refused,
            "ignored": self.ignored,
        }


@contextlib.contextmanager
def server(kind: str, folder: Path) -> Iterator[Server]:
    wire = folder / f"{kind}.jsonl"
    command = [sys.executable, str(HERE / "serving.py"), kind, str(wire)]
    with (
        (folder / f"{kind}.log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            first = process.stdout.readline() if process.stdout else ""
            if not first.startswith("Ready"):
                sys.exit((folder / f"{kind}.log").read_text() or f"the {kind} server did not start")
            yield Server(kind, process, first.split()[-1], wire)
        finally:
            process.terminate()


def tried(client: Client, cache: Path, folder: Path, servers: Sequence[Server]) -> Result:
    result = Result(client)
    environment = Environment(client, cache / client.environment, folder / f"home-{client.name}")
    try:
        environment.install()
    except (subprocess.SubprocessError, OSError) as error:
        result.problem = f"not installed: {reason(error)}"
        return result
    result.version = environment.installed
    before = {one.kind: one.lines() for one in servers}
    drive(environment, result, folder, servers)
    account(result, [one for s in servers for one in s.asked(before[s.kind])])
    return result


def reason(error: Exception) -> str:
    said = (getattr(error, "stderr", None) or str(error)).strip()
    return said.splitlines()[-1][:200] if said else type(error).__name__


def drive(env: Environment, result: Result, folder: Path, servers: Sequence[Server]) -> None:
    """Runs the client's program and takes its lines as they come."""
    addresses = {f"SLIPSTREAM_{one.kind.upper()}": one.url for one in servers}
    log = folder / f"{result.client.name}.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            env.command(),
            env=env.variables(addresses),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        guard = threading.Timer(PATIENCE, process.kill)
        guard.start()
        for line in process.stdout:
            if not line.startswith('{"check"'):
                continue
            check = json.loads(line)
            if check["check"] == "cancel" and check["ok"] and not all(s.free() for s in servers):
                check |= {"ok": False, "error": "its row went on without it"}
            result.checks[check["check"]] = check
        guard.cancel()
    if process.returncode and all(check["ok"] for check in result.checks.values()):
        result.problem = f"ended with code {process.returncode}: {log}"


def account(result: Result, asked: Sequence[dict]) -> None:
    """What its requests looked like from here."""
    result.requests = len(asked)
    result.longest_prompt = max((one["prompt_tokens"] or 0 for one in asked), default=0)
    result.ignored = sorted({name for one in asked for name in one["ignored"]})
    refused = Counter(
        f"{one['status']} {one['method']} {one['path']}" for one in asked if one["status"] >= 400
    )
    result.refused = [f"{what} ({count})" for what, count in refused.items()]


def table(results: Sequence[Result]) -> str:
    """In Markdown, as the docs show it."""
    head = ("client", "version", *CHECKS, "requests", "longest prompt", "declared")
    rows = [head, ("---",) * len(head)]
    for one in results:
        if CHECKS[0] in one.checks or one.problem:
            cells = [one.cell(check) for check in CHECKS]
            told = ", ".join(f"`{name}`" for name in one.ignored)
            numbers = (str(one.requests), str(one.longest_prompt), one.problem or told)
            rows.append((one.client.name, one.version, *cells, *numbers))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def others(results: Sequence[Result]) -> str:
    """Checks of another kind: their score, and what falls short."""
    lines = []
    for one in results:
        if CHECKS[0] not in one.checks and one.checks:
            lines.append(f"{one.client.name} {one.version}: {one.passed} of {len(one.checks)}")
            lines += [f"  {n}: {c['error']}" for n, c in one.checks.items() if not c["ok"]]
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    names = [client.name for client in CLIENTS]
    parser.add_argument("--only", help=f"some of {','.join(names)}")
    parser.add_argument("--fresh", action="store_true", help="install anew")
    parser.add_argument(
        "--keep", action="store_true", help="leave logs, and what went over the wire"
    )
    cache = Path(tempfile.gettempdir(), "slipstream-clients")
    parser.add_argument("--cache", type=Path, default=cache, help=f"environments ({cache})")
    given = parser.parse_args()
    wanted = given.only.split(",") if given.only else names
    if unknown := sorted({*wanted} - {*names}):
        parser.error(f"there is no client {unknown[0]}; there are {', '.join(names)}")
    given.clients = [client for client in CLIENTS if client.name in wanted]
    return given


def main() -> int:
    given = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the servers end too
    if given.fresh:
        shutil.rmtree(given.cache, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix="slipstream-run-"))
    results = []
    with server("starter", folder) as starter, server("told", folder) as told:
        for client in given.clients:
            result = tried(client, given.cache, folder, (starter, told))
            results.append(result)
            done = f"{result.passed} of {len(result.checks)} {result.problem}"
            print(f"{client.name} {result.version}: {done}", file=sys.stderr, flush=True)
    print(table(results))
    print(others(results))
    for one in results:
        for what in one.refused:
            print(f"{one.client.name} was refused: {what}")
    if given.keep:
        print(f"Logs are in {folder}.")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    good = all(one.passed == len(one.checks) for one in results if CHECKS[0] in one.checks)
    good = good and not any(one.problem for one in results)
    print(json.dumps({"clients": [one.line() for one in results], "good": good}))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
