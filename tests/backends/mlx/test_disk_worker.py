"""One thread does what it is handed in order, outlives no process, and is not waited for."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from slipstream.backends.mlx.prefix.disk.worker import Worker

# A thread that ends by an error may still be on its way out when the next test begins.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


def test_what_is_handed_over_is_done_in_order_before_it_closes():
    worker, done = Worker("w"), []
    for n in range(100):
        worker.submit(lambda n=n: done.append(n))
    assert worker.close(10)
    assert done == list(range(100))


def test_what_a_task_gives_is_in_its_future():
    worker = Worker("w")
    assert worker.submit(lambda: 7).result(10) == 7
    assert worker.close(10)


def test_one_that_was_cancelled_is_left_out():
    worker, go = Worker("w"), threading.Event()
    worker.submit(lambda: go.wait(10))
    second = worker.submit(lambda: pytest.fail("it was done"))
    assert second.cancel()
    go.set()
    assert worker.close(10)


def test_an_error_goes_to_whoever_awaits_and_the_next_task_is_done():
    worker = Worker("w")
    with pytest.raises(ZeroDivisionError):
        worker.submit(lambda: 1 / 0).result(10)
    assert worker.submit(lambda: 7).result(10) == 7
    assert worker.close(10)


def test_one_that_was_never_used_closes():
    assert Worker("w").close(10)


def test_a_task_that_hangs_holds_up_neither_closing_nor_the_end_of_the_process():
    program = """
import threading
from slipstream.backends.mlx.prefix.disk.worker import Worker
worker = Worker("w")
worker.submit(threading.Event().wait)
print(worker.close(0.01))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120)
    assert ended.stdout.split() == [b"False"]
