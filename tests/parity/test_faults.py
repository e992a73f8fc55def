"""Who fails and who goes on, when something breaks inside a batch on the real backend."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import mlx.nn as nn
import pytest

from slipstream.backends.mlx.backend import MlxBackend
from slipstream.backends.mlx.device import open_device
from slipstream.contracts.clock import MonotonicClock
from slipstream.contracts.errors import Fault, RowFault
from slipstream.contracts.limits import Limits
from slipstream.contracts.row import CancelReason, Prompt
from slipstream.contracts.sampling import Sampling
from slipstream.engine.gateway import Gateway

from . import tiny

SAYS = 12


class Breakable(nn.Module):
    """A model that raises in its forward when it is told to, or when it sees a token."""

    def __init__(self, held: nn.Module) -> None:
        super().__init__()
        self.held = held
        self._armed: list[int] = []  # forwards from now on after which one raises
        self._poison: int | None = None

    @property
    def layers(self) -> Any:
        return self.held.layers

    def break_after(self, forwards: int) -> None:
        self._armed.append(forwards)

    def poison(self, token: int) -> None:
        self._poison = token

    def __call__(self, tokens: Any, cache: Any = None) -> Any:
        self._armed = [left - 1 for left in self._armed]
        if -1 in self._armed:
            self._armed.remove(-1)
            raise RuntimeError("the device hiccuped")
        # Reads the input, which a real model never does; prompts of these tests are on the host.
        if self._poison is not None and self._poison in tokens.tolist()[0]:
            raise RuntimeError("this token breaks the forward")
        return self.held(tokens, cache=cache)


class Model:
    def __init__(self) -> None:
        self.breakable = Breakable(tiny.build("llama"))

    def backend(self) -> MlxBackend:
        return MlxBackend(self.breakable, open_device(), tiny.VOCABULARY)


@asynccontextmanager
async def running(model: Model, **limits: Any) -> AsyncIterator[Gateway]:
    gateway = Gateway(model.backend, Limits(batch=8, **limits), MonotonicClock())
    gateway.start()
    await gateway.wait_ready()
    try:
        yield gateway
    finally:
        await gateway.close(0)


def prompt(seed: int, says: int = SAYS, **more: Any) -> Prompt:
    ids = tuple((seed * 11 + 5 * i) % 90 for i in range(6 + seed))
    return Prompt(ids=ids, max_tokens=says, sampling=Sampling(temperature=0.7, seed=seed), **more)


async def said(gateway: Gateway, asked: Prompt) -> list[int]:
    (session,) = gateway.submit([asked])
    return [event.token async for batch in session.batches() for event in batch]


async def alone(prompts: Sequence[Prompt]) -> list[list[int]]:
    async with running(Model()) as gateway:
        return [await said(gateway, asked) for asked in prompts]


async def together(gateway: Gateway, prompts: Sequence[Prompt]) -> list[Any]:
    return await asyncio.gather(*(said(gateway, p) for p in prompts), return_exceptions=True)


def check(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


@pytest.mark.parametrize("after", [0, 1, 4, 9])
def test_a_forward_that_fails_once_costs_nobody_a_token(after: int) -> None:
    async def scenario() -> None:
        prompts = [prompt(seed) for seed in range(5)]
        expected = await alone(prompts)
        model = Model()
        async with running(model) as gateway:
            model.breakable.break_after(after)
            assert await together(gateway, prompts) == expected
            assert await said(gateway, prompts[0]) == expected[0]

    check(scenario())


def test_a_row_whose_prompt_breaks_the_forward_fails_alone() -> None:
    async def scenario() -> None:
        good = [prompt(seed) for seed in range(4)]
        bad = Prompt(ids=(1, 2, 95, 3), max_tokens=SAYS)
        expected = await alone(good)
        model = Model()
        async with running(model) as gateway:
            model.breakable.poison(95)
            *others, failed = await together(gateway, [*good, bad])
            assert isinstance(failed, Fault)
            # A sound row may draw the poisoned token itself, and then it is guilty too.
            for mine, theirs in zip(others, expected, strict=True):
                assert mine == theirs or 95 in theirs
            assert (await said(gateway, prompt(1)) == expected[1]) or 95 in expected[1]

    check(scenario())


class Throwing:
    """A grammar that allows everything for a while, and then throws."""

    def __init__(self, part: str, after: int) -> None:
        self.part = part
        self.left = after

    def _maybe(self, part: str) -> None:
        if part == self.part:
            self.left -= 1
            if self.left < 0:
                raise ValueError("a broken grammar")

    def allowed(self) -> bytes:
        self._maybe("allowed")
        return b"\xff" * 16

    def forced(self) -> Sequence[int]:
        self._maybe("forced")
        return ()

    def accept(self, token: int) -> None:
        self._maybe("accept")

    def rewind(self, drawn: Sequence[int]) -> None: ...

    @property
    def stopped(self) -> bool:
        return False

    @property
    def masks(self) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("part", ["allowed", "forced", "accept"])
@pytest.mark.parametrize("after", [0, 3])
def test_a_throwing_matcher_ends_its_row_and_names_itself(part: str, after: int) -> None:
    async def scenario() -> None:
        good = [prompt(seed) for seed in range(3)]
        expected = await alone(good)
        async with running(Model()) as gateway:
            bad = prompt(7, matcher=Throwing(part, after))
            *others, failed = await together(gateway, [*good, bad])
            assert others == expected
            assert isinstance(failed, RowFault)
            assert failed.part == "matcher"
            assert await said(gateway, good[0]) == expected[0]

    check(scenario())


def test_rows_that_leave_at_random_change_nothing_for_those_that_stay() -> None:
    async def scenario() -> None:
        stay = [prompt(seed, says=40) for seed in range(3)]
        expected = await alone(stay)
        dice = random.Random(3)
        async with running(Model()) as gateway:
            staying = asyncio.gather(*(said(gateway, p) for p in stay))
            for seed in range(25):
                (session,) = gateway.submit([prompt(3 + seed % 9, says=200)])
                wanted = dice.randrange(6)
                async for batch in session.batches():
                    wanted -= len(batch)
                    if wanted < 0:
                        session.cancel(CancelReason.STOP_STRING)
            assert await staying == expected
            assert gateway.stats().group.active == 0
            assert gateway.stats().memory.kv == 0

    check(scenario())


def test_exclusive_work_parks_rows_with_their_state() -> None:
    async def scenario() -> None:
        prompts = [prompt(seed, says=60) for seed in range(4)]
        expected = await alone(prompts)
        async with running(Model()) as gateway:
            texts = asyncio.gather(*(said(gateway, p) for p in prompts))
            for _ in range(5):
                active = await gateway.run_exclusive(lambda: "done", "test")
                assert active == "done"
            assert await texts == expected

    check(scenario())


def test_the_solo_lane_says_what_the_group_says() -> None:
    from slipstream.contracts.placement import Needs

    async def scenario() -> None:
        prompts = [prompt(seed) for seed in range(4)]
        expected = await alone(prompts)
        async with running(Model()) as gateway:
            forced = [prompt(seed, needs=Needs(solo=seed % 2 == 0)) for seed in range(4)]
            assert await together(gateway, forced) == expected
            assert gateway.stats().solo.submitted == 2

    check(scenario())
