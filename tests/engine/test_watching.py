"""What a session and the driver say of themselves while they run: rows, hops, times."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict, fields
from pathlib import Path

import pytest

from slipstream.contracts.errors import ByOperator
from slipstream.contracts.report import RowState, TurnTimes
from slipstream.contracts.row import CancelReason
from slipstream.engine.times import Phase, Times, TurnLog
from slipstream.testing.clock import ManualClock

from .rig import Rig, prompt

FULL = Path("/dev/full")
LONG = tuple(range(1, 13))


def states(rig, session):
    """The row after each turn until it has ended."""
    found = [session.row(0)]
    while session.outcome is None:
        rig.turn()
        found.append(session.row(0))
    return found


def test_a_row_waits_fills_and_decodes():
    rig = Rig(prefill_chunk=4, prefill_floor=1)
    found = states(rig, rig.submit(prompt(*LONG, max_tokens=3)))
    seen = list(dict.fromkeys(row.state for row in found))
    assert seen == [RowState.QUEUED, RowState.PREFILL, RowState.DECODE]
    rig.finish()


def test_a_row_tells_how_far_it_is():
    rig = Rig(prefill_chunk=4, prefill_floor=1)
    found = states(rig, rig.submit(prompt(*LONG, max_tokens=3)))
    computed = [row.computed for row in found]
    assert computed == sorted(computed)
    assert {0, 4, 8, 12} <= {*computed}
    assert [*dict.fromkeys(row.generated for row in found)] == [0, 1, 2, 3]
    rig.finish()


def test_hops_follow_each_other_without_a_gap():
    rig = Rig()
    session = rig.submit(prompt(max_tokens=3))
    while session.outcome is None:
        rig.clock.advance(1.0)
        rig.turn()
    hops = session.hops
    assert [hop.name for hop in hops] == ["queue", "prefill", "decode"]
    assert all(before.end == after.start for before, after in itertools.pairwise(hops))
    assert [hop.end - hop.start > 0 for hop in hops] == [True, True, True]
    rig.finish()


def test_a_waiter_has_no_hops_and_nothing_has_happened_to_it():
    rig = Rig()
    session = rig.submit()
    assert (session.hops, session.moments) == ([], [])
    rig.finish()


def test_moments_tell_of_the_join_the_cache_the_first_token_and_the_leave():
    rig = Rig()
    session = rig.submit()
    rig.run()
    names = [moment.name for moment in session.moments]
    assert names == ["join", "cache", "first_token", "leave"]
    rig.finish()


def test_a_row_that_rests_for_a_job_tells_so():
    rig = Rig()
    session = rig.submit(prompt(max_tokens=9))
    rig.turn(2)
    rig.exclusive(lambda: None)
    rig.run()
    assert [moment.name for moment in session.moments].count("park") == 1
    rig.finish()


@pytest.mark.parametrize("turns", [0, 2])
def test_what_an_operator_ends_is_told_so_and_that_again_is_no_use(turns):
    rig = Rig()
    reader = rig.read(rig.submit(prompt(max_tokens=9)))
    rig.turn(turns)
    reader.session.cancel(CancelReason.OPERATOR)
    rig.finish()
    assert isinstance(reader.error, ByOperator)
    assert rig.desk.stats().finish == {"operator": 1}


def test_phases_are_the_fields_of_the_record():
    assert [field.name for field in fields(TurnTimes)] == [*Phase]


def test_every_moment_belongs_to_one_lap():
    clock = ManualClock()
    told = []
    times = Times(clock, lambda turn, spent: told.append((turn, spent)))
    for seconds, phase in ((1.0, Phase.IDLE), (2.0, Phase.STEP), (4.0, Phase.STEP)):
        clock.advance(seconds)
        times.lap(phase)
    times.end()
    clock.advance(8.0)
    times.lap(Phase.IDLE)
    assert told == [(1, TurnTimes(idle=1.0, step=6.0))]
    assert times.total == TurnTimes(idle=9.0, step=6.0)


def test_the_driver_books_all_of_its_time():
    rig = Rig()
    rig.submit(prompt(max_tokens=3))
    rig.clock.advance(5.0)
    rig.run()
    times = rig.desk.stats().times
    assert times.idle == 5.0
    assert sum(asdict(times).values()) == 5.0


def test_the_log_of_turns_is_a_line_of_json_each(tmp_path):
    log = TurnLog(tmp_path / "turns")
    log(1, TurnTimes(idle=1.5, step=0.25))
    log(2, TurnTimes())
    log.close()
    first, second = map(json.loads, (tmp_path / "turns").read_text().splitlines())
    assert (first["turn"], first["idle_ms"], first["step_ms"]) == (1, 1500.0, 250.0)
    assert set(second) == {"turn", *(f"{phase}_ms" for phase in Phase)}


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
def test_a_full_disk_ends_the_log_of_turns_and_nothing_else():
    log = TurnLog(FULL)
    for turn in range(2000):
        log(turn, TurnTimes())
    log.close()
