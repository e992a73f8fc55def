"""`generate` and `chat` against a scripted engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slipstream.cli import main
from slipstream.cli.talk import Manner, answer, preamble, said
from slipstream.contracts.completion import Completion
from slipstream.contracts.delta import Delta
from slipstream.contracts.model import ModelInfo
from slipstream.contracts.row import CancelReason, FinishReason

INFO = ModelInfo(id="tiny", path=Path("tiny"), context=8, vocab_size=8, eos_ids=(2,), config={})
SCRIPT = (Delta(text="Hel"), Delta(text="lo"), Delta(finish=FinishReason.STOP))


class ScriptedRunning:
    def __init__(self, script: Sequence[Delta], *, endless: bool) -> None:
        self.script = script
        self.endless = endless
        self.cancelled: CancelReason | None = None

    async def deltas(self) -> AsyncIterator[Delta]:
        for delta in self.script:
            yield delta
        if self.endless:
            await asyncio.Event().wait()

    def cancel(self, reason: CancelReason) -> None:
        self.cancelled = reason


class ScriptedEngine:
    """The part of the engine that talking needs."""

    info = INFO

    def __init__(self, script: Sequence[Delta] = SCRIPT, *, endless: bool = False) -> None:
        self.running = ScriptedRunning(script, endless=endless)

    async def submit(self, completion: Completion) -> ScriptedRunning:
        self.completion = completion
        return self.running


async def stopped_after_the_script(engine: ScriptedEngine, *, keep: bool) -> str:
    """What is left of an answer that Ctrl-C ends while the next token is awaited."""
    asking = Manner().completion(engine, text="Hi")
    task = asyncio.create_task(answer(engine, asking, keep=keep))
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    return await task


def test_an_answer_is_printed_as_it_comes(capsys: pytest.CaptureFixture[str]) -> None:
    engine = ScriptedEngine()
    text = asyncio.run(answer(engine, Manner().completion(engine, text="Hi")))
    assert text == "Hello" and capsys.readouterr().out == "Hello\n"


def test_reasoning_is_shown_and_not_kept(capsys: pytest.CaptureFixture[str]) -> None:
    engine = ScriptedEngine([Delta(reasoning="Hm. "), Delta(text="4")])
    assert asyncio.run(answer(engine, Manner().completion(engine, text="2+2"))) == "4"
    assert capsys.readouterr().out == "Hm. 4\n"


def test_in_a_chat_a_stopped_answer_stays() -> None:
    engine = ScriptedEngine(SCRIPT[:2], endless=True)
    assert asyncio.run(stopped_after_the_script(engine, keep=True)) == "Hello"
    assert engine.running.cancelled is CancelReason.DISCONNECT


def test_a_stopped_generate_stops() -> None:
    engine = ScriptedEngine(SCRIPT[:2], endless=True)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(stopped_after_the_script(engine, keep=False))
    assert engine.running.cancelled is CancelReason.DISCONNECT


def test_only_what_was_asked_for_is_sent() -> None:
    manner = Manner.of(max_tokens=5, temp=None, seed=0)
    completion = manner.completion(ScriptedEngine(), messages=[*preamble("Be brief."), said("Hi")])
    assert (completion.max_tokens, completion.sampling) == (5, {"seed": 0})
    assert completion.messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    )


def test_raw_text_has_no_system_message() -> None:
    result = CliRunner().invoke(main.app(), ["generate", "Hi", "--raw", "--system", "Be brief."])
    assert result.exit_code == 2 and "--raw" in result.stderr
