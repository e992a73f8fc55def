"""`bench prefix`: what the prefix cache saves agents, chats and repeated prompts."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from slipstream.bench.peers import targets
from slipstream.bench.report import Row, line
from slipstream.bench.target import Answer, Target
from slipstream.bench.texts import Texts, assistant, system, user
from slipstream.contracts.model import ModelInfo
from slipstream.text.tokenizer import Tokenizer

WITHIN = 0.05  # seconds in which all agents arrive
FEW = 4  # tokens of an answer of which only the first counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Lengths in tokens."""

    rounds: int = 3
    agents: int = 8
    shared: int = 1500  # what agents begin with alike
    own: int = 20  # an agent's question
    turns: int = 5  # of a chat
    said: int = 60  # a question in the chat
    reply: int = 32
    lengths: Sequence[int] = (500, 4000)  # repeated prompts


@dataclass(frozen=True, slots=True)
class Found:
    """Tables: agents that share a prefix, turns of a chat, repeated prompts."""

    agents: list[Row]
    turns: list[Row]
    repeats: list[Row]


async def run(
    info: ModelInfo,
    plan: Plan,
    *,
    peer: bool,
    rows: Callable[[str], None],
    progress: Callable[[str], None],
) -> Found:
    """All of it, several rounds, the servers and the ways interleaved; medians.

    `rows` gets what each round measured, as it comes."""
    tokenizer = Tokenizer.load(info.path)
    agents: dict[tuple[str, str], list[Burst]] = {}
    turns: dict[tuple[str, str], list[list[Answer]]] = {}
    repeats: dict[tuple[str, int], list[tuple[Answer, Answer]]] = {}
    async with targets(info, plan.agents, peer=peer) as servers:
        for number, server in product(range(plan.rounds), servers):
            progress(f"round {number + 1} of {plan.rounds}: {server.name}")
            texts = Texts(tokenizer, seed=number)
            for way, alone in ways(server):
                key = server.name, way
                agents.setdefault(key, []).append(await burst(server, plan, texts, alone))
                rows(_said("agents", *key, burst_cells(agents[key][-1:])))
                turns.setdefault(key, []).append(await conversation(server, plan, texts, alone))
                rows(_said("last turn", *key, turn_rows(*key, turns[key][-1:])[-1]))
            for length in plan.lengths:
                pair = await repeated(server, texts, length)
                repeats.setdefault((server.name, length), []).append(pair)
                rows(_said("repeat", server.name, str(length), repeat_cells([pair])))
    return Found(
        [{"server": s, "cache": way, **burst_cells(b)} for (s, way), b in agents.items()],
        [row for (s, way), chats in turns.items() for row in turn_rows(s, way, chats)],
        [{"server": s, "tokens": n, **repeat_cells(p)} for (s, n), p in repeats.items()],
    )


def _said(what: str, server: str, way: str, cells: Row) -> str:
    named = ("server", "cache")
    return line(
        {"what": what, "server": server, "way": way}
        | {name: value for name, value in cells.items() if name not in named}
    )


def ways(server: Target) -> Sequence[tuple[str, bool]]:
    return (("on", False), ("off", True)) if server.salted else (("on", False),)


@dataclass(frozen=True, slots=True)
class Burst:
    """Agents that came at once, and the time that one of their like took before, alone."""

    single: Answer
    answers: Sequence[Answer]


async def burst(server: Target, plan: Plan, texts: Texts, alone: bool) -> Burst:
    single = await server.ask(
        [system(texts.of(plan.shared)), user(texts.of(plan.own))], FEW, alone=alone
    )
    shared = system(texts.of(plan.shared))

    async def agent(number: int) -> Answer:
        question = user(texts.of(plan.own))
        await asyncio.sleep(number * WITHIN / plan.agents)
        return await server.ask([shared, question], FEW, alone=alone)

    return Burst(single, await asyncio.gather(*map(agent, range(plan.agents))))


def burst_cells(bursts: Sequence[Burst]) -> Row:
    medians = [statistics.median(a.ttft_ms for a in b.answers) for b in bursts]
    singles = [b.single.ttft_ms for b in bursts]
    computed = [sum(a.prompt - a.cached for a in b.answers) for b in bursts]
    return {
        "agents": len(bursts[0].answers),
        "prompt_tokens": int(statistics.median(sum(a.prompt for a in b.answers) for b in bursts)),
        "computed_tokens": int(statistics.median(computed)),
        "fill_ms": statistics.median(singles),
        "ttft_ms": statistics.median(medians),
        "ttft_to_fill": statistics.median(m / s for m, s in zip(medians, singles, strict=True)),
    }


async def conversation(server: Target, plan: Plan, texts: Texts, alone: bool) -> list[Answer]:
    messages = [system(texts.of(plan.said))]
    answers = []
    for _ in range(plan.turns):
        messages.append(user(texts.of(plan.said)))
        answers.append(await server.ask(messages, plan.reply, alone=alone))
        messages.append(assistant(answers[-1].text))
    return answers


def turn_rows(server: str, way: str, chats: Sequence[Sequence[Answer]]) -> list[Row]:
    return [
        {
            "server": server,
            "cache": way,
            "turn": number,
            "prompt_tokens": int(statistics.median(a.prompt for a in answers)),
            "cached_tokens": int(statistics.median(a.cached for a in answers)),
            "ttft_ms": statistics.median(a.ttft_ms for a in answers),
        }
        for number, answers in enumerate(zip(*chats, strict=True), 1)
    ]


async def repeated(server: Target, texts: Texts, length: int) -> tuple[Answer, Answer]:
    messages = [user(texts.of(length))]
    return await server.ask(messages, FEW), await server.ask(messages, FEW)


def repeat_cells(pairs: Sequence[tuple[Answer, Answer]]) -> Row:
    cold = [first.ttft_ms for first, _ in pairs]
    hit = [second.ttft_ms for _, second in pairs]
    return {
        "cached_tokens": int(statistics.median(second.cached for _, second in pairs)),
        "cold_ms": statistics.median(cold),
        "hit_ms": statistics.median(hit),
        "cold_to_hit": statistics.median(c / h for c, h in zip(cold, hit, strict=True)),
    }
