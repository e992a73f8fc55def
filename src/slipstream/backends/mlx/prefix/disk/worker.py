"""One thread that does what it is handed, in order, and that nobody must wait for.

The executors of the standard library are waited for when the process ends, so that a disk which
hangs would keep it from ending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")


class Worker:
    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._ended = threading.Event()
        self._start()

    def _start(self) -> None:
        threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        try:
            while (task := self._tasks.get()) is not None:
                task()
        except BaseException:
            self._start()  # another one goes on with the next task
            raise
        self._ended.set()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """What `work` gives or raises. After `close` nothing is done any more."""
        future: Future[T] = Future()

        def task() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
                raise

        self._tasks.put(task)
        return future

    def close(self, seconds: float) -> bool:
        """Does what it was handed, and ends. False when that takes longer than `seconds`."""
        self._tasks.put(None)
        return self._ended.wait(seconds)
