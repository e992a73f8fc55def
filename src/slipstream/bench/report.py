"""How every bench ends: a table, and one line of JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TextIO

Row = Mapping[str, float | int | str | None]


def render(rows: Sequence[Row]) -> str:
    """Rows of equal keys as aligned columns."""
    if not rows:
        return ""
    names = list(rows[0])
    cells = [[spoken(row[name]) for name in names] for row in rows]
    widths = [max(len(line[i]) for line in [names, *cells]) for i in range(len(names))]
    lines = [names, *cells]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )


def line(row: Row) -> str:
    """One row by itself, as it comes: name=value."""
    return "  ".join(f"{name}={spoken(value)}" for name, value in row.items())


def spoken(value: float | int | str | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
    return str(value)


def finish(name: str, rows: Sequence[Row], out: TextIO, **more: object) -> None:
    """Prints the table and the last line."""
    print(render(rows), file=out)
    print(json.dumps({"bench": name, "rows": list(rows), **more}), file=out)
