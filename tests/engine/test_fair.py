"""Prompts that fill share the device fairly, and rows that run keep their gap."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.engine.planner import QUIET_FLOOR
from slipstream.testing.backend import FakeBackend, solo_run
from slipstream.testing.clock import ManualClock

from .rig import Rig, prompt

GAP = 0.2
LONG = 4000


def priced(step=0.02, token=0.0005, pair=0.0, **limits):
    """A device whose forwards take `step`, and more for each token and each pair it attends to."""
    clock = ManualClock()
    backend = FakeBackend(
        clock=clock, seconds_per_step=step, seconds_per_token=token, seconds_per_pair=pair
    )
    return Rig(backend, clock, target_gap=GAP, **limits)


def long(first, length=LONG):
    return prompt(first, *[7] * (length - 1), max_tokens=2)


def running(rig, count=4):
    """Rows that decode, once the price of a prompt token is learned."""
    runners = [rig.read(rig.submit(prompt(n, max_tokens=2000))) for n in range(count)]
    rig.turn(5)
    learned = rig.read(rig.submit(long(9)))
    rig.until(lambda: len(learned.tokens) == 2, limit=1000)
    return runners


def gaps(rig, reached, limit=1000):
    """Seconds of each turn until something is reached."""
    found = []
    for _ in range(limit):
        if reached():
            return found
        before = rig.clock.now()
        rig.turn()
        found.append(rig.clock.now() - before)
    raise AssertionError("it was not reached")


def end(rig, runners):
    """The runners have shown what they had to."""
    for runner in runners:
        runner.session.cancel("disconnect")
    rig.finish()


def test_a_short_prompt_among_long_ones_has_its_token_within_three_turns():
    rig = priced()
    runners = running(rig)
    rig.submit(long(1)), rig.submit(long(2))
    rig.turn(3)
    short = rig.read(rig.submit(prompt(*range(20))))
    rig.turn(3)
    assert len(short.tokens) >= 1
    end(rig, runners)


@pytest.mark.parametrize("pair", [0.0, 1e-7, 2.5e-7])
def test_running_rows_keep_their_gap_while_prompts_fill(pair):
    rig = priced(pair=pair)
    runners = running(rig)
    readers = [rig.read(rig.submit(long(n))) for n in range(2)]
    found = gaps(rig, lambda: all(reader.tokens for reader in readers))
    assert max(found) <= GAP * 1.25
    end(rig, runners)


def test_a_very_long_prompt_whose_chunks_grow_dearer_keeps_the_gap():
    rig = priced(pair=1.25e-7, prefill_chunk=8192)
    runners = running(rig, count=1)
    reader = rig.read(rig.submit(long(1, 20_000)))
    found = gaps(rig, lambda: reader.tokens)
    assert max(found) <= GAP * 1.25
    end(rig, runners)


def test_the_gap_is_used_once_the_price_is_known():
    rig = priced()
    runners = running(rig)
    reader = rig.read(rig.submit(long(1)))
    found = sorted(gaps(rig, lambda: reader.tokens))
    assert found[len(found) // 2] >= GAP * 0.8
    end(rig, runners)


def test_the_first_prompt_beside_running_rows_does_not_break_their_gap():
    rig = priced(token=0.001)
    runner = rig.read(rig.submit(prompt(1, max_tokens=500)))
    rig.turn(5)
    reader = rig.read(rig.submit(long(2)))
    assert max(gaps(rig, lambda: reader.tokens)) <= GAP * 1.25
    end(rig, [runner])


def test_a_device_for_which_small_chunks_are_free_is_not_trusted_with_large_ones():
    rig = priced(step=0.02, token=0.0, pair=5e-8)
    runner = rig.read(rig.submit(prompt(1, max_tokens=500)))
    rig.turn(5)
    reader = rig.read(rig.submit(long(2)))
    assert max(gaps(rig, lambda: reader.tokens)) <= GAP * 1.25
    end(rig, [runner])


def test_the_chunk_never_falls_under_the_floor():
    rig = priced(token=0.1, prefill_floor=16)
    runner = rig.read(rig.submit(prompt(1, max_tokens=500)))
    rig.turn(3)
    rig.submit(long(2, 200))
    rig.turn(8)
    filled = [sum(plan.values()) - 1 for plan in rig.backend.plans[-6:]]
    assert filled == [16] * 6
    end(rig, [runner])


def seconds_of_long_prompts(shorts):
    rig = priced()
    runners = running(rig)
    start = rig.clock.now()
    readers = [rig.read(rig.submit(long(n))) for n in range(2)]
    rig.turn(2)
    for n in range(shorts):
        rig.submit(prompt(*range(n, n + 20), max_tokens=1))
        rig.turn()
    gaps(rig, lambda: all(reader.tokens for reader in readers))
    seconds = rig.clock.now() - start
    end(rig, runners)
    return seconds


def test_long_prompts_lose_little_to_short_ones():
    assert seconds_of_long_prompts(shorts=8) <= 1.1 * seconds_of_long_prompts(shorts=0)


def test_short_prompts_fill_in_one_forward():
    rig = priced()
    runners = running(rig, count=1)
    shorts = [rig.submit(prompt(*range(n, n + 20))) for n in range(5)]
    rig.turn()
    plan = rig.backend.plans[-1]
    assert [plan[short.spec.key] for short in shorts] == [20] * 5
    end(rig, runners)


def test_a_newcomer_beside_a_long_prompt_alone_waits_for_three_short_turns():
    rig = priced(token=0.003)
    longer = rig.read(rig.submit(long(1)))
    rig.turn(3)
    came = rig.clock.now()
    short = rig.read(rig.submit(prompt(*range(20), max_tokens=2)))
    rig.until(lambda: short.tokens)
    assert rig.clock.now() - came <= 3 * (0.02 + 0.003 * QUIET_FLOOR)
    assert not longer.tokens
    rig.finish()


@settings(max_examples=30, deadline=None)
@given(
    longs=st.lists(st.integers(500, 4000), max_size=10),
    shorts=st.lists(st.tuples(st.integers(0, 30), st.integers(2, 40)), min_size=1, max_size=8),
    token=st.sampled_from([0.0005, 0.003, 0.01]),
)
def test_many_long_prompts_hold_up_neither_running_rows_nor_newcomers(longs, shorts, token):
    rig = priced(token=token, batch=20)
    runner = rig.read(rig.submit(prompt(1, max_tokens=2000)))
    rig.turn(5)
    for number, length in enumerate(longs):
        rig.submit(long(10 + number, length))
    came = {}
    turns, worst, floor = 0, 0.0, rig.limits.prefill_floor
    while len(came) < len(shorts) or not all(reader.tokens for reader, _ in came.values()):
        for number, (turn, length) in enumerate(shorts):
            if turn == turns:
                ids = [20 + number, *range(1, length)]
                came[number] = rig.read(rig.submit(prompt(*ids, max_tokens=1))), turn
        before = rig.clock.now()
        rig.turn()
        worst = max(worst, rig.clock.now() - before)
        turns += 1
        for reader, turn in came.values():
            waited = turns - turn
            assert reader.tokens or waited <= 4 + sum(length for _, length in shorts) / 10
    assert worst <= max(GAP * 1.25, 0.02 + 1.25 * floor * token)
    runner.session.cancel("disconnect")
    rig.run(limit=5000)
    rig.finish()


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 200), min_size=1, max_size=10),
    chunk=st.integers(1, 64),
    batch=st.integers(1, 8),
)
def test_nobody_starves(lengths, chunk, batch):
    rig = Rig(batch=batch, prefill_chunk=chunk, prefill_floor=1)
    readers = [
        rig.read(rig.submit(prompt(n, *[7] * (length - 1), max_tokens=3)))
        for n, length in enumerate(lengths)
    ]
    rig.run(limit=sum(lengths) + 10 * len(lengths))
    for reader in readers:
        assert reader.tokens == solo_run(reader.session.spec.prompt)
    rig.finish()
