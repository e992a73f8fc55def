"""What a load test ends in: tables, a plot, and everything as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipstream.bench.figures import Bound, percentile
from slipstream.bench.plot import Panel, page
from slipstream.bench.report import Row, render
from slipstream.bench.summary import Cell, rate_row, ratio_rows, samples, time_rows, token_rate


@dataclass(frozen=True, slots=True)
class Result:
    """The tables of a load test."""

    rates: Sequence[Row]
    times: Sequence[Row]
    ratios: Sequence[Row]
    cells: Sequence[Cell]

    @classmethod
    def of(cls, cells: Sequence[Cell], bounds: Sequence[Bound]) -> Result:
        times = [row for cell in cells for row in time_rows(cell)]
        rates = [rate_row(cell, bounds) for cell in cells]
        return cls(rates, times, ratio_rows(cells), cells)

    @property
    def text(self) -> str:
        parts = [render(self.times), render(self.rates)]
        if self.ratios:
            parts.append("Above 1 the first is better:\n" + render(self.ratios))
        if self.faults:
            parts.append("What went wrong, each kind once:\n" + "\n".join(self.faults))
        return "\n\n".join(parts)

    @property
    def faults(self) -> list[str]:
        """The first message of each kind of failure of each server."""
        found: dict[tuple[str, str], str] = {}
        for cell in self.cells:
            for answer in cell.answers:
                if answer.failed is not None:
                    found.setdefault((cell.server, answer.failed), answer.why)
        return [f"{server}: {kind}: {why}" for (server, kind), why in found.items()]

    @property
    def behind(self) -> list[str]:
        """Where the first server makes surely fewer tokens a second than another."""
        return [
            f"{row['workload']} {row['load']}: {row['tok_s']:.2f} of {row['over']}"
            for row in self.ratios
            if row["verdict"] == "behind"
        ]

    def write(self, folder: Path, plan: Mapping[str, object]) -> None:
        """bench.json, bench.txt and bench.svg in `folder`, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        rounds = [
            {**cell.where, "round": number, "seconds": run.seconds, "tok_s": token_rate(run)}
            for cell in self.cells
            for number, run in enumerate(cell.runs, 1)
        ]
        whole = {
            "plan": plan,
            "rates": self.rates,
            "times": self.times,
            "ratios": self.ratios,
            "rounds": rounds,
        }
        (folder / "bench.json").write_text(json.dumps(whole, indent=1) + "\n", "utf-8")
        (folder / "bench.txt").write_text(self.text + "\n", "utf-8")
        (folder / "bench.svg").write_text(page(panels(self.cells)), "utf-8")


def panels(cells: Sequence[Cell]) -> list[list[Panel]]:
    """For each workload: tokens a second, first token, and time per token, by the level."""
    return [
        _panels(workload, [cell for cell in cells if cell.workload == workload])
        for workload in dict.fromkeys(cell.workload for cell in cells)
    ]


def _panels(workload: str, cells: Sequence[Cell]) -> list[Panel]:
    across = "concurrency" if cells[0].level.clients is not None else "requests/s"
    rates: dict[str, list[tuple[float, float]]] = {}
    times: dict[str, dict[str, list[tuple[float, float]]]] = {"ttft": {}, "tpot": {}}
    for cell in sorted(cells, key=lambda cell: cell.level.value):
        x = cell.level.value
        whole = sum(map(token_rate, cell.runs)) / len(cell.runs)
        rates.setdefault(cell.server, []).append((x, whole))
        found = samples(cell.good)
        for metric, lines in times.items():
            if found[metric]:
                point = (x, percentile(found[metric], 0.5))
                lines.setdefault(cell.server, []).append(point)
    return [
        Panel(f"{workload}: tokens/s", across, "tokens/s", rates),
        Panel(f"{workload}: first token, p50", across, "ms", times["ttft"]),
        Panel(f"{workload}: time per token, p50", across, "ms", times["tpot"]),
    ]
