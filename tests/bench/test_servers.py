"""The benches that ask servers: what they send, what they read off, and how they compare."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from slipstream.bench import fairness, prefix
from slipstream.bench.marks import Marks
from slipstream.bench.peers import MLX_LM, ratios
from slipstream.bench.target import OURS, Answer, Target
from slipstream.bench.texts import Texts, user
from slipstream.contracts.errors import Fault
from text.vocabularies import tokenizer

BYTES = tokenizer("byte_level")
PLAN = prefix.Plan(rounds=1, agents=3, shared=40, own=5, turns=2, said=4, reply=3, lengths=(9,))


class Counting:
    """Answers like a server with a prefix cache of whole messages; keeps the bodies."""

    def __init__(self, ends: bool = True) -> None:
        self.bodies: list[Mapping[str, Any]] = []
        self._ends = ends
        self._known: set[str] = set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(line for line in head.splitlines() if line.startswith("Content-Length"))
        body = json.loads(await reader.readexactly(int(length.split()[1])))
        self.bodies.append(body)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n: quiet\n\n")
        for chunk in [*self._pieces(body), self._usage(body)]:
            writer.write(f"data: {json.dumps(chunk)}\n\n".encode())
        if self._ends:
            writer.write(b"data: [DONE]\n\n")
        await writer.drain()
        writer.close()

    def _pieces(self, body: Mapping[str, Any]) -> list[Any]:
        deltas = [{"role": "assistant"}, *({"content": "x"} for _ in range(body["max_tokens"]))]
        return [{"choices": [{"delta": delta}]} for delta in deltas]

    def _usage(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        texts = [message["content"] + body.get("cache_salt", "") for message in body["messages"]]
        cached = sum(len(text) for text in texts if text in self._known)
        self._known.update(texts)
        prompt = sum(map(len, texts))
        details = {"cached_tokens": cached}
        return {
            "choices": [],
            "usage": {"prompt_tokens": prompt, "prompt_tokens_details": details},
        }


@asynccontextmanager
async def serving(server: Counting, **fields: Any) -> AsyncIterator[Target]:
    async with await asyncio.start_server(server, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        yield Target(OURS, f"http://127.0.0.1:{port}/v1/chat/completions", **fields)


@pytest.mark.anyio
async def test_an_answer_holds_pieces_text_and_counts() -> None:
    async with serving(server := Counting(), more={"ignore_eos": True}) as target:
        answer = await target.ask([user("hello")], 3)
    assert (answer.text, len(answer.marks.pieces), answer.prompt) == ("xxx", 3, 5)
    assert 0 < answer.ttft_ms < 60_000
    assert server.bodies[0]["ignore_eos"] and "cache_salt" not in server.bodies[0]


@pytest.mark.anyio
async def test_a_stream_that_breaks_off_is_a_fault() -> None:
    async with serving(Counting(ends=False)) as target:
        with pytest.raises(Fault, match="DONE"):
            await target.ask([user("hello")], 3)


@pytest.mark.anyio
async def test_agents_share_a_prefix_unless_they_are_kept_apart() -> None:
    async with serving(Counting(), salted=True) as target:
        shared = await prefix.burst(target, PLAN, Texts(BYTES, 1), alone=False)
        apart = await prefix.burst(target, PLAN, Texts(BYTES, 1), alone=True)
    cached = [
        cells["prompt_tokens"] - cells["computed_tokens"]
        for cells in (prefix.burst_cells([shared]), prefix.burst_cells([apart]))
    ]
    assert cached[0] > 0 == cached[1]


@pytest.mark.anyio
async def test_a_chat_grows_by_what_was_answered() -> None:
    async with serving(server := Counting()) as target:
        chat = await prefix.conversation(target, PLAN, Texts(BYTES, 1), alone=False)
    assert [len(body["messages"]) for body in server.bodies] == [2, 4]
    assert server.bodies[1]["messages"][2]["content"] == chat[0].text == "xxx"
    rows = prefix.turn_rows(OURS, "on", [chat])
    assert [row["turn"] for row in rows] == [1, 2] and rows[1]["cached_tokens"] > 0


@pytest.mark.anyio
async def test_a_repeat_is_a_hit() -> None:
    async with serving(Counting()) as target:
        pair = await prefix.repeated(target, Texts(BYTES, 1), 9)
    assert pair[0].cached == 0 < prefix.repeat_cells([pair])["cached_tokens"]


def answered(*times: float) -> Answer:
    return Answer(Marks(0.0, [(time, 1) for time in times]))


def test_gaps_are_those_that_touch_the_window() -> None:
    streams = [answered(0.0, 1.0, 3.0, 6.0, 10.0), answered(2.0, 2.5)]
    assert fairness.gaps_between(streams, 1.5, 4.0) == [2000, 3000, 500]


def test_a_share_of_values_is_one_of_them() -> None:
    values = [float(n) for n in range(100, 0, -1)]
    assert [fairness.at(values, share) for share in (0.5, 0.95, 1.0)] == [51, 96, 100]


@pytest.mark.anyio
async def test_waiting_for_tokens_ends_with_the_last_stream() -> None:
    streams = [answered(1.0, 2.0), answered(1.0)]
    waiting = asyncio.create_task(fairness.reached(streams, 2))
    await asyncio.sleep(0)
    assert not waiting.done()
    streams[1].marks.pieces.append((3.0, 1))
    streams[1].moved.set()
    await waiting


def test_ratios_compare_times_of_equal_rows() -> None:
    ours, theirs = ({"server": name, "tokens": 500} for name in (OURS, MLX_LM))
    rows = [{**ours, "cold_ms": 2.0}, {**theirs, "cold_ms": 5.0}, {**theirs, "tokens": 9}]
    assert ratios(rows, ("tokens",)) == [{"tokens": 500, "cold": 2.5}]
    assert ratios(rows[:1], ("tokens",)) == []


def test_texts_have_their_length_and_begin_apart() -> None:
    texts = Texts(BYTES, 1)
    one, two = texts.of(50), texts.of(50)
    assert one[:12] != two[:12] and Texts(BYTES, 1).of(50) == one
    assert abs(len(BYTES.encode(one, add_special_tokens=False)) - 50) <= 3
