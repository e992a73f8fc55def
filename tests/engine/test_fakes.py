"""The fakes keep, and enforce, the rules that real backends must keep."""

import math

import pytest

from slipstream.contracts.backend import Advance
from slipstream.contracts.placement import Abilities, Lane, Reason
from slipstream.contracts.row import RowSpec
from slipstream.testing.backend import FakeBackend, solo_run
from slipstream.testing.clock import ManualClock
from slipstream.testing.conformance import check_backend

from .rig import Faults, prompt

PROMPTS = [prompt(*range(1, 4 + n), max_tokens=8, seed=n) for n in range(3)]


def opened(backend, key=0, asked=None):
    spec = RowSpec(key=key, lane=Lane.GROUP, prompt=asked or prompt(), deadline=math.inf)
    return backend.open(spec)


def test_the_fake_backend_conforms():
    backend = FakeBackend()
    check_backend(backend, PROMPTS)
    assert backend.live_rows == 0
    assert backend.breaches == []


@pytest.mark.parametrize("snapshots", [False, True])
def test_the_fake_backend_with_a_prefix_cache_conforms(snapshots):
    backend = FakeBackend(abilities=Abilities(prefixes=True, snapshots=snapshots))
    check_backend(backend, PROMPTS)
    assert backend.live_rows == 0
    assert backend.breaches == []


def test_a_backend_that_cannot_batch_is_checked_on_the_solo_lane():
    check_backend(FakeBackend(abilities=Abilities(obstacle=Reason.MIXER_NOT_FOUND)), PROMPTS)


class Eager(FakeBackend):
    def collect(self, keep):
        return super().collect(0)


class Leaking(FakeBackend):
    def release(self, row):
        pass


class Stuck(FakeBackend):
    def rewind(self, row, drawn):
        super().rewind(row, drawn[:-1])


class Forgetful(FakeBackend):
    def fork(self, row, spec):
        return super().open(spec)


class Entangled(FakeBackend):
    def fork(self, row, spec):
        made = super().fork(row, spec)
        made.known = row.known
        return made


class Misremembering(FakeBackend):
    def open(self, spec):
        row = super().open(spec)
        if row.cached:
            row.states[-1] ^= 1
        return row


class Touching(FakeBackend):
    def keep(self, row):
        super().keep(row)
        row.states[-1] ^= 1


class Understating(FakeBackend):
    def project(self, spec):
        return len(spec.prompt.ids)


@pytest.mark.parametrize("broken", [Eager, Leaking, Stuck, Forgetful, Entangled, Understating])
def test_a_backend_that_breaks_a_rule_is_found(broken):
    with pytest.raises(AssertionError):
        check_backend(broken(), PROMPTS)


@pytest.mark.parametrize("broken", [Misremembering, Touching])
def test_a_prefix_cache_that_breaks_a_rule_is_found(broken):
    with pytest.raises(AssertionError):
        check_backend(broken(abilities=Abilities(prefixes=True)), PROMPTS)


def test_the_fake_draws_as_its_plain_twin():
    backend, asked = FakeBackend(), prompt(7, 8, max_tokens=5, seed=2)
    row = opened(backend, asked=asked)
    tokens = []
    for _ in range(5):
        backend.launch([Advance(row, row.pending)])
        tokens += [drawn.token for drawn in backend.collect(0)]
    assert tokens == solo_run(asked)


def test_the_seed_changes_the_draws():
    assert solo_run(prompt(seed=1, max_tokens=8)) != solo_run(prompt(seed=2, max_tokens=8))


def misuse_released(backend, row):
    backend.release(row)
    backend.launch([Advance(row, 1)])


def misuse_tokens(backend, row):
    backend.launch([Advance(row, 4)])


def misuse_limit(backend, row):
    for _ in range(5):
        backend.launch([Advance(row, row.pending)])


def misuse_twice(backend, row):
    backend.launch([Advance(row, 1), Advance(row, 1)])


def misuse_close(backend, row):
    backend.close()


def fork(backend, row, asked):
    backend.fork(row, RowSpec(key=1, lane=Lane.GROUP, prompt=asked, deadline=math.inf))


def misuse_fork_after_a_draw(backend, row):
    backend.launch([Advance(row, 3)])
    backend.collect(0)
    fork(backend, row, row.spec.prompt)


def misuse_fork_in_flight(backend, row):
    backend.launch([Advance(row, 2)])
    fork(backend, row, row.spec.prompt)


def misuse_fork_of_another_prompt(backend, row):
    fork(backend, row, prompt(3, 2, 1))


def misuse_keep_in_flight(backend, row):
    backend.launch([Advance(row, 2)])
    backend.keep(row)


def misuse_keep_past_the_prompt(backend, row):
    for tokens in (3, 1):
        backend.launch([Advance(row, tokens)])
    backend.collect(0)
    backend.keep(row)


@pytest.mark.parametrize(
    "misuse",
    [
        misuse_released,
        misuse_tokens,
        misuse_limit,
        misuse_twice,
        misuse_close,
        misuse_fork_after_a_draw,
        misuse_fork_in_flight,
        misuse_fork_of_another_prompt,
        misuse_keep_in_flight,
        misuse_keep_past_the_prompt,
    ],
)
def test_misuse_is_raised_and_noted(misuse):
    backend = FakeBackend()
    row = opened(backend)
    with pytest.raises(AssertionError):
        misuse(backend, row)
    assert len(backend.breaches) == 1


def test_more_bytes_than_the_budget_are_a_breach():
    backend = FakeBackend(kv_budget=10)
    opened(backend)
    with pytest.raises(AssertionError, match="14 bytes are promised to rows of 10"):
        opened(backend, key=1)


@pytest.mark.parametrize(("snapshots", "found"), [(False, 4), (True, 0)])
def test_what_is_kept_serves_prompts_that_begin_alike(snapshots, found):
    backend = FakeBackend(abilities=Abilities(prefixes=True, snapshots=snapshots))
    row = opened(backend, asked=prompt(*range(9)))
    backend.launch([Advance(row, 6)])
    backend.collect(0)
    backend.keep(row)
    assert opened(backend, key=1, asked=prompt(0, 1, 2, 3, 50)).cached == found
    assert opened(backend, key=2, asked=prompt(*range(9))).cached == 6
    assert opened(backend, key=3, asked=prompt(*range(9), cache_salt="other")).cached == 0


def test_a_tainted_row_needs_a_rewind():
    backend = FakeBackend(fault=Faults().at("launch", 1))
    row = opened(backend)
    with pytest.raises(OSError, match="broke"):
        backend.launch([Advance(row, 3)])
    with pytest.raises(AssertionError, match="tainted"):
        backend.launch([Advance(row, 3)])
    backend.rewind(row, [])
    backend.launch([Advance(row, 3)])
    assert len(backend.collect(0)) == 1


def test_time_does_not_run_back():
    clock = ManualClock(5.0)
    clock.advance(1.5)
    assert clock.now() == 6.5
    with pytest.raises(AssertionError):
        clock.advance(-1)
