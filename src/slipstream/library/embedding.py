"""Many inputs embedded: as rows of the group, a bounded number of them on their way at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from slipstream.contracts.errors import QueueFull
from slipstream.contracts.report import Embeddings, Report
from slipstream.contracts.row import CancelReason, Prompt
from slipstream.engine.session import Session

Submit = Callable[[Sequence[Prompt]], Sequence[Session]]


async def embeddings(submit: Submit, prompts: Sequence[Prompt], places: int) -> Embeddings:
    """The vectors of `prompts`, at least one, in order; `submit` as Gateway has it. The first
    failure, and cancelling this, ends them all.

    As many as there are `places` on the device run and as many wait; where others have filled the
    queue meanwhile, the rest goes on as its own rows end. Raises QueueFull only while none of its
    rows runs, else as `submit` and sessions do."""
    waiting = list(enumerate(prompts))[::-1]
    running: dict[asyncio.Task[bytes], tuple[int, Session]] = {}
    done: dict[int, tuple[bytes, Report]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < 2 * places:
                index, prompt = waiting[-1]
                try:
                    (session,) = submit([prompt])
                except QueueFull:
                    if not running:
                        raise
                    break
                running[asyncio.ensure_future(vector(session))] = (index, session)
                waiting.pop()
            ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                index, session = running.pop(task)
                done[index] = (task.result(), session.report)
    finally:
        for _, session in running.values():
            session.cancel(CancelReason.DISCONNECT)
        await asyncio.gather(*running, return_exceptions=True)
    return joined([done[index] for index in range(len(prompts))])


async def vector(session: Session) -> bytes:
    """Raises Fault and Cancelled as the session does."""
    found = b""
    async for events in session.batches():
        for event in events:
            found = event.vector
    return found


def joined(done: Iterable[tuple[bytes, Report]]) -> Embeddings:
    vectors, reports = zip(*done, strict=True)
    report = Report.overlapping(reports)
    tokens = sum(one.prompt_tokens for one in reports)
    return Embeddings(vectors=vectors, report=replace(report, prompt_tokens=tokens))
