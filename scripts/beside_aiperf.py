"""One workload measured by AIPerf and by `slipstream bench serve`, in turn: do they agree?

AIPerf lives in an environment of its own (`pip install aiperf`); it needs no PyTorch. Prints a
Markdown table, medians over the rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HEAD = 13  # words by which our prompt of N words has more tokens than theirs of N tokens
TIMES = {  # ours -> AIPerf's
    "ttft_ms": "time_to_first_token",
    "tpot_ms": "inter_token_latency",
    "gap_ms": "inter_chunk_latency",
    "e2e_ms": "request_latency",
}
SHARES = ("p50", "p90")
Figures = dict[str, float]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="a running server, such as http://127.0.0.1:8080")
    parser.add_argument("--aiperf", required=True, help="the aiperf program")
    parser.add_argument("--tokenizer", required=True, help="the model's folder")
    parser.add_argument("--model", default="default")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=128, help="tokens")
    parser.add_argument("--output", type=int, default=64, help="tokens")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def theirs(wanted: argparse.Namespace, number: int, folder: Path) -> Figures:
    command = [
        *(wanted.aiperf, "profile", "--url", wanted.url, "--model", wanted.model),
        *("--endpoint-type", "chat", "--streaming", "--tokenizer", wanted.tokenizer),
        *("--concurrency", wanted.concurrency, "--request-count", wanted.requests),
        *("--num-dataset-entries", wanted.requests, "--random-seed", number + 1),
        *("--isl", wanted.prompt, "--isl-stddev", 0, "--osl", wanted.output, "--osl-stddev", 0),
        *("--extra-inputs", "ignore_eos:true", "--extra-inputs", "temperature:0"),
        *("--use-server-token-count", "--warmup-request-count", 1, "--ui", "none"),
        *("--output-artifact-dir", folder),
    ]
    subprocess.run(list(map(str, command)), check=True, stdout=sys.stderr)
    told = json.loads((folder / "profile_export_aiperf.json").read_text("utf-8"))
    found = {
        f"{name} {share}": told[metric][share] for name, metric in TIMES.items() for share in SHARES
    }
    return found | {
        "tok_s": told["output_token_throughput"]["avg"],
        "req_s": told["request_throughput"]["avg"],
        "prompt_tokens": told["usage_prompt_tokens"]["avg"],
        "output_tokens": told["output_sequence_length"]["avg"],
    }


def ours(wanted: argparse.Namespace, number: int, folder: Path) -> Figures:
    start = "from slipstream.cli.main import main; main()"
    command = [
        *(sys.executable, "-c", start, "bench", "serve", wanted.url, "--model", wanted.model),
        *("--concurrency", wanted.concurrency, "--requests", wanted.requests),
        *("--prompt", wanted.prompt - HEAD, "--output", wanted.output),
        *("--rounds", 1, "--seed", number, "--out", folder),
    ]
    subprocess.run(list(map(str, command)), check=True, stdout=sys.stderr)
    told = json.loads((folder / "bench.json").read_text("utf-8"))
    rows: dict[str, Mapping[str, Any]] = {row["metric"]: row for row in told["times"]}
    found = {f"{name} {share}": rows[name][share] for name in TIMES for share in SHARES}
    names = ("tok_s", "req_s", "prompt_tokens", "output_tokens")
    return found | {name: told["rates"][0][name] for name in names}


def main() -> None:
    wanted = arguments()
    pairs: list[tuple[Figures, Figures]] = []
    with TemporaryDirectory() as folder:
        for number in range(wanted.rounds):
            one = theirs(wanted, number, Path(folder) / f"aiperf-{number}")
            pairs.append((one, ours(wanted, number, Path(folder) / f"ours-{number}")))
    print("| figure | AIPerf | bench serve | ratio |\n|---|---|---|---|")
    for name in pairs[0][0]:
        first, second = (statistics.median(pair[side][name] for pair in pairs) for side in (0, 1))
        print(f"| `{name}` | {first:,.2f} | {second:,.2f} | {second / first:.3f} |")


if __name__ == "__main__":
    main()
