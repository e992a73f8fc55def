"""A disk that goes wrong under the prefix cache: answers stay the cold ones, nothing crashes.

Bytes flipped, files truncated and deleted, index included; a full, a read-only and a hanging
file system; two servers on one folder. At most one warning a server. Ends in one line of JSON.

Full and read-only need a mount, so root; they are left out with a word where that is refused.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from servers import PATIENCE, Server, asked, ids, serving

from slipstream.bench.report import Row, finish

LENGTHS = (70, 150, 300)
PLACES = 10  # bytes that are flipped before each start
HANGING = "import os, time\nos.fsync = lambda handle: time.sleep(1e6)\n"
Damage = Callable[[Path, random.Random], None]


@dataclass(slots=True)
class Tally:
    """What one kind of trouble did."""

    starts: int = 0
    answers: int = 0
    wrong: int = 0
    cached: int = 0
    warnings: int = 0  # of one server, at most
    crashes: int = 0
    texts: Mapping[int, str] = field(default_factory=dict, repr=False)

    def look(self, server: Server) -> None:
        """Asks everything twice, so that the second time it was written and is in RAM."""
        self.starts += 1
        for _ in range(2):
            for length, text in self.texts.items():
                reply = asked(server, prompt(length))
                self.answers += 1
                self.wrong += reply.text != text
                self.cached += reply.cached
        flush(server)
        self.crashes += server.process.poll() is not None
        self.crashes += "Traceback" in server.log
        self.warnings = max(self.warnings, server.log.count("WARNING"))

    def row(self, trouble: str) -> Row:
        return {
            "trouble": trouble,
            "starts": self.starts,
            "answers": self.answers,
            "wrong": self.wrong,
            "cached": self.cached,
            "warnings_each": self.warnings,
            "crashes": self.crashes,
        }


def prompt(length: int) -> list[int]:
    return ids(length, length)


def flush(server: Server) -> None:
    """A disk that does not take it is 503 and no more."""
    status = httpx.post(f"{server.url}/admin/cache/flush", timeout=PATIENCE).status_code
    assert status in (200, 503), status


def victims(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.stat().st_size)


def flip(folder: Path, chance: random.Random, places: int = PLACES) -> None:
    for _ in range(places):
        path = chance.choice(victims(folder))
        with path.open("r+b") as file:
            place = chance.randrange(path.stat().st_size)
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 1 << chance.randrange(8)]))


def truncate(folder: Path, chance: random.Random) -> None:
    for path in chance.sample(victims(folder), 2):
        os.truncate(path, chance.randrange(path.stat().st_size))


def delete(folder: Path, chance: random.Random) -> None:
    for path in chance.sample(victims(folder), 2):
        path.unlink()


def damaged(tally: Tally, good: Path, damage: Damage, starts: int, *, running: bool) -> None:
    """Starts on copies of the folder `good`, damaged before, or while the server runs."""
    for seed in range(starts):
        with TemporaryDirectory(prefix="slipstream-bad-") as place:
            folder = Path(place, "cache")
            shutil.copytree(good, folder)
            if not running:
                damage(folder, random.Random(seed))
            with serving("--ssd-cache", str(folder)) as server:
                if running:
                    damage(folder, random.Random(seed))
                tally.look(server)


@contextmanager
def mounted(*options: str, at: Path) -> Iterator[None]:
    """Raises CalledProcessError where it may not be done."""
    subprocess.run(["mount", *options, str(at)], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


def full(tally: Tally, good: Path) -> None:
    """A file system of 8 MB, for segments of more than that together."""
    with TemporaryDirectory(prefix="slipstream-full-") as place:
        small = mounted("-t", "tmpfs", "-o", "size=8m", "tmpfs", at=Path(place))
        with small, serving("--ssd-cache", place) as server:
            tally.look(server)


def read_only(tally: Tally, good: Path) -> None:
    """Root heeds no modes, so it is the mount that forbids writing."""
    with TemporaryDirectory(prefix="slipstream-readonly-") as place:
        shutil.copytree(good, place, dirs_exist_ok=True)
        with mounted("--bind", place, at=Path(place)):
            subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
            with serving("--ssd-cache", place) as server:
                tally.look(server)


def hanging(tally: Tally, good: Path) -> None:
    """A disk on which no write ever ends: it holds up neither answers nor the end."""
    with TemporaryDirectory(prefix="slipstream-hanging-") as place:
        Path(place, "sitecustomize.py").write_text(HANGING)
        folder, before = Path(place, "cache"), os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = f"{place}:{before}"
        try:
            with serving("--ssd-cache", str(folder)) as server:
                os.environ["PYTHONPATH"] = before
                tally.look(server)
                server.process.terminate()
                tally.crashes += server.process.wait(PATIENCE) != 0
        finally:
            os.environ["PYTHONPATH"] = before


def shared(tally: Tally, good: Path) -> None:
    """Two servers at once, on a folder that is empty at first."""
    with TemporaryDirectory(prefix="slipstream-two-") as place, ExitStack() as stack:
        two = [stack.enter_context(serving("--ssd-cache", place)) for _ in range(2)]
        for server in two:
            tally.look(server)
        for server in reversed(two):
            tally.look(server)


def tried(trouble: Callable[[Tally, Path], None], tally: Tally, good: Path) -> str:
    """Why it was left out, or nothing."""
    try:
        trouble(tally, good)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"left out: {error}"
    return ""


def cold(folder: Path) -> Mapping[int, str]:
    """Texts by length, said by a server that fills `folder` on its way."""
    with serving("--ssd-cache", str(folder)) as server:
        texts = {length: asked(server, prompt(length)).text for length in LENGTHS}
        flush(server)
    return texts


def measured(starts: int, good: Path) -> list[Row]:
    texts = cold(good)
    rows: list[Row] = []
    for name, damage, running in (
        ("bytes flipped", flip, False),
        ("bytes flipped while it runs", flip, True),
        ("truncated", truncate, False),
        ("deleted", delete, False),
        ("deleted while it runs", delete, True),
    ):
        tally = Tally(texts=texts)
        times = starts if damage is flip else max(1, starts // 4)
        damaged(tally, good, damage, times, running=running)
        rows.append(tally.row(name))
        print(rows[-1], flush=True)
    others: Sequence[tuple[str, Callable[[Tally, Path], None]]] = (
        ("disk full", full),
        ("read-only", read_only),
        ("hanging", hanging),
        ("two servers", shared),
    )
    for name, trouble in others:
        tally = Tally(texts=texts)
        rows.append(tally.row(f"{name} {tried(trouble, tally, good)}".strip()))
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=10, help=f"each with {PLACES} bytes flipped")
    with TemporaryDirectory(prefix="slipstream-good-") as place:
        rows = measured(parser.parse_args().starts, Path(place, "cache"))
    finish("bad_disk", rows, sys.stdout)
    sys.exit(any(row["wrong"] or row["crashes"] or row["warnings_each"] > 1 for row in rows))


if __name__ == "__main__":
    main()
