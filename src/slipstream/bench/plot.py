"""Line charts as SVG text: panels side by side, one line for each server. No library needed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 300, 210  # of a panel, pixels
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 30, 40  # of a panel, around its axes
LEGEND = 30
COLOURS = ("#0b6bcb", "#d9480f", "#2b8a3e", "#862e9c", "#c2255c", "#5f6368")
STYLE = (
    "text{font:11px system-ui,sans-serif;fill:#333}.title{font-weight:600;font-size:12px}"
    ".grid{stroke:#e3e3e3}.axis{stroke:#888}.line{fill:none;stroke-width:2}"
)


@dataclass(frozen=True, slots=True)
class Panel:
    """`lines`: points (x, y) by the name of a server, x ascending. y begins at 0."""

    title: str
    across: str
    up: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to pixels; `first` and `last` are the ends."""

    first: float
    last: float
    start: float
    end: float

    def at(self, value: float) -> float:
        width = (self.last - self.first) or 1.0
        return self.start + (value - self.first) / width * (self.end - self.start)


def page(rows: Sequence[Sequence[Panel]]) -> str:
    """An SVG document of rows of panels; a server has one colour throughout."""
    names = list(dict.fromkeys(name for row in rows for panel in row for name in panel.lines))
    colours = {name: COLOURS[n % len(COLOURS)] for n, name in enumerate(names)}
    width = WIDTH * max((len(row) for row in rows), default=1)
    height = HEIGHT * len(rows) + LEGEND
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>',
        *_legend(colours),
    ]
    for down, row in enumerate(rows):
        for right, panel in enumerate(row):
            place = f"translate({right * WIDTH} {LEGEND + down * HEIGHT})"
            parts += [f'<g transform="{place}">', *_panel(panel, colours), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _legend(colours: Mapping[str, str]) -> Iterator[str]:
    left = 12.0
    for name, colour in colours.items():
        yield f'<rect x="{left:.0f}" y="11" width="12" height="12" rx="2" fill="{colour}"/>'
        yield f'<text x="{left + 17:.0f}" y="21">{escape(name)}</text>'
        left += 34 + 6.6 * len(name)


def _panel(panel: Panel, colours: Mapping[str, str]) -> Iterator[str]:
    points = [point for line in panel.lines.values() for point in line]
    steps = ticks(max((y for _, y in points), default=1.0))
    marks = sorted({x for x, _ in points})
    down = Scale(0.0, steps[-1], HEIGHT - BOTTOM, TOP)
    across = Scale(
        _even(marks[0]) if marks else 0.0,
        _even(marks[-1]) if marks else 1.0,
        LEFT + 10,
        WIDTH - RIGHT - 10,
    )
    yield f'<text class="title" x="{LEFT}" y="16">{escape(panel.title)}</text>'
    for step in steps:
        y = down.at(step)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{step:g}</text>'
    for mark in marks:
        x = across.at(_even(mark))
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{mark:g}</text>'
    base = HEIGHT - BOTTOM
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    label = f"{panel.up} by {panel.across}"
    yield f'<text x="{middle:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(label)}</text>'
    for name, line in panel.lines.items():
        places = [(across.at(_even(x)), down.at(y)) for x, y in line]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polyline class="line" stroke="{colours[name]}" points="{drawn}"/>'
        for x, y in places:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colours[name]}"/>'


def _even(load: float) -> float:
    """Loads double from one to the next, so their logarithms lie evenly."""
    return math.log2(load) if load > 0 else 0.0


def ticks(most: float) -> list[float]:
    """Round numbers from 0 to at least `most`, some five of them."""
    if most <= 0:
        return [0.0, 1.0]
    rough = most / 4
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= rough)
    return [step * number for number in range(math.ceil(most / step) + 1)]
