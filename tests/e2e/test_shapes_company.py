"""A row does not feel its neighbours: who they are, when they come and when they leave."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from .server import chat, chunks, opened, streamed, until_idle
from .shapes import SHAPES, Shape, answers, apart, reply

pytestmark = pytest.mark.anyio

SEEDED = chat("Tell me a story about a lighthouse.", temperature=1, seed=1, ignore_eos=True)
SUBJECTS = ("the sea", "a bakery", "chess", "winter", "a violin")
QUICK, WHOLE = 8, 16  # tokens


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A stream that begins once the watched row has said `joins` pieces, and is left after
    `leaves` of its own, if it does not end before."""

    shape: Shape
    joins: int
    leaves: int

    async def __call__(self, http: httpx.AsyncClient, subject: str) -> None:
        body = {**self.shape.body(subject, self.leaves + 2), "stream": True}
        async with http.stream("POST", self.shape.route, json=body) as response:
            assert response.status_code == 200, await response.aread()
            pieces = chunks(response)
            for _ in range(self.leaves):
                await anext(pieces, None)


def crowd(count: int, length: int, chance: random.Random) -> list[Neighbour]:
    """Half of it is there before the watched row, the rest comes while that one runs."""
    early = count // 2
    joins = [0] * early + [chance.randint(1, length // 2) for _ in range(count - early)]
    return [Neighbour(chance.choice(SHAPES), at, chance.randint(2, length)) for at in joins]


async def watched(
    http: httpx.AsyncClient, body: Mapping[str, Any], neighbours: list[Neighbour]
) -> tuple[str, int]:
    """The text of `body` in this company, and the most rows that ran beside it, itself included."""
    pieces, most = [], 0
    async with asyncio.TaskGroup() as company:
        due = sorted(neighbours, key=lambda one: one.joins)
        while due and due[0].joins == 0:
            company.create_task(due.pop(0)(http, "the weather"))
        async with opened(http, body) as stream:
            async for chunk in stream:
                if not chunk["choices"]:
                    most = chunk["slipstream"]["rows_peak"]
                    continue
                pieces.append(chunk["choices"][0]["delta"].get("content", ""))
                while due and due[0].joins <= len(pieces):
                    company.create_task(due.pop(0)(http, "the weather"))
    return "".join(pieces), most


@pytest.mark.parametrize("length", [12, pytest.param(48, marks=pytest.mark.slow)])
async def test_a_seeded_row_is_the_same_among_any_neighbours(
    http: httpx.AsyncClient, length: int
) -> None:
    body = {**SEEDED, "max_tokens": length}
    alone, rows = await watched(http, apart(body, "alone"), [])
    assert alone and rows == 1
    for count in (1, 7, 15):
        neighbours = crowd(count, length, random.Random(count))
        text, rows = await watched(http, apart(body, f"among {count}"), neighbours)
        assert text == alone and rows > max(1, count // 2)
        await until_idle(http, 10)


async def test_seeds_one_two_one_say_a_b_a(http: httpx.AsyncClient) -> None:
    asked = [{**SEEDED, "seed": seed, "max_tokens": QUICK} for seed in (1, 2, 1)]
    in_turn = [(await streamed(http, body)).text for body in asked]
    at_once = [one.text for one in await asyncio.gather(*(streamed(http, b) for b in asked))]
    assert in_turn[0] == in_turn[2] != in_turn[1]
    assert at_once == in_turn


async def test_hot_and_cold_rows_of_one_batch_stay_hot_and_cold(http: httpx.AsyncClient) -> None:
    heats = {"cold": 0, "warm": 0.7, "hot": 3}
    bodies = {
        (name, seed): {**SEEDED, "temperature": heat, "seed": seed, "max_tokens": QUICK}
        for seed in range(4)
        for name, heat in heats.items()
    }
    together = await asyncio.gather(*(streamed(http, body) for body in bodies.values()))
    said = dict(zip(bodies, (one.text for one in together), strict=True))
    assert {one.own["rows_peak"] for one in together} == {len(bodies)}
    assert len({said["cold", seed] for seed in range(4)}) == 1
    assert len({said["hot", seed] for seed in range(4)}) == 4
    for key in (("cold", 0), ("warm", 1), ("hot", 2)):
        assert said[key] == (await streamed(http, bodies[key])).text


@pytest.mark.parametrize(
    ("subject", "length", "rounds"),
    [
        (SUBJECTS[0], QUICK, 2),
        *(pytest.param(one, WHOLE, 4, marks=pytest.mark.slow) for one in SUBJECTS),
    ],
)
@pytest.mark.timeout(600)
async def test_sixteen_kinds_of_rows_at_once_answer_as_if_alone(
    http: httpx.AsyncClient, subject: str, length: int, rounds: int
) -> None:
    bodies = [(shape.route, shape.body(subject, length)) for shape in SHAPES]
    alone = [answers(await reply(http, *asked)) for asked in bodies]
    chance = random.Random(length)
    for number in range(rounds):
        storm = [(route, apart(body, f"storm {number}")) for route, body in bodies]
        order = chance.sample(range(len(storm)), len(storm))
        found = await asyncio.gather(*(reply(http, *storm[at]) for at in order))
        together = dict(zip(order, found, strict=True))
        assert [answers(together[at]) for at in range(len(storm))] == alone
        assert max(one["slipstream"]["rows_peak"] for one in found) > len(SHAPES) / 2
