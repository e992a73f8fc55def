"""I9 and the door: a real thread and a real loop."""

import asyncio
import random
import threading
from contextlib import asynccontextmanager

import pytest

from slipstream.contracts.adapters import AdapterUse
from slipstream.contracts.clock import MonotonicClock
from slipstream.contracts.errors import (
    Cancelled,
    Fault,
    ModelError,
    QueueFull,
    SlipstreamError,
    Unavailable,
)
from slipstream.contracts.limits import Limits
from slipstream.contracts.placement import Abilities, Needs
from slipstream.contracts.row import CancelReason, Finished, Stopped
from slipstream.engine.gateway import STALLED_SECONDS, Gateway, State
from slipstream.testing.backend import FakeBackend, solo_run
from slipstream.testing.clock import ManualClock

from .rig import Faults, prompt, solo

LONG = 100_000


def gateway(backend, clock=None, **limits):
    return Gateway(lambda: backend, Limits(**limits), clock or MonotonicClock())


@asynccontextmanager
async def opened(backend=None, **options):
    """A ready gateway, closed and checked at the end."""
    backend = backend or FakeBackend()
    door = gateway(backend, **options)
    door.start()
    await door.wait_ready()
    try:
        yield door, backend
    finally:
        await door.close(drain=0)
        assert (backend.live_rows, backend.breaches, backend.closed) == (0, [], True)


def submit(door, asked):
    return door.submit([asked])[0]


async def read(session):
    return [event.token async for batch in session.batches() for event in batch]


def test_many_requests_at_once_draw_what_they_draw_alone():
    asked = [prompt(n, n + 1, max_tokens=n + 1) for n in range(20)] + [solo(3, max_tokens=9)]

    async def main():
        async with opened(batch=4) as (door, _):
            return await asyncio.gather(*(read(submit(door, each)) for each in asked))

    assert asyncio.run(main()) == [solo_run(each) for each in asked]


def test_the_counts_are_true_right_after_the_answer():
    async def main():
        async with opened() as (door, _):
            await read(submit(door, prompt(max_tokens=5)))
            return door.stats()

    stats = asyncio.run(main())
    assert (stats.group.active, stats.waiting, stats.generated_tokens) == (0, 0, 5)
    assert stats.finish == {"length": 1}


def test_nothing_is_taken_while_the_model_loads():
    hold = threading.Event()

    async def main():
        door = Gateway(lambda: hold.wait() and FakeBackend(), Limits(), MonotonicClock())
        door.start()
        with pytest.raises(Unavailable, match="loading") as refusal:
            submit(door, prompt())
        assert refusal.value.retry_after
        assert (door.state, door.health()) == (State.LOADING, None)
        hold.set()
        await door.wait_ready()
        assert door.state is State.READY
        await read(submit(door, prompt()))
        await door.close(drain=0)

    asyncio.run(main())


def test_a_model_that_cannot_be_loaded_is_told_to_everyone_who_asks():
    def factory():
        raise OSError("no such file")

    async def main():
        door = Gateway(factory, Limits(), MonotonicClock())
        door.start()
        for _ in range(2):
            with pytest.raises(ModelError, match="no such file"):
                await door.wait_ready()
        with pytest.raises(Unavailable, match="no such file"):
            submit(door, prompt())
        assert door.state is State.FAILED
        assert "no such file" in door.health()
        await door.close(drain=0)
        assert door.state is State.CLOSED

    asyncio.run(main())


def test_closing_while_the_model_loads_waits_for_it_and_drops_it():
    hold, backend = threading.Event(), FakeBackend()

    async def main():
        door = Gateway(lambda: hold.wait() and backend, Limits(), MonotonicClock())
        door.start()
        waiting = asyncio.create_task(door.wait_ready())
        closing = asyncio.create_task(door.close(drain=5))
        await asyncio.sleep(0)
        assert door.state is State.DRAINING
        hold.set()
        await closing
        with pytest.raises(Unavailable):
            await waiting

    asyncio.run(main())
    assert backend.closed


def test_closing_before_the_start_is_fine():
    async def main():
        door = gateway(FakeBackend())
        await door.close(drain=0)
        await door.close(drain=0)
        with pytest.raises(Unavailable):
            await door.wait_ready()

    asyncio.run(main())


def test_closing_ends_the_queue_lets_rows_finish_and_only_then_returns():
    async def main():
        async with opened(batch=1) as (door, backend):
            running = submit(door, prompt(max_tokens=400))
            await anext(running.batches())
            waiting = submit(door, prompt())
            closing = asyncio.create_task(door.close(drain=60))
            await asyncio.sleep(0)
            assert waiting.outcome == Stopped(CancelReason.SHUTDOWN)
            with pytest.raises(Unavailable, match="shutting down"):
                submit(door, prompt())
            await closing
            assert isinstance(running.outcome, Finished)
            assert backend.closed

    asyncio.run(main())


def test_closing_cuts_off_rows_that_take_longer_than_the_drain():
    async def main():
        async with opened(outbox=LONG) as (door, _):
            running = submit(door, prompt(max_tokens=LONG))
            await anext(running.batches())
            await door.close(drain=0)
            with pytest.raises(Cancelled, match="shutting down"):
                await read(running)

    asyncio.run(main())


def test_closing_again_with_less_patience_ends_sooner():
    async def main():
        async with opened(outbox=LONG) as (door, _):
            running = submit(door, prompt(max_tokens=LONG))
            await anext(running.batches())
            patient = asyncio.create_task(door.close(drain=10_000))
            await asyncio.sleep(0)
            await door.close(drain=0)
            await patient
            assert running.outcome == Stopped(CancelReason.SHUTDOWN)

    asyncio.run(main())


def test_no_thread_is_left_after_the_close():
    async def main():
        async with opened():
            assert "slipstream-device" in names()

    def names():
        return {thread.name for thread in threading.enumerate()}

    asyncio.run(main())
    assert "slipstream-device" not in names()


def test_jobs_run_on_the_device_thread_and_give_their_result():
    async def main():
        async with opened() as (door, _):
            submit(door, prompt(max_tokens=500))
            exclusive = await door.run_exclusive(lambda: threading.current_thread().name, "a")
            idle = await door.run_when_idle(lambda: 7, "b")
            return exclusive, idle

    assert asyncio.run(main()) == ("slipstream-device", 7)


def test_jobs_are_refused_when_closing():
    async def main():
        door = gateway(FakeBackend())
        with pytest.raises(Unavailable):
            await door.run_exclusive(lambda: None, "early")
        await door.close(drain=0)
        with pytest.raises(Unavailable):
            await door.run_when_idle(lambda: None, "late")

    asyncio.run(main())


def test_abilities_follow_what_a_job_changes():
    async def main():
        async with opened() as (door, backend):

            def mount():
                backend.abilities = type(backend.abilities)(adapters=frozenset({"sql"}))

            assert door.abilities.adapters == frozenset()
            await door.run_exclusive(mount, "mount")
            assert door.abilities.adapters == {"sql"}

    asyncio.run(main())


def test_a_turn_that_takes_too_long_is_unhealthy_and_names_the_job():
    clock, hold, begun = ManualClock(), threading.Event(), threading.Event()

    def job():
        yield
        begun.set()
        hold.wait()

    async def main():
        async with opened(clock=clock) as (door, _):
            running = asyncio.create_task(door.run_exclusive(job(), "convert"))
            await asyncio.to_thread(begun.wait)
            assert door.health() is None
            clock.advance(STALLED_SECONDS + 1)
            assert "convert" in door.health()
            hold.set()
            await running
            await door.run_exclusive(lambda: None, "after")
            await asyncio.to_thread(until, lambda: door.health() is None)

    asyncio.run(main())


def until(reached):
    while not reached():
        pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_device_thread_leaves_nobody_waiting():
    def die():
        raise SystemExit

    async def main():
        door = gateway(FakeBackend(), outbox=LONG)
        door.start()
        await door.wait_ready()
        session = submit(door, prompt(max_tokens=LONG))
        with pytest.raises(Fault, match="device thread"):
            await door.run_exclusive(die, "die")
        with pytest.raises(Fault, match="device thread"):
            await read(session)
        assert door.state is State.FAILED
        assert "died" in door.health()
        await door.close(drain=0)

    asyncio.run(main())


async def client(door, dice):
    """One request with whatever may happen to it; its prompt, tokens and end."""
    asked = (solo if dice.random() < 0.2 else prompt)(
        dice.randrange(90), *range(dice.randrange(30)), max_tokens=dice.randint(1, 40)
    )
    try:
        session = submit(door, asked)
    except (QueueFull, Unavailable):
        return None
    tokens, leave_after = [], dice.choice([0, 1, 5, LONG, LONG, LONG])
    try:
        async for batch in session.batches():
            tokens += [event.token for event in batch]
            if len(tokens) >= leave_after:
                session.cancel(dice.choice(list(CancelReason)))
    except SlipstreamError:
        pass
    return session, tokens


async def jobs(door, dice):
    for _ in range(10):
        run = dice.choice([door.run_exclusive, door.run_when_idle])
        units = (None for _ in range(dice.randrange(4)))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(run(units, "job"))
            if dice.random() < 0.3:
                await asyncio.sleep(0)
                task.cancel()


@pytest.mark.parametrize("seed", range(6))
def test_a_storm_of_clients_jobs_and_faults_ends_in_rest(seed):
    dice = random.Random(seed)
    faults = Faults()
    for _ in range(12):
        faults.at(dice.choice(["launch", "collect", "draw", "open"]), dice.randint(1, 120))

    async def main():
        async with opened(FakeBackend(fault=faults), batch=3, queue=40, prefill_chunk=16) as (
            door,
            _,
        ):
            clients = [client(door, dice) for _ in range(60)]
            ends = await asyncio.gather(jobs(door, dice), *clients)
            stats = door.stats()
        started = [end for end in ends if end is not None]
        for session, tokens in started:
            alone = solo_run(session.spec.prompt)
            assert tokens == alone[: len(tokens)]
            assert session.outcome is not None
            if isinstance(session.outcome, Finished):
                assert tokens == alone
        assert sum(stats.finish.values()) == len(started)
        assert (stats.group.active, stats.solo.active, stats.waiting) == (0, 0, 0)

    asyncio.run(main())


def test_who_wants_an_adapter_is_counted_until_the_last_one_has_ended():
    wanted = Needs(adapters=(AdapterUse("sql", 0.5), AdapterUse("law")))

    async def main():
        backend = FakeBackend(abilities=Abilities(adapters=frozenset({"sql", "law"})))
        async with opened(backend, batch=1) as (door, _):
            sessions = [submit(door, prompt(n, max_tokens=LONG, needs=wanted)) for n in (1, 2)]
            other = submit(door, prompt(3, max_tokens=LONG))
            assert (door.using("sql"), door.using("law"), door.using("x")) == (2, 2, 0)
            gone = asyncio.create_task(door.unused("sql"))
            for session in sessions:
                assert not gone.done()
                session.cancel(CancelReason.DISCONNECT)
                await asyncio.gather(read(session), return_exceptions=True)
            await gone
            assert door.using("sql") == 0
            assert other.outcome is None

    asyncio.run(main())
