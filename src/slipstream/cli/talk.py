"""`generate` and `chat`: one process, one model, one conversation on the terminal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from slipstream.cli import opening
from slipstream.cli.terminal import INTERRUPTED, complain, vanish
from slipstream.contracts.completion import Completion, Message
from slipstream.contracts.errors import SlipstreamError, UsageError
from slipstream.contracts.row import CancelReason
from slipstream.serve.ports import Engine
from slipstream.settings import Settings

Model = Annotated[
    str | None, typer.Option("--model", help="as for serve (default: the starter model)")
]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", help="longest answer, in tokens")]
Temp = Annotated[float | None, typer.Option("--temp", help="temperature (default: the model's)")]
Seed = Annotated[int | None, typer.Option("--seed", help="makes sampling repeatable")]
System = Annotated[str | None, typer.Option("--system", help="the system message")]

RESET = "/reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How every answer of this process is drawn."""

    max_tokens: int | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, max_tokens: int | None, temp: float | None, seed: int | None) -> Manner:
        given = {"temperature": temp, "seed": seed}
        return cls(
            max_tokens=max_tokens,
            sampling={name: value for name, value in given.items() if value is not None},
        )

    def completion(
        self,
        engine: Engine,
        *,
        text: str | None = None,
        messages: Sequence[Message] | None = None,
    ) -> Completion:
        return Completion(
            request_id="terminal",
            model=engine.info.id,
            text=text,
            messages=None if messages is None else tuple(messages),
            prompt_param="PROMPT",
            max_tokens=self.max_tokens,
            sampling=self.sampling,
        )


def generate(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="- reads it from stdin")],
    model: Model = None,
    max_tokens: MaxTokens = None,
    temp: Temp = None,
    seed: Seed = None,
    system: System = None,
    raw: Annotated[bool, typer.Option("--raw", help="use no chat template")] = False,
) -> None:
    """Answer one prompt, streamed to stdout."""
    if raw and system is not None:
        raise UsageError("--system needs the chat template; it does not go with --raw.")
    manner = Manner.of(max_tokens, temp, seed)
    text = sys.stdin.read() if prompt == "-" else prompt
    with asyncio.Runner() as runner, opened(model, runner) as engine:
        if raw:
            completion = manner.completion(engine, text=text)
        else:
            completion = manner.completion(engine, messages=[*preamble(system), said(text)])
        runner.run(answer(engine, completion))


def chat(
    model: Model = None,
    max_tokens: MaxTokens = None,
    temp: Temp = None,
    seed: Seed = None,
    system: System = None,
) -> None:
    """Talk with a model. Ctrl-C stops an answer, Ctrl-D leaves, /reset starts again."""
    with suppress(ImportError):
        import readline  # noqa: F401  (gives input() a history and editing)

    manner = Manner.of(max_tokens, temp, seed)
    with asyncio.Runner() as runner, opened(model, runner) as engine:
        messages = preamble(system)
        for line in lines():
            if line == RESET:
                messages = preamble(system)
                continue
            messages.append(said(line))
            try:
                reply = runner.run(
                    answer(engine, manner.completion(engine, messages=messages), keep=True)
                )
            except SlipstreamError as error:  # this turn failed; the conversation goes on
                complain(error.message)
                messages.pop()
            else:
                messages.append({"role": "assistant", "content": reply})


def lines() -> Iterator[str]:
    """What the user types, until Ctrl-D; Ctrl-C gives up the line."""
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            typer.echo()
            return
        except KeyboardInterrupt:
            line = ""
            typer.echo()
        if line:
            yield line


def preamble(system: str | None) -> list[Message]:
    return [] if system is None else [{"role": "system", "content": system}]


def said(text: str) -> Message:
    return {"role": "user", "content": text}


@contextmanager
def opened(name: str | None, runner: asyncio.Runner) -> Iterator[Engine]:
    """A ready engine on the loop of `runner`, closed at the end. Raises ModelError."""
    info = opening.model(name)
    from slipstream.library import Engine as Library

    engine = Library(Settings(model=name), info)
    try:
        runner.run(engine.wait_ready())
        yield engine
    finally:
        if engine.state == "loading":
            vanish(INTERRUPTED)
        runner.run(engine.close(0))


async def answer(engine: Engine, completion: Completion, *, keep: bool = False) -> str:
    """Prints the answer as it comes and returns it. With `keep` Ctrl-C ends it early, and well."""
    running = await engine.submit(completion)
    text = ""
    try:
        async for delta in running.deltas():
            typer.echo(delta.reasoning + delta.text, nl=False)
            text += delta.text
    except asyncio.CancelledError:
        running.cancel(CancelReason.DISCONNECT)
        if not keep:
            raise
    finally:
        typer.echo()
    return text
