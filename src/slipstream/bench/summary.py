"""From the runs of a load test to its tables. Times in milliseconds, rates per second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from slipstream.bench.figures import Bound, Estimate, estimate, meets, percentile, ratio, spread
from slipstream.bench.load import Level, Run
from slipstream.bench.report import Row
from slipstream.bench.target import Answer

COMPARED = ("ttft", "tpot", "gap")


@dataclass(frozen=True, slots=True)
class Cell:
    """One server under one load: a run for each round."""

    workload: str
    level: Level
    server: str
    runs: Sequence[Run]

    @property
    def answers(self) -> list[Answer]:
        return [answer for run in self.runs for answer in run.answers]

    @property
    def good(self) -> list[Answer]:
        return whole(self.answers)

    @property
    def where(self) -> Mapping[str, str]:
        return {"workload": self.workload, "load": self.level.name, "server": self.server}


def whole(answers: Iterable[Answer]) -> list[Answer]:
    return [answer for answer in answers if answer.failed is None]


def samples(answers: Iterable[Answer]) -> dict[str, list[float]]:
    """Every sample of each metric: one a request, except gaps, of which each is one."""
    found: dict[str, list[float]] = {"ttft": [], "tpot": [], "gap": [], "e2e": []}
    for answer in answers:
        times = answer.times
        for name in ("ttft", "tpot", "e2e"):
            if name in times:
                found[name].append(times[name])
        found["gap"] += answer.gaps_ms
    return found


def token_rate(run: Run) -> float:
    return sum(answer.tokens for answer in whole(run.answers)) / run.seconds


def rate_row(cell: Cell, limits: Sequence[Bound]) -> Row:
    """Throughput with its interval over the rounds, errors by kind, goodput under `limits`."""
    made = estimate([token_rate(run) for run in cell.runs])
    good, sent = cell.good, cell.answers
    seconds = sum(run.seconds for run in cell.runs)
    met = sum(meets(answer.times, limits) for answer in good)
    row: dict[str, float | int | str | None] = {
        **cell.where,
        "sent": len(sent),
        "failed": failures(sent),
        "prompt_tokens": round(sum(a.prompt for a in good) / len(good)) if good else None,
        "output_tokens": round(sum(a.tokens for a in good) / len(good)) if good else None,
        "counted_by": counted_by(good),
        "tok_s": made.value,
        "tok_s_low": made.low,
        "tok_s_high": made.high,
        "req_s": len(good) / seconds,
    }
    if limits:
        row |= {"good_req_s": met / seconds, "good_share": met / len(sent) if sent else None}
    return row


def failures(answers: Iterable[Answer]) -> str:
    """Each kind with its count: `status 429 x2, timeout x1`; `0` where there is none."""
    kinds = Counter(answer.failed for answer in answers if answer.failed is not None)
    return ", ".join(f"{kind} x{count}" for kind, count in sorted(kinds.items())) or "0"


def counted_by(answers: Sequence[Answer]) -> str:
    """Who counted the tokens of the answers: the server's `usage`, or we their `chunks`."""
    kinds = {"chunks" if answer.counted is None else "usage" for answer in answers}
    return "+".join(sorted(kinds)) or "-"


def time_rows(cell: Cell) -> list[Row]:
    """Percentiles of each metric, over the requests of all rounds; by kind too where it has
    several."""
    good = sorted(cell.good, key=lambda answer: answer.kind)
    groups = {kind: list(these) for kind, these in groupby(good, key=lambda answer: answer.kind)}
    if len(groups) > 1:
        groups = {"all": good, **groups}
    return [
        {
            **cell.where,
            "kind": kind,
            "metric": f"{metric}_ms",
            "count": len(values),
            **spread(values),
        }
        for kind, these in groups.items()
        for metric, values in samples(these).items()
        if values
    ]


def ratio_rows(cells: Sequence[Cell]) -> list[Row]:
    """The first server over each other one, for cells in which both answered in each round.

    Above 1 the first is better: more tokens a second, or shorter times."""
    loads = {(cell.workload, cell.level): cell for cell in reversed(cells)}
    return [
        row
        for cell in cells
        if (row := _ratio_row(loads[cell.workload, cell.level], cell)) is not None
    ]


def _ratio_row(first: Cell, other: Cell) -> Row | None:
    pairs = list(zip(first.runs, other.runs, strict=False))
    if first is other or not pairs or not all(whole(r.answers) for pair in pairs for r in pair):
        return None
    rate = ratio([token_rate(one) for one, _ in pairs], [token_rate(two) for _, two in pairs])
    row: dict[str, float | int | str | None] = {
        "workload": first.workload,
        "load": first.level.name,
        "first": first.server,
        "over": other.server,
        "tok_s": rate.value,
        "low": rate.low,
        "high": rate.high,
    }
    for metric in COMPARED:
        row[metric] = _times_ratio(pairs, metric)
    return row | {"verdict": verdict(rate)}


def _times_ratio(pairs: Sequence[tuple[Run, Run]], metric: str) -> float | None:
    """Medians of the other over those of the first."""
    found = [[samples(whole(run.answers))[metric] for run in pair] for pair in pairs]
    if not all(ours and theirs for ours, theirs in found):
        return None
    medians = [[percentile(values, 0.5) for values in pair] for pair in found]
    if not all(value > 0 for pair in medians for value in pair):
        return None
    return ratio([theirs for _, theirs in medians], [ours for ours, _ in medians]).value


def verdict(rate: Estimate) -> str:
    if rate.sure_above_one:
        return "ahead"
    return "behind" if rate.sure_below_one else "even" if rate.low is not None else "one round"
