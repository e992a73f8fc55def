"""Who is served first under load, and how long the last one waits at most."""

from slipstream.engine.admission import AGING_SECONDS

from .rig import Rig, prompt


def finished(rig, sessions):
    """The names of sessions in the order in which they ended."""
    order = []
    while len(order) < len(sessions):
        rig.turn()
        order += [n for n, s in sessions.items() if s.outcome is not None and n not in order]
    return order


def test_under_load_rows_end_in_the_order_of_their_priorities():
    rig = Rig(batch=1)
    rig.submit()
    rig.turn()
    sessions = {priority: rig.submit(prompt(priority=priority)) for priority in (0, -2, 2, -1, 1)}
    assert finished(rig, sessions) == [2, 1, 0, -1, -2]
    rig.finish()


def test_rows_of_one_priority_end_in_the_order_in_which_they_came():
    rig = Rig(batch=1)
    sessions = {n: rig.submit(prompt(priority=1)) for n in range(5)}
    assert finished(rig, sessions) == [0, 1, 2, 3, 4]
    rig.finish()


def test_a_row_that_runs_is_not_put_off_by_a_more_urgent_one():
    rig = Rig(batch=1)
    first = rig.submit(prompt(priority=-2))
    rig.turn()
    assert finished(rig, {"low": first, "high": rig.submit(prompt(priority=2))}) == ["low", "high"]
    rig.finish()


def test_endless_urgent_work_holds_the_least_urgent_up_for_a_bounded_time():
    rig = Rig(batch=1, queue=1000)
    last = rig.submit(prompt(priority=-2, max_tokens=1))
    started = rig.clock.now()
    for _ in range(2):
        rig.submit(prompt(priority=2, max_tokens=1))
    while last.progress.admitted is None:
        rig.submit(prompt(priority=2, max_tokens=1))
        rig.turn()
        rig.clock.advance(0.5)
    waited = last.progress.admitted - started
    bound = 4 * AGING_SECONDS
    assert bound <= waited <= 3 * bound  # the queue before it, once nobody may pass it any more
    rig.finish()
