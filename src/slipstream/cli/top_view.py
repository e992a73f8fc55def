"""What `top` shows: two samples become numbers, and numbers a picture. Knows no terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slipstream.cli.terminal import size
from slipstream.cli.top_source import Row, Sample

SORTS = ("arrival", "state", "speed", "generated", "prompt", "lane")
COLOURS = (("queued", "yellow"), ("prefill", "cyan"), ("decode", "green"), ("parked", "magenta"))
WIDTH = 24  # characters of a bar
KEYS = "q quit   s sort   up/down select   c cancel"
Key = tuple[str, int]
"""A row's id and choice."""


def key_of(row: Row) -> Key:
    return row["id"], row["choice"]


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens per second between two samples."""

    generated: float = 0.0
    prompt: float = 0.0
    rows: Mapping[Key, float] | None = None

    @classmethod
    def between(cls, before: Sample | None, after: Sample) -> Rates:
        """None known without two samples, nor after a restart of the server."""
        if before is None or after.at <= before.at:
            return cls()
        passed = after.at - before.at
        old, new = before.stats["tokens"], after.stats["tokens"]
        known = {key_of(row): row["generated"] for row in before.rows}
        return cls(
            generated=max(0.0, (new["generated"] - old["generated"]) / passed),
            prompt=max(0.0, (new["prompt"] - old["prompt"]) / passed),
            rows={
                key: max(0.0, (row["generated"] - known[key]) / passed)
                for row in after.rows
                if (key := key_of(row)) in known
            },
        )

    def of(self, row: Row) -> float:
        return (self.rows or {}).get(key_of(row), 0.0)


class View:
    """The newest sample, what is selected, and how it is sorted."""

    def __init__(self, url: str) -> None:
        self.sort = SORTS[0]
        self.selected: Key | None = None
        self.trouble: str | None = None
        self._url = url
        self._sample: Sample | None = None
        self._rates = Rates()

    def take(self, sample: Sample) -> None:
        """Shows `sample` from now on."""
        if sample is not self._sample:
            self._rates = Rates.between(self._sample, sample)
            self._sample = sample

    def cycle(self) -> None:
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]

    def move(self, steps: int) -> None:
        """Selects `steps` rows further down, at most the last; at first, the first."""
        keys = [key_of(row) for row in self.rows]
        if keys:
            known = self.selected in keys
            place = keys.index(self.selected) + steps if self.selected and known else 0
            self.selected = keys[min(max(place, 0), len(keys) - 1)]

    @property
    def doomed(self) -> str | None:
        """The id of the selected request, while it is there."""
        found = [row["id"] for row in self.rows if key_of(row) == self.selected]
        return found[0] if found else None

    @property
    def rows(self) -> Sequence[Row]:
        rows = self._sample.rows if self._sample else ()
        match self.sort:
            case "speed":
                return sorted(rows, key=self._rates.of, reverse=True)
            case "generated":
                return sorted(rows, key=lambda row: row["generated"], reverse=True)
            case "prompt":
                return sorted(rows, key=lambda row: row["prompt_tokens"], reverse=True)
            case "state" | "lane":
                return sorted(rows, key=lambda row: row[self.sort])
            case _:
                return rows

    def render(self, height: int | None = None) -> RenderableType:
        """The picture, in at most `height` lines where that is given."""
        if self._sample is None:
            return Text(self.trouble or f"Asking {self._url} ...")
        head = [*summary(self._sample.stats, self._rates, self._url)]
        if self.trouble:
            head.append(Text(f"{self.trouble} These numbers are old.", style="bold red"))
        room = None if height is None else max(1, height - len(head) - 5)
        foot = Text(f"{KEYS}   (sorted by {self.sort})", style="dim")
        return Group(*head, self._table(room), *([foot] if height is not None else []))

    def _table(self, room: int | None) -> RenderableType:
        rows = self.rows
        if not rows:
            return Text("No rows wait or run.", style="dim")
        table = Table(box=None, pad_edge=False, expand=True)
        for name in ("request", "state", "lane"):
            table.add_column(name, no_wrap=True, overflow="ellipsis")
        for name in ("prompt", "cached", "generated", "tok/s", "age"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("reasons", overflow="ellipsis")
        shown = rows if room is None else window(rows, room, self.selected)
        for row in shown:
            chosen = key_of(row) == self.selected
            table.add_row(
                Text(f"{row['id']}/{row['choice']}" if row["choice"] else row["id"]),
                Text(row["state"], "" if chosen else dict(COLOURS)[row["state"]]),
                row["lane"],
                f"{row['computed']}/{row['prompt_tokens']}",
                str(row["cached_tokens"]),
                str(row["generated"]),
                f"{self._rates.of(row):.1f}",
                f"{row['age_ms'] / 1000:.1f}s",
                ", ".join(row["reasons"]),
                style="reverse" if chosen else "",
            )
        left = len(rows) - len(shown)
        return Group(table, Text(f"... and {left} more", style="dim")) if left else table


def window(rows: Sequence[Row], room: int, selected: Key | None) -> Sequence[Row]:
    """`room` of the rows, with the selected one among them."""
    keys = [key_of(row) for row in rows]
    place = keys.index(selected) if selected in keys else 0
    start = max(0, min(place - room + 1, len(rows) - room))
    return rows[start : start + room]


def summary(stats: Mapping[str, Any], rates: Rates, url: str) -> Sequence[Text]:
    """The lines above the table."""
    group, solo, queue = stats["lanes"]["group"], stats["lanes"]["solo"], stats["queue"]
    memory, cache = stats["memory"], stats["prefix_cache"]
    asked = cache["hits"] + cache["misses"]
    share = f"{100 * cache['hits'] / asked:.0f}%" if asked else "-"
    held = stats["lease"]["held_by"]
    return (
        Text.assemble((stats["model"], "bold"), f"  {url}  up {spell(stats['uptime_s'])}"),
        Text(f"tokens/s {rates.generated:.1f} drawn, {rates.prompt:.1f} of prompts"),
        Text(
            f"rows     group {group['active']}/{group['max']}, solo {solo['active']}, "
            f"waiting {queue['waiting']}/{queue['max']}, refused {queue['rejected']}"
            + (f", the device is held by {held}" if held else "")
        ),
        bar("memory", memory["active"], memory["budget"]),
        bar("kv", memory["kv"], memory["kv_budget"]),
        Text(
            f"cache    {share} hits, {cache['hit_tokens']} tokens saved, "
            f"{size(cache['bytes'])} in {cache['entries']} entries, "
            f"{size(cache['ssd_bytes'])} on disk"
        ),
        Text(f"placed   {placed(stats['placements'])}"),
        Text(""),
    )


def bar(name: str, used: float, most: float) -> Text:
    full = min(WIDTH, round(WIDTH * used / most)) if most else 0
    colour = "red" if full > 0.9 * WIDTH else "green"
    return Text.assemble(
        f"{name:<9}",
        ("█" * full, colour),
        ("░" * (WIDTH - full), "dim"),
        f" {size(used)}",
        f" of {size(most)}" if most else "",
    )


def placed(placements: Mapping[str, int]) -> str:
    """How many went to the group, and why others went to solo."""
    reasons = [f"{name} {count}" for name, count in placements.items() if name != "none"]
    solo = f", solo for {', '.join(reasons)}" if reasons else ""
    return f"group {placements.get('none', 0)}{solo}" if placements else "nothing yet"


def spell(seconds: float) -> str:
    """Time for people: 2h05m, 3m20s, 12s."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"
