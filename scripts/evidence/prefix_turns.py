"""What a chat's turns compute: cached tokens per turn, an edited turn, and repeats, by model.

Every answer is compared with that of an engine without a cache. The starter answers over HTTP;
tiny random models of the other cache kinds are turned by hand. Ends in one line of JSON.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from servers import asked, serving, tokenized

from slipstream.backends.mlx.device import load_blas, open_device
from slipstream.bench.report import Row, finish
from slipstream.contracts.limits import MemoryLimits

load_blas()

from engine.rig import Rig, prompt  # noqa: E402 after the BLAS
from parity import tiny  # noqa: E402 after the BLAS
from slipstream.backends.mlx.backend import MlxBackend  # noqa: E402 after the BLAS

KINDS = ("llama", "qwen3_5", "gemma3_text", "gpt_oss", "deepseek_v3", "mamba2")
SYSTEM, QUESTION, SAYS = 80, 100, 8  # tokens
Ids = tuple[int, ...]
Ask = Callable[[Ids, tuple[int, ...]], tuple[Ids, int]]
"""Takes a prompt and its boundaries; gives what is said and the cached tokens."""


def tiny_ask(rig: Rig, ids: Ids, boundaries: tuple[int, ...]) -> tuple[Ids, int]:
    reader = rig.read(rig.submit(prompt(*ids, max_tokens=SAYS, boundaries=boundaries)))
    rig.run()
    return tuple(reader.tokens), reader.session.progress.cached


def built(kind: str, cap: int | None) -> Ask:
    backend = MlxBackend(
        tiny.build(kind),
        open_device(),
        tiny.VOCABULARY,
        limits=MemoryLimits(prefix_cache=cap),
    )
    return partial(tiny_ask, Rig(backend))


@contextmanager
def asking() -> Iterator[tuple[Ask, Ask]]:
    """The starter, with its cache and without."""

    def ask(ids: Ids, salt: str) -> tuple[Ids, int]:
        reply = asked(server, ids, SAYS, cache_salt=salt)
        return tokenized(server, reply.text), reply.cached

    salts = itertools.count()
    with serving() as server:
        yield (
            lambda ids, _: ask(ids, "chat"),
            lambda ids, _: ask(ids, f"cold {next(salts)}"),
        )


def some(seed: int, length: int, vocabulary: int) -> Ids:
    chance = random.Random(seed)
    return tuple(chance.randrange(3, vocabulary) for _ in range(length))


def table(model: str, warm: Ask, cold: Ask, vocabulary: int) -> Iterator[Row]:
    """Rows of a chat of five turns, of its second turn edited, and of repeats."""

    def row(what: str, ids: Ids, boundaries: Sequence[int]) -> tuple[Ids, Row]:
        said, cached = warm(ids, tuple(boundaries))
        alone, none = cold(ids, tuple(boundaries))
        assert none == 0
        return said, {
            "model": model,
            "what": what,
            "prompt": len(ids),
            "cached": cached,
            "computed": len(ids) - cached,
            "as_cold": "yes" if said == alone else "NO",
        }

    history = some(1, SYSTEM, vocabulary)
    starts = []
    for turn in range(5):
        starts.append(len(history))
        history = (*history, *some(10 + turn, QUESTION, vocabulary))
        said, found = row(f"turn {turn + 1}", history, (SYSTEM, starts[-1]))
        yield found
        history = (*history, *said)
    edited = (*history[: starts[1]], *some(50, QUESTION, vocabulary))
    yield row("turn 2 edited", edited, (SYSTEM, starts[1]))[1]
    once = some(60, QUESTION, vocabulary)
    for what, ids in (
        ("once", once),
        ("again", once),
        ("less one", once[:-1]),
        ("and one", (*once, 7)),
    ):
        yield row(what, ids, ())[1]


def main() -> None:
    rows: list[Row] = []
    for kind in KINDS:
        rows += table(f"tiny {kind}", built(kind, None), built(kind, 0), tiny.VOCABULARY)
    with asking() as (warm, cold):
        rows += table("starter", warm, cold, 40_000)
    wrong = sum(row["as_cold"] != "yes" for row in rows)
    finish("prefix_turns", rows, sys.stdout, wrong=wrong)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
