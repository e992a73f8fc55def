"""The engine's door: starts the device thread, takes requests and jobs, closes everything.

Its methods belong to the event loop. What a model or a request means it does not know.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial

from slipstream.contracts.backend import Backend
from slipstream.contracts.clock import Clock
from slipstream.contracts.errors import Fault, ModelError, SlipstreamError, Unavailable
from slipstream.contracts.limits import Limits
from slipstream.contracts.placement import Abilities
from slipstream.contracts.report import EngineStats
from slipstream.contracts.row import Prompt
from slipstream.engine.admission import Admission
from slipstream.engine.desk import Desk
from slipstream.engine.driver import Driver, load
from slipstream.engine.lease import Job, T
from slipstream.engine.mailbox import Close, Delivery, Mailbox
from slipstream.engine.session import Session
from slipstream.engine.times import Tell

STALLED_SECONDS = 120.0  # a turn that takes longer is taken for stuck


class State(StrEnum):
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    DRAINING = "draining"
    CLOSED = "closed"


class Gateway:
    """`backend_factory` is called once, on the device thread, and may take its time."""

    def __init__(
        self,
        backend_factory: Callable[[], Backend],
        limits: Limits,
        clock: Clock,
        tell: Tell | None = None,
    ) -> None:
        """`tell` hears of the times of every turn, on the device thread."""
        self.state = State.LOADING
        self.failure: SlipstreamError | None = None
        self._factory = backend_factory
        self._limits = limits
        self._clock = clock
        self._tell_times = tell
        self._mailbox = Mailbox(self._deliver)
        self._admission = Admission(limits, clock)
        self._desk = Desk(self._admission, self._mailbox, limits, clock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._driver: Driver | None = None
        self._loaded = asyncio.Event()  # or never will be
        self._gone = asyncio.Event()  # the device thread has nothing more to say

    def start(self) -> None:
        """Starts loading. To be called once, with the loop running."""
        assert self._thread is None
        self._loop = asyncio.get_running_loop()
        # A daemon: a process that gives up while a model loads must be able to end.
        self._thread = threading.Thread(target=self._main, name="slipstream-device", daemon=True)
        self._thread.start()

    async def wait_ready(self) -> None:
        """Until requests are taken. Raises ModelError when loading failed, Unavailable when
        the engine was closed first."""
        await self._loaded.wait()
        if self.failure is not None:
            raise self.failure
        self._refuse_unless_ready()

    @property
    def abilities(self) -> Abilities:
        """What the loaded model can do; the defaults before it is ready."""
        return self._mailbox.snapshot.abilities

    def submit(self, prompts: Sequence[Prompt]) -> tuple[Session, ...]:
        """Places and queues the choices of one request, all or none; see Desk.submit.

        Raises InvalidRequest, QueueFull, or Unavailable while loading and draining."""
        self._refuse_unless_ready()
        return self._desk.submit(prompts)

    async def run_exclusive(self, job: Job[T], name: str) -> T:
        """Runs `job` on the device thread while all rows rest; FIFO among its like.

        Gives its result or raises its error. Cancelling this takes the job out of the queue,
        or closes the generator between two of its units. Raises Unavailable as `submit` does,
        and Cancelled when the engine closes first."""
        self._refuse_unless_ready()
        return await self._desk.run(job, name, idle=False)

    async def run_when_idle(self, job: Job[T], name: str) -> T:
        """As `run_exclusive`, but a unit starts only when nothing else waits or runs."""
        self._refuse_unless_ready()
        return await self._desk.run(job, name, idle=True)

    def using(self, adapter: str) -> int:
        """Requests' rows that wait or run with it."""
        return self._desk.using(adapter)

    async def unused(self, adapter: str) -> None:
        """Until there are none."""
        await self._desk.unused(adapter)

    def stats(self) -> EngineStats:
        return self._desk.stats()

    def health(self) -> str | None:
        """None while the driver turns, sleeps or loads; otherwise what is wrong."""
        if self.failure is not None:
            return str(self.failure)
        if self.state is State.CLOSED:
            return "The engine is closed."
        since = self._driver.busy_since if self._driver else None
        if since is not None and (seconds := self._clock.now() - since) > STALLED_SECONDS:
            held = self.stats().lease_held_by
            where = f" in the job {held}" if held else ""
            return f"The device thread has been in one turn{where} for {seconds:.0f} s."
        return None

    async def close(self, drain: float) -> None:
        """Refuses new work, ends the queue, gives rows `drain` seconds, then ends them too.

        Returns once everything is released and the thread is gone. Idempotent: a second call
        waits for the same end, and a shorter `drain` brings it nearer. A model that is still
        loading is awaited and dropped."""
        if self._thread is None:
            self._settle_closed()
            return
        if self.state in (State.LOADING, State.READY):
            self.state = State.DRAINING
        self._desk.end_queue()
        self._mailbox.post(Close(self._clock.now() + drain))
        await self._gone.wait()
        self._thread.join()
        self._settle_closed()

    def _settle_closed(self) -> None:
        self.state = State.CLOSED
        self._loaded.set()

    def _refuse_unless_ready(self) -> None:
        match self.state:
            case State.LOADING:
                raise Unavailable("The model is still loading. Try again in a moment.")
            case State.FAILED:
                raise Unavailable(f"No model can answer: {self.failure}")
            case State.DRAINING | State.CLOSED:
                raise Unavailable("The server is shutting down and takes no new requests.")

    # The device thread.

    def _main(self) -> None:
        try:
            backend = load(self._factory)
            self._driver = Driver(
                backend,
                self._admission,
                self._mailbox,
                self._limits,
                self._clock,
                self._tell_times,
            )
            self._tell(self._on_ready)
            self._driver.run()
        except ModelError as error:
            self._tell(partial(self._on_failed, error))
        finally:
            self._tell(self._on_gone)

    def _deliver(self, delivery: Delivery) -> None:
        self._tell(partial(self._desk.receive, delivery))

    def _tell(self, call: Callable[[], None]) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            self._loop.call_soon_threadsafe(call)

    # Back on the loop, in the order in which the thread told it.

    def _on_ready(self) -> None:
        if self.state is State.LOADING:
            self.state = State.READY
        self._loaded.set()

    def _on_failed(self, error: ModelError) -> None:
        self.failure = error

    def _on_gone(self) -> None:
        if self.state is not State.DRAINING:
            self.state = State.FAILED
            self.failure = self.failure or Fault("The device thread has died. Restart the server.")
        self._desk.fail_all(Fault("The device thread is gone; this request cannot go on."))
        self._loaded.set()
        self._gone.set()
