"""P3, I4, I5: exclusive jobs and idle jobs, beside rows."""

from slipstream.contracts.errors import Cancelled
from slipstream.contracts.row import CancelReason
from slipstream.engine.mailbox import Close
from slipstream.testing.backend import FakeBackend, solo_run

from .rig import Faults, Rig, prompt


class Log(list):
    """Jobs that write down what they do."""

    def job(self, name, steps):
        for step in range(steps):
            self.append(f"{name}{step}")
            yield
        return name

    def failing(self, name):
        self.append(name)
        yield
        raise LookupError("no such adapter")


def running(rig, **fields):
    """A row that decodes."""
    reader = rig.read(rig.submit(prompt(max_tokens=40, **fields)))
    rig.turn(3)
    return reader


def test_a_plain_callable_gives_its_result():
    rig = Rig()
    task = rig.exclusive(lambda: 42)
    rig.turn()
    assert task.result() == 42
    rig.finish()


def test_a_job_starts_within_one_turn_beside_running_rows():
    rig, log = Rig(), Log()
    running(rig)
    rig.exclusive(log.job("a", 2))
    rig.turn()
    assert log == ["a0"]
    rig.finish()


def test_no_row_steps_while_a_job_holds_the_device():
    rig, log = Rig(), Log()
    reader = running(rig)
    rig.exclusive(log.job("a", 3))
    before = len(rig.backend.plans)
    rig.turn(3)
    assert len(rig.backend.plans) == before
    assert rig.backend.live_rows == 1
    rig.finish()
    assert reader.tokens == solo_run(reader.session.spec.prompt)


def test_nobody_is_admitted_while_a_job_holds_the_device():
    rig, log = Rig(), Log()
    task = rig.exclusive(log.job("a", 3))
    rig.turn()
    rig.submit()
    rig.turn(2)
    assert rig.backend.opened == []
    rig.run()
    assert task.result() == "a"
    assert rig.backend.opened == [0]
    rig.finish()


def test_tokens_in_flight_are_delivered_before_a_job_begins():
    rig, log = Rig(), Log()
    reader = running(rig)
    rig.exclusive(log.job("a", 5))
    rig.turn()
    assert len(reader.tokens) == len(rig.backend.plans)
    rig.finish()


def test_rows_are_parked_once_for_a_job_of_many_units():
    faults = Faults()
    rig, log = Rig(FakeBackend(fault=faults)), Log()
    running(rig)
    rig.exclusive(log.job("a", 4))
    rig.finish()
    assert faults.counts["park"] == 1


def test_jobs_are_served_in_order():
    rig, log = Rig(), Log()
    for name in "abc":
        rig.exclusive(log.job(name, 1))
    rig.finish()
    assert log == ["a0", "b0", "c0"]


def test_with_no_rows_jobs_follow_each_other_at_once():
    rig = Rig()
    tasks = [rig.exclusive(lambda: None) for _ in range(3)]
    rig.turn(3)
    assert all(task.done() for task in tasks)
    rig.finish()


def test_between_two_jobs_the_rows_step():
    rig, log = Rig(), Log()
    running(rig)
    steps = len(rig.backend.plans)
    tasks = [rig.exclusive(lambda: None) for _ in range(3)]
    rig.turn(5)
    assert all(task.done() for task in tasks)
    assert len(rig.backend.plans) == steps + 2
    assert log == []
    rig.finish()


def test_endless_jobs_do_not_starve_a_row():
    rig = Rig()
    reader = running(rig)
    for _ in range(100):
        rig.exclusive(lambda: None)
        rig.turn()
    assert reader.session.outcome is not None
    rig.finish()
    assert reader.tokens == solo_run(reader.session.spec.prompt)


def test_cancelling_a_waiting_job_removes_only_it():
    rig, log = Rig(), Log()
    tasks = [rig.exclusive(log.job(name, 2)) for name in "abc"]
    rig.turn()
    tasks[1].cancel()
    rig.settle()
    rig.finish()
    assert log == ["a0", "a1", "c0", "c1"]
    assert [task.cancelled() for task in tasks] == [False, True, False]


def test_cancelling_a_running_job_closes_it_between_units():
    rig, log = Rig(), Log()

    def job():
        try:
            for step in range(9):
                log.append(step)
                yield
        finally:
            log.append("closed")

    task = rig.exclusive(job())
    rig.turn(2)
    task.cancel()
    rig.settle()
    rig.finish()
    assert log == [0, 1, "closed"]
    assert rig.desk.stats().lease_held_by is None


def test_a_job_that_fails_while_it_is_closed_hurts_nobody():
    rig = Rig()

    def job():
        try:
            yield
            yield
        finally:
            raise LookupError("too late")

    task = rig.exclusive(job())
    rig.turn()
    task.cancel()
    rig.settle()
    reader = rig.read(rig.submit())
    rig.finish()
    assert reader.error is None


def test_an_exception_in_a_job_goes_to_its_awaiter_only():
    rig, log = Rig(), Log()
    reader = running(rig)
    bad, good = rig.exclusive(log.failing("x")), rig.exclusive(log.job("y", 1))
    rig.finish()
    assert isinstance(bad.exception(), LookupError)
    assert good.result() == "y"
    assert reader.error is None


def test_the_stats_tell_who_holds_the_lease_and_how_many_wait():
    rig, log = Rig(), Log()
    rig.exclusive(log.job("a", 3), "load adapter")
    rig.exclusive(log.job("b", 1), "other")
    rig.turn()
    stats = rig.desk.stats()
    assert (stats.lease_held_by, stats.lease_waiting) == ("load adapter", 1)
    rig.finish()


def test_a_deadline_passes_while_a_job_holds_the_device():
    rig, log = Rig(request_timeout=10.0), Log()
    reader = running(rig)
    rig.exclusive(log.job("a", 3))
    rig.turn()
    rig.clock.advance(10)
    rig.turn()
    assert reader.error.reason is CancelReason.DEADLINE
    rig.finish()


def test_idle_work_waits_until_nothing_runs():
    rig, log = Rig(), Log()
    reader = running(rig)
    task = rig.idle(log.job("i", 2))
    rig.until(lambda: reader.session.outcome is not None)
    assert log in ([], ["i0"])
    rig.finish()
    assert task.result() == "i"


def test_idle_work_gives_way_between_units_and_goes_on_later():
    rig, log = Rig(), Log()
    task = rig.idle(log.job("i", 4))
    rig.turn(2)
    reader = rig.read(rig.submit(prompt(max_tokens=3)))
    rig.turn(3)
    assert log == ["i0", "i1"]
    rig.finish()
    assert log == ["i0", "i1", "i2", "i3"]
    assert task.result() == "i"
    assert reader.error is None


def test_idle_work_never_starts_while_a_request_waits():
    rig, log = Rig(), Log()
    rig.idle(log.job("i", 1))
    rig.submit()
    rig.turn()
    assert log == []
    rig.finish()


def test_idle_work_never_starts_when_a_request_came_in_the_middle_of_the_turn():
    late, log = [], Log()

    def submit_another(moment, specs):
        if moment == "collect" and not late:
            late.append(rig.submit())

    rig = Rig(FakeBackend(fault=submit_another))
    rig.submit(prompt(max_tokens=1))
    rig.idle(log.job("i", 1))
    rig.turn(2)
    assert rig.desk.stats().finish == {"length": 1}
    assert log == []
    rig.finish()


def test_idle_work_never_starts_while_a_job_waits_for_the_turn_it_owes():
    rig, log = Rig(FakeBackend(fault=Faults().at("launch", 2).at("launch", 3))), Log()
    rig.submit()
    rig.turn()
    rig.exclusive(lambda: log.append("a")), rig.exclusive(lambda: log.append("b"))
    rig.idle(lambda: log.append("i"))
    rig.turn(2)  # the job, and then the turn in which the last row fails
    assert log == ["a"]
    rig.finish()
    assert log == ["a", "b", "i"]


def test_exclusive_work_goes_before_idle_work():
    rig, log = Rig(), Log()
    rig.idle(log.job("i", 2))
    rig.turn()
    rig.exclusive(log.job("e", 2))
    rig.finish()
    assert log == ["i0", "e0", "e1", "i1"]


def test_idle_jobs_are_served_in_order():
    rig, log = Rig(), Log()
    rig.idle(log.job("a", 2)), rig.idle(log.job("b", 1))
    rig.finish()
    assert log == ["a0", "a1", "b0"]


def test_a_cancelled_idle_job_is_closed_once():
    rig, log = Rig(), Log()
    task = rig.idle(log.job("i", 9))
    rig.turn()
    task.cancel()
    rig.settle()
    rig.finish()
    assert log == ["i0"]
    assert rig.desk.stats().lease_waiting == 0


def test_closing_ends_waiting_jobs_and_lets_the_running_one_drain():
    rig, log = Rig(), Log()
    held, waiting, idle = (
        rig.exclusive(log.job("a", 3)),
        rig.exclusive(log.job("b", 1)),
        rig.idle(log.job("i", 1)),
    )
    rig.turn()
    rig.mailbox.post(Close(rig.clock.now() + 5))
    rig.finish()
    assert held.result() == "a"
    for task in (waiting, idle):
        assert isinstance(task.exception(), Cancelled)
    assert rig.driver.closed


def test_closing_cuts_a_job_off_that_takes_too_long():
    rig, log = Rig(), Log()
    held = rig.exclusive(log.job("a", 1000))
    rig.turn()
    rig.mailbox.post(Close(rig.clock.now() + 5))
    rig.turn()
    rig.clock.advance(5)
    assert rig.turn() is False
    assert isinstance(held.exception(), Cancelled)
    assert rig.driver.closed


def test_a_second_close_does_not_put_the_first_one_off():
    rig = Rig()
    running(rig)
    for drain in (5, 500):
        rig.mailbox.post(Close(rig.clock.now() + drain))
    rig.turn()
    rig.clock.advance(5)
    rig.turn()
    assert rig.driver.closed
