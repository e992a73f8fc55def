"""`bench tracing`: the cost of traces is the speed without them over the speed with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstream.bench.tracing import FILE, OFF, TURNS, cases, rows
from slipstream.settings import flags


def test_the_cost_of_no_traces_is_one_and_of_half_the_speed_two():
    found = {row["traces"]: row for row in rows({OFF: [10.0, 20.0], FILE: [5.0, 10.0]})}
    assert (found[OFF]["cost"], found[FILE]["cost"]) == (1.0, 2.0)
    assert found[FILE]["from"] == found[FILE]["to"] == 2.0


def test_rounds_are_compared_one_by_one_so_that_a_slow_one_harms_nobody():
    (_, traced) = rows({OFF: [100.0, 1.0, 50.0], FILE: [100.0, 1.0, 50.0]})
    assert (traced["cost"], traced["from"], traced["to"]) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("name", [OFF, FILE, TURNS])
def test_each_case_is_a_command_line_that_serve_takes(name: str, tmp_path: Path):
    given = cases(tmp_path)[name][::2]
    assert {*given} == {OFF: set(), FILE: {"--trace"}, TURNS: {"--trace", "--trace-turns"}}[name]
    assert {*given} <= {spelling for flag in flags().values() for spelling in flag.names}
