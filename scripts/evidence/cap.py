"""Many distinct prompts against a small prefix cache, and what a look-up costs in a large tree.

The gauge must never pass the cap, and the memory of the process must level out. Ends in one line
of JSON.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

from servers import asked, ids, rss_mb, serving, stats

from slipstream.backends.mlx.device import load_blas
from slipstream.bench.report import Row, finish, render

load_blas()

from slipstream.backends.mlx.prefix.tree import PrefixTree  # noqa: E402 after the BLAS

GB = 1 << 30
LOOKUPS = 2000


@dataclass(frozen=True, slots=True)
class Nothing:
    """The state of some tokens, without any."""

    nbytes: int = 1

    def cut(self, tokens: int) -> tuple[Nothing, Nothing]:
        return self, self


def lookup_us(entries: int, length: int) -> float:
    """Mean time of finding a prompt of `length` tokens among `entries`."""
    tree = PrefixTree(need_snapshots=False)
    prompts = [(n, *range(length - 1)) for n in range(entries)]
    for prompt in prompts:
        tree.insert("", prompt, lambda start, stop: Nothing())
    began = time.perf_counter()
    for n in range(LOOKUPS):
        assert tree.find("", prompts[n % entries], length).length == length
    return (time.perf_counter() - began) / LOOKUPS * 1e6


def filled(prompts: int, length: int, cap: float) -> list[Row]:
    """A row every 50 prompts: the gauge's highest so far, and the process's memory."""
    rows: list[Row] = []
    highest = 0
    with serving("--prefix-cache", str(cap)) as server:
        for number in range(1, prompts + 1):
            asked(server, ids(number, length), 4)
            highest = max(highest, stats(server)["memory"]["prefix_ram"])
            assert highest <= cap * GB, f"{highest} bytes of {cap * GB:.0f}"
            if number % 50 == 0:
                entries = stats(server)["prefix_cache"]["entries"]
                rows.append(
                    {
                        "prompts": number,
                        "entries": entries,
                        "gauge_mb": highest / 1e6,
                        "cap_mb": cap * GB / 1e6,
                        "rss_mb": rss_mb(server),
                    }
                )
                print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=300)
    parser.add_argument("--length", type=int, default=60, help="tokens of a prompt")
    parser.add_argument("--cap", type=float, default=0.05, metavar="GB")
    given = parser.parse_args()
    looks: list[Row] = [{"entries": n, "lookup_us": lookup_us(n, 1000)} for n in (100, 10_000)]
    print(f"A look-up of 1,000 tokens:\n{render(looks)}", flush=True)
    finish("cap", filled(given.prompts, given.length, given.cap), sys.stdout, lookup=looks)


if __name__ == "__main__":
    main()
