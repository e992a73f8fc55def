"""Many clients at once: what they get, and what is left when they leave."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from .server import CHAT, chat, opened, stats, streamed, until_idle, whole

pytestmark = pytest.mark.anyio

SUBJECTS = (
    "the sea", "a bakery", "chess", "the moon", "rain", "a railway station", "bees", "glass",
    "the number seven", "winter", "a lighthouse", "bread", "mountains", "the violin", "salt", "ink",
)  # fmt: skip
LENGTH = 8  # tokens


def question(subject: str, times: int) -> Mapping[str, Any]:
    """Prompts of different lengths, so that rows join and leave at different times."""
    return chat(f"Think of {subject}. " * times + "Say one thing.", max_tokens=LENGTH)


async def test_sixteen_streams_run_at_once_and_each_is_as_if_alone(
    http: httpx.AsyncClient,
) -> None:
    bodies = [question(subject, 1 + n // 4) for n, subject in enumerate(SUBJECTS)]
    alone = [await whole(http, body) for body in bodies]
    together = [asyncio.create_task(streamed(http, body)) for body in bodies]
    most, left = 0, set(together)
    while left:
        _, left = await asyncio.wait(left, timeout=0.1)
        most = max(most, (await stats(http))["lanes"]["group"]["active"])
    answers = [await task for task in together]
    assert most == 16
    assert [answer.text for answer in answers] == [answer.text for answer in alone]
    assert {answer.own["rows_peak"] for answer in answers} == {16}


async def leave_a_stream(http: httpx.AsyncClient, after: int) -> None:
    """Reads `after` chunks of an answer that would go on for long, and closes."""
    body = chat("Tell me a long story.", max_tokens=500, ignore_eos=True)
    async with opened(http, body) as stream:
        for _ in range(after):
            await anext(stream)


async def leave_a_reply(http: httpx.AsyncClient, after: float) -> None:
    """Waits `after` seconds for a reply that would take long, and hangs up."""
    body = chat("Tell me a long story.", max_tokens=500, ignore_eos=True)
    asking = asyncio.create_task(http.post(CHAT, json=body))
    await asyncio.wait({asking}, timeout=after)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


@pytest.mark.parametrize(
    ("streams", "replies"), [(60, 15), pytest.param(200, 50, marks=pytest.mark.slow)]
)
async def test_clients_that_leave_take_their_rows_with_them(
    http: httpx.AsyncClient, streams: int, replies: int
) -> None:
    known = await whole(http, question("the sea", 1))
    before = await stats(http)
    chance = random.Random(streams)
    leaving = [leave_a_stream(http, chance.randint(0, 8)) for _ in range(streams)]
    leaving += [leave_a_reply(http, 6 * chance.random()) for _ in range(replies)]
    chance.shuffle(leaving)
    await asyncio.gather(*leaving)
    await until_idle(http, 1.0)
    after = await stats(http)
    gone = after["finish"].get("disconnect", 0) - before["finish"].get("disconnect", 0)
    submitted = after["lanes"]["group"]["submitted"] - before["lanes"]["group"]["submitted"]
    assert gone == submitted >= streams
    assert after["memory"]["kv"] == 0
    assert (await whole(http, question("the sea", 1))).text == known.text
