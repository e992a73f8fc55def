"""The engine in this process: jobs that need the device to themselves, beside requests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Generator, Sequence

import pytest

from slipstream import Engine
from slipstream.contracts.delta import Delta
from slipstream.contracts.errors import InvalidRequest

pytestmark = pytest.mark.anyio

LENGTH = 12  # tokens
PROMPTS = [f"Count from {n} to {n + 9}:" for n in range(8)]


@pytest.fixture(scope="module")
async def engine() -> AsyncIterator[Engine]:
    async with Engine.load(batch=8) as opened:
        yield opened


class Stream:
    """One request's pieces; `begun` once the first has come."""

    def __init__(self, engine: Engine, prompt: str) -> None:
        message = {"role": "user", "content": prompt}
        self._deltas = engine.stream([message], max_tokens=LENGTH, temperature=0, ignore_eos=True)
        self.begun = asyncio.Event()
        self.pieces: list[Delta] = []
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> str:
        async for delta in self._deltas:
            self.pieces.append(delta)
            self.begun.set()
        return "".join(delta.text for delta in self.pieces)


async def texts(streams: Sequence[Stream]) -> list[str]:
    return await asyncio.gather(*(stream.task for stream in streams))


async def test_exclusive_work_runs_beside_streams_that_do_not_notice(engine: Engine) -> None:
    alone = [(await texts([Stream(engine, prompt)]))[0] for prompt in PROMPTS]
    streams = [Stream(engine, prompt) for prompt in PROMPTS]
    for stream in streams:
        await stream.begun.wait()

    def job() -> Generator[None, None, list[tuple[int, int, int]]]:
        seen = []
        for _ in range(3):
            now = engine.stats()
            seen.append((now.turns, now.generated_tokens, now.group.active))
            yield
        return seen

    asked = engine.stats().turns
    seen = await engine.run_exclusive(job(), "inspection")
    turns, generated, active = zip(*seen, strict=True)
    assert turns[0] - asked <= 1, "the turn that ran when it was asked for, and no other"
    # What was in flight is read before the first unit, and counted after it.
    assert generated[1] == generated[2], "no row moves while the job holds the device"
    assert active == (8, 8, 8), "and none loses its place"
    assert await texts(streams) == alone
    assert engine.stats().lease_held_by is None


async def test_idle_work_never_overlaps_a_request(engine: Engine) -> None:
    halfway, submitted = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    before = engine.stats().group.submitted
    seen = []  # at each unit: rows that run, requests that wait, requests so far

    def job() -> Generator[None, None, None]:
        for unit in range(4):
            now = engine.stats()
            seen.append((now.group.active, now.waiting, now.group.submitted - before))
            if unit == 1:
                loop.call_soon_threadsafe(halfway.set)
                submitted.wait()
            yield

    running = [Stream(engine, prompt) for prompt in PROMPTS[:3]]
    await running[0].begun.wait()
    idle = asyncio.create_task(engine.run_when_idle(job(), "tidying"))
    await halfway.wait()
    late = Stream(engine, PROMPTS[3])
    await asyncio.sleep(0)  # by now it is submitted, in the middle of a unit
    submitted.set()
    await idle
    assert seen == [(0, 0, 3), (0, 0, 3), (0, 0, 4), (0, 0, 4)]
    assert all(await texts([*running, late]))


async def test_leaving_a_stream_early_ends_its_row(engine: Engine) -> None:
    before = engine.stats().finish.get("disconnect", 0)
    message = {"role": "user", "content": PROMPTS[0]}
    running = engine.stream([message], max_tokens=200, ignore_eos=True)
    async for _ in running:
        break
    await running.aclose()
    answer = await engine.generate("The capital of France is", max_tokens=4, temperature=0)
    assert "Paris" in answer.text
    now = engine.stats()
    assert now.finish["disconnect"] == before + 1 and now.group.active == 0


async def test_giving_up_while_the_model_loads_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    engine = Engine.load()
    entering = asyncio.create_task(engine.__aenter__())
    await asyncio.sleep(0)
    entering.cancel()
    await asyncio.wait({entering})
    assert entering.cancelled() and threading.active_count() == before


async def test_several_choices_are_streamed_side_by_side(engine: Engine) -> None:
    message = {"role": "user", "content": PROMPTS[0]}
    fields = {"max_tokens": LENGTH, "temperature": 1, "seed": 5, "ignore_eos": True}
    found = [delta async for delta in engine.stream([message], choices=3, **fields)]
    texts = ["".join(d.text for d in found if d.choice == choice) for choice in range(3)]
    alone = [await engine.chat([message], **{**fields, "seed": 5 + choice}) for choice in range(3)]
    assert texts == [one.text for one in alone]
    with pytest.raises(InvalidRequest):
        await engine.chat([message], choices=3, **fields)
