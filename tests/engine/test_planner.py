"""Who advances by how much."""

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.contracts.limits import Limits
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import RowSpec
from slipstream.engine.planner import QUIET_FLOOR, SCORED_CHUNK, Planner
from slipstream.testing.backend import FakeBackend, solo_run
from slipstream.testing.clock import ManualClock

from .rig import Rig, prompt


@dataclass(frozen=True)
class Wanting:
    """A row with nothing but tokens to compute."""

    spec: RowSpec
    pending: int
    cached: int = 0


def wanting(*pending):
    return [
        Wanting(RowSpec(key=key, lane=Lane.GROUP, prompt=prompt(), deadline=0.0), tokens)
        for key, tokens in enumerate(pending)
    ]


def shares(planner, *pending, running=False):
    rows = wanting(*pending)
    moves = {move.row.spec.key: move.tokens for move in planner.plan(rows, running)}
    return [moves.get(row.spec.key, 0) for row in rows]


def planner(chunk=100, floor=10, gap=0.2):
    return Planner(Limits(prefill_chunk=chunk, prefill_floor=floor, target_gap=gap))


def test_every_decoding_row_steps_whatever_the_chunk():
    assert shares(planner(chunk=1), 1, 1, 1, 50) == [1, 1, 1, 1]


def test_of_equal_prompts_the_first_is_ahead():
    assert shares(planner(chunk=200), 500, 500) == [150, 50]


def test_a_short_newcomer_is_not_stuck_behind_a_long_prompt():
    assert shares(planner(), 5000, 20) == [80, 20]


def test_what_short_rows_leave_goes_to_the_long_ones():
    assert shares(planner(), 10, 300, 20, 300) == [10, 70, 20, 0]


def test_with_few_tokens_half_of_them_goes_to_each_in_turn():
    scarce = planner(chunk=20)
    assert [shares(scarce, 90, 80, 70) for _ in range(3)] == [[10, 0, 10], [0, 10, 10], [0, 0, 20]]


def test_a_short_newcomer_passes_many_long_prompts():
    assert shares(planner(chunk=24), *[4000] * 10, 30)[-1] >= 12


def test_short_newcomers_leave_a_long_prompt_half_of_an_equal_share():
    turns = planner(chunk=80)
    assert sum(shares(turns, 4000, *[30] * 7)[0] for _ in range(8)) >= 8 * 5


def test_many_short_prompts_do_not_all_get_a_little():
    assert sum(map(bool, shares(planner(chunk=24), *[100] * 12))) <= 2


def test_a_row_that_others_wait_for_keeps_its_last_token():
    rows = wanting(9, 2, 1, 1)
    moves = planner().plan(rows, running=False, rooms={0: 8, 1: 1, 2: 0})
    assert [(move.row.spec.key, move.tokens) for move in moves] == [(0, 8), (1, 1), (3, 1)]


def test_a_prompt_that_is_scored_goes_in_small_chunks():
    scored = prompt(logprobs=1, prompt_logprobs=True)
    rows = wanting(2000, 2000)
    rows[0] = replace(rows[0], spec=replace(rows[0].spec, prompt=scored))
    moves = planner(chunk=1000, floor=1000).plan(rows, running=True)
    assert [move.tokens for move in moves] == [SCORED_CHUNK, 1000 - SCORED_CHUNK]


def test_with_no_row_running_a_turn_is_short_all_the_same():
    slow = planner(chunk=2048)
    slow.measure(255, 5.0)
    assert slow.budget(running=False) == QUIET_FLOOR


def test_with_no_row_running_a_cheap_chunk_doubles_up_to_the_limit():
    quick, budgets = planner(chunk=2048), []
    for _ in range(5):
        budgets.append(quick.budget(running=False))
        quick.measure(budgets[-1] - 1, 0.0001)
    assert budgets == [256, 512, 1024, 2048, 2048]


def test_with_no_row_running_equal_prompts_are_cut_alike_though_the_price_wavers():
    wavering, budgets = planner(chunk=2048), []
    for seconds in (0.2, 0.23, 0.19, 0.22, 0.2):
        wavering.measure(511, seconds)
        budgets.append(wavering.budget(running=False))
    assert budgets == [1024] * 5


def test_with_no_row_running_the_limit_is_the_limit():
    assert planner(chunk=100).budget(running=False) == 100


def test_an_unknown_price_is_paid_carefully():
    assert planner().budget(running=True) == 10


def test_the_chunk_fits_the_gap_of_running_rows():
    busy = planner(chunk=1000, gap=0.2)
    busy.measure(0, 0.05)
    busy.measure(100, 0.05 + 0.3)  # 3 ms a token
    assert busy.budget(running=True) == 50


def test_the_chunk_stays_between_its_limits():
    slow, fast = planner(), planner()
    slow.measure(10, 10.0)
    fast.measure(100, 0.0001)
    assert slow.budget(running=True) == 10
    assert fast.budget(running=True) == 100


def test_the_price_follows_what_is_measured():
    busy = planner(chunk=1000, gap=0.2)
    for seconds in [1.0] + [0.1] * 30:
        busy.measure(100, seconds)
    assert 195 <= busy.budget(running=True) <= 200


@settings(deadline=None)
@given(
    pending=st.lists(st.integers(2, 5000), min_size=1, max_size=12),
    chunk=st.integers(12, 2000),
)
def test_nobody_gets_less_than_half_of_an_equal_share(pending, chunk):
    taking = planner(chunk=chunk, floor=chunk)
    plans = [shares(taking, *pending, running=True) for _ in pending]
    got = [sum(plan) for plan in zip(*plans, strict=True)]
    due = chunk // 2 - len(pending)  # what rounding loses
    assert all(total >= min(want, due) for want, total in zip(pending, got, strict=True))


@settings(deadline=None)
@given(
    pending=st.lists(st.integers(1, 300), min_size=1, max_size=12),
    chunk=st.integers(1, 200),
)
def test_a_plan_spends_no_more_than_the_chunk_and_wastes_none(pending, chunk):
    plan = shares(planner(chunk=chunk, floor=1), *pending)
    fills = [(want, got) for want, got in zip(pending, plan, strict=True) if want > 1]
    assert all(got == 1 for want, got in zip(pending, plan, strict=True) if want == 1)
    assert all(got <= want for want, got in fills)
    assert sum(got for _, got in fills) == min(chunk, sum(want for want, _ in fills))


def test_running_rows_keep_their_gap_while_a_long_prompt_fills():
    clock = ManualClock()
    backend = FakeBackend(clock=clock, seconds_per_step=0.02, seconds_per_token=0.001)
    rig = Rig(backend, clock, target_gap=0.2, prefill_chunk=2048)
    runner = rig.read(rig.submit(prompt(*range(1, 60), max_tokens=200)))
    rig.turn(10)
    newcomer = prompt(*([7] * 3000), max_tokens=2)
    rig.submit(newcomer)
    gaps = []
    before = clock.now()
    while rig.turn() and len(runner.tokens) < 100:
        gaps.append(clock.now() - before)
        before = clock.now()
    assert 0.15 <= max(gaps) <= 0.25
    rig.finish()
    assert runner.tokens == solo_run(runner.session.spec.prompt)
