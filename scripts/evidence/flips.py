"""One byte flipped at each of 200 random places of a disk cache's folder, index included.

Tiny random models of several cache kinds start on each damaged copy, or have theirs damaged while
they run. Answers must be the cold ones; at most one warning each. Ends in one line of JSON.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import sys
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from bad_disk import Tally, flip

from slipstream.backends.mlx.device import load_blas
from slipstream.bench.report import Row, finish

load_blas()

from backends.mlx.disk import IDS, cold, say, serving  # noqa: E402 after the BLAS
from slipstream.backends.mlx.prefix.disk.folder import Folder  # noqa: E402 after the BLAS

KINDS = ("llama", "qwen3_5", "gemma3_text", "deepseek_v3")
PROMPTS = (IDS, IDS[:200], (*IDS[:100], *IDS[300:]))


class Warnings(logging.Handler):
    """Counts them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


def look(tally: Tally, kind: str, folder: Path, seed: int, *, running: bool) -> None:
    """One start on `folder`, which is damaged before or after it."""
    heard = Warnings()
    logging.getLogger("slipstream").addHandler(heard)
    tally.starts += 1
    if not running:
        flip(folder, random.Random(seed), 1)
    with serving(kind, Folder(folder)) as backend:
        if running:
            flip(folder, random.Random(seed), 1)
        for key, ids in enumerate((*PROMPTS, *PROMPTS)):
            said = say(backend, ids, key)
            tally.answers += 1
            tally.cached += said.cached
            tally.wrong += said.tokens != cold(kind, ids)
    logging.getLogger("slipstream").removeHandler(heard)
    tally.warnings = max(tally.warnings, heard.count)


def measured(kind: str, running: bool, places: int) -> Row:
    tally = Tally()
    with TemporaryDirectory(prefix="slipstream-flips-") as place:
        good = Path(place, "good")
        with serving(kind, Folder(good)) as backend:
            for key, ids in enumerate(PROMPTS):
                say(backend, ids, key)
        for seed in range(places):
            folder = Path(place, "bad")
            shutil.copytree(good, folder)
            look(tally, kind, folder, seed, running=running)
            shutil.rmtree(folder)
    return tally.row(f"{kind}, {'while it runs' if running else 'before'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", type=int, default=200)
    given = parser.parse_args()
    rows: list[Row] = []
    for kind, when in product(KINDS, (False, True)):
        rows.append(measured(kind, when, given.places))
        print(rows[-1], flush=True)
    finish("flips", rows, sys.stdout)
    sys.exit(any(row["wrong"] or row["warnings_each"] > 1 for row in rows))


if __name__ == "__main__":
    main()
