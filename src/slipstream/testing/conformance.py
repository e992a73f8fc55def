"""The rules of the Backend protocol as a check that fakes and real backends both pass.

Each rule opens rows of its own on the lane that the model can take, and releases them.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from slipstream.contracts.backend import Advance, Backend, Drawn, Row
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import Prompt, RowSpec

STEPS = 4


def check_backend(backend: Backend, prompts: Sequence[Prompt]) -> None:
    """Raises AssertionError with the rule that is broken. The backend stays open and empty.

    Give at least two prompts of at least 3 tokens each, with max_tokens of at least 6 and no
    stop_ids; greedy, or with seeds."""
    assert len(prompts) >= 2
    assert all(len(p.ids) >= 3 and p.max_tokens > STEPS + 1 and not p.stop_ids for p in prompts)
    bench = Bench(backend)
    draws_come_one_launch_late(bench, prompts[0])
    pending_counts_launched_draws(bench, prompts[0])
    chunks_change_nothing(bench, prompts[0])
    rewind_continues_where_it_was(bench, prompts[0])
    rewind_forgets_unread_draws(bench, prompts[0])
    released_rows_draw_nothing(bench, prompts[0])
    parking_changes_nothing(bench, prompts[0])
    forks_draw_what_they_would_draw_alone(bench, prompts[0])
    forks_and_their_sources_do_not_feel_each_other(bench, prompts[0])
    what_was_kept_changes_nothing(bench, prompts[0])
    a_row_holds_no_more_than_was_projected(bench, prompts[0])
    if backend.abilities.obstacle is None:
        neighbours_change_nothing(bench, prompts)
    assert not backend.collect(0), "with nothing in flight there is nothing to read"


class Bench:
    """Opens rows with fresh keys, far from those that an engine hands out."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._keys = itertools.count(1 << 40)

    def open(self, prompt: Prompt) -> Row:
        lane = Lane.GROUP if self.backend.abilities.obstacle is None else Lane.SOLO
        spec = RowSpec(key=next(self._keys), lane=lane, prompt=prompt, deadline=float("inf"))
        while (row := self.backend.open(spec)) is None:
            time.sleep(0.001)  # it comes from a disk
        assert row.spec is spec, "a row carries its spec"
        assert 0 <= row.cached < len(prompt.ids), "at least one prompt token is computed"
        assert row.pending == len(prompt.ids) - row.cached, "the unread prompt is pending"
        return row

    def fork(self, row: Row, prompt: Prompt) -> Row:
        before = row.pending
        made = self.backend.fork(row, replace(row.spec, key=next(self._keys), prompt=prompt))
        assert (made.pending, row.pending) == (before, before), "a fork begins where its source is"
        assert made.cached == len(row.spec.prompt.ids) - before, "what it did not compute is cached"
        return made

    def compute(self, row: Row, leaving: int) -> None:
        """Reads the prompt but for its last tokens."""
        while row.pending > leaving:
            self.backend.launch([Advance(row, 1)])
        assert not self.backend.collect(0), "a row with pending tokens draws nothing"

    def fill(self, *rows: Row) -> None:
        self.backend.launch([Advance(row, row.pending) for row in rows])

    def step(self, *rows: Row) -> Sequence[Drawn]:
        self.fill(*rows)
        return self.backend.collect(0)

    def alone(self, prompt: Prompt) -> list[int]:
        """The first tokens of `prompt`, each read before the next launch."""
        row = self.open(prompt)
        tokens = [drawn.token for _ in range(STEPS) for drawn in sound(self.step(row))]
        self.backend.release(row)
        return tokens


def sound(draws: Sequence[Drawn]) -> Iterator[Drawn]:
    for drawn in draws:
        assert drawn.fault is None, f"a sound row failed: {drawn.fault}"
        yield drawn


def draws_come_one_launch_late(bench: Bench, prompt: Prompt) -> None:
    expected = bench.alone(prompt)
    row = bench.open(prompt)
    bench.fill(row)
    assert not bench.backend.collect(1), "a launch that may stay in flight is not read"
    seen = []
    for _ in range(STEPS - 1):
        bench.fill(row)
        seen += [drawn.token for drawn in sound(bench.backend.collect(1))]
    seen += [drawn.token for drawn in sound(bench.backend.collect(0))]
    assert seen == expected, "the lag of reading changes no token"
    bench.backend.release(row)


def pending_counts_launched_draws(bench: Bench, prompt: Prompt) -> None:
    row = bench.open(prompt)
    for _ in range(2):
        bench.fill(row)
        assert row.pending == 1, "a launched draw is pending before it is read"
    bench.backend.collect(0)
    bench.backend.release(row)


def chunks_change_nothing(bench: Bench, prompt: Prompt) -> None:
    row = bench.open(prompt)
    while row.pending > 1:
        before = row.pending
        bench.backend.launch([Advance(row, 1)])
        assert row.pending == before - 1, "an advance takes as many tokens as it says"
        assert not bench.backend.collect(0), "a row with pending tokens draws nothing"
    tokens = [drawn.token for _ in range(STEPS) for drawn in sound(bench.step(row))]
    assert tokens == bench.alone(prompt), "a prompt in chunks draws what it draws at once"
    bench.backend.release(row)


def rewind_continues_where_it_was(bench: Bench, prompt: Prompt) -> None:
    expected = bench.alone(prompt)
    row = bench.open(prompt)
    drawn = [d.token for _ in range(2) for d in sound(bench.step(row))]
    bench.backend.rewind(row, drawn)
    assert row.pending >= 1, "a rewound row has tokens to compute"
    while len(drawn) < STEPS:
        drawn += [d.token for d in sound(bench.step(row))]
    assert drawn == expected, "a rewound row draws on as if nothing had been"
    bench.backend.release(row)


def rewind_forgets_unread_draws(bench: Bench, prompt: Prompt) -> None:
    row = bench.open(prompt)
    first = [drawn.token for drawn in sound(bench.step(row))]
    bench.fill(row)
    bench.backend.rewind(row, first)
    assert not bench.backend.collect(0), "draws from before a rewind are dropped"
    bench.backend.release(row)


def released_rows_draw_nothing(bench: Bench, prompt: Prompt) -> None:
    before = bench.backend.memory().kv
    row = bench.open(prompt)
    bench.fill(row)
    bench.backend.release(row)
    bench.backend.release(row)
    assert not bench.backend.collect(0), "draws of released rows are dropped"
    assert bench.backend.memory().kv == before, "a released row holds no bytes"


def parking_changes_nothing(bench: Bench, prompt: Prompt) -> None:
    row = bench.open(prompt)
    tokens: list[int] = []
    while len(tokens) < STEPS:
        tokens += [drawn.token for drawn in sound(bench.step(row))]
        bench.backend.park()
    assert tokens == bench.alone(prompt), "a parked row draws on as if nothing had been"
    bench.backend.release(row)


def forks_draw_what_they_would_draw_alone(bench: Bench, prompt: Prompt) -> None:
    expected = bench.alone(prompt)
    source = bench.open(prompt)
    bench.compute(source, leaving=1)
    for row in (bench.fork(source, prompt), bench.fork(source, prompt), source):
        tokens = [drawn.token for _ in range(STEPS) for drawn in sound(bench.step(row))]
        assert tokens == expected, "a fork and its source draw what they draw alone"
        bench.backend.release(row)


def forks_and_their_sources_do_not_feel_each_other(bench: Bench, prompt: Prompt) -> None:
    """They draw different tokens by turns, and the source leaves first."""
    seeds = [replace(prompt.sampling, temperature=1.0, seed=seed) for seed in range(3)]
    prompts = [replace(prompt, sampling=sampling) for sampling in seeds]
    expected = [bench.alone(one) for one in prompts]
    source = bench.open(prompts[0])
    bench.compute(source, leaving=2)
    rows = [source, *(bench.fork(source, one) for one in prompts[1:])]
    found: list[list[int]] = [[] for _ in rows]
    for step in range(STEPS):
        for tokens, row in zip(found, rows, strict=True):
            if row is not source or step < 2:
                tokens += [drawn.token for drawn in sound(bench.step(row))]
        if step == 1:
            bench.backend.release(source)
    assert found == [expected[0][:2], *expected[1:]], "a fork draws what it draws alone"
    for row in rows[1:]:
        bench.backend.release(row)


def what_was_kept_changes_nothing(bench: Bench, prompt: Prompt) -> None:
    """At any length of the prompt, for the row itself and for those that begin like it."""
    expected = bench.alone(replace(prompt, cache_salt="apart"))
    for leaving in (len(prompt.ids) // 2, 1):
        salted = replace(prompt, cache_salt=f"leaving {leaving}")
        source = bench.open(salted)
        bench.compute(source, leaving)
        bench.backend.keep(source)
        assert source.pending == leaving, "a row that is kept stays as it is"
        for row in (bench.open(salted), source, bench.open(salted)):
            tokens = [drawn.token for _ in range(STEPS) for drawn in sound(bench.step(row))]
            assert tokens == expected, "a row that begins with what was kept draws what it would"
            bench.backend.release(row)


def a_row_holds_no_more_than_was_projected(bench: Bench, prompt: Prompt) -> None:
    before = bench.backend.memory().kv
    row = bench.open(prompt)
    for _ in range(prompt.max_tokens):
        assert len(list(sound(bench.step(row)))) == 1, "a row draws up to its limit"
        held = bench.backend.memory().kv - before
        assert held <= bench.backend.project(row.spec), "a row outgrew its projection"
    bench.backend.release(row)


def neighbours_change_nothing(bench: Bench, prompts: Sequence[Prompt]) -> None:
    """Rows join one by one, and leave one by one."""
    expected = [bench.alone(prompt) for prompt in prompts]
    tokens: dict[int, list[int]] = {}
    keys: list[int] = []
    running: list[Row] = []
    waiting = list(prompts)
    while waiting or running:
        if waiting:
            running.append(bench.open(waiting.pop(0)))
            keys.append(running[-1].spec.key)
        for drawn in sound(bench.step(*running)):
            tokens.setdefault(drawn.row.spec.key, []).append(drawn.token)
        for row in [row for row in running if len(tokens[row.spec.key]) == STEPS]:
            bench.backend.release(row)
            running.remove(row)
    assert [tokens[key] for key in keys] == expected, "a row draws in company what it draws alone"
