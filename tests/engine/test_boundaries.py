"""State that cannot be cut back is kept where prompts part, in passing."""

import pytest

from slipstream.contracts.placement import Abilities
from slipstream.engine.prefixes import KEEP_LEAST, LONG_PROMPT
from slipstream.testing.backend import FakeBackend, solo_run

from .rig import Faults, Rig, choices, prompt, solo


def recurrent(**fields):
    return FakeBackend(abilities=Abilities(prefixes=True, snapshots=True), **fields)


def kept(rig):
    return [length for _, length in rig.backend.kept]


@pytest.mark.parametrize("ask", [prompt, solo])
@pytest.mark.parametrize("chunk", [33, 2048])
def test_a_row_is_kept_at_its_boundaries_and_at_its_end(chunk, ask):
    rig = Rig(recurrent(), prefill_chunk=chunk)
    reader = rig.read(rig.submit(ask(*range(400), boundaries=(100, 250))))
    rig.finish()
    assert kept(rig) == [100, 250, 399]
    assert reader.tokens == solo_run(reader.session.spec.prompt)


def test_a_chunk_ends_exactly_at_a_boundary():
    rig = Rig(recurrent())
    rig.submit(prompt(*range(400), boundaries=(100, 250)))
    rig.finish()
    assert [next(iter(plan.values())) for plan in rig.backend.plans[:4]] == [100, 150, 149, 1]


def test_boundaries_too_near_to_the_last_are_passed():
    rig = Rig(recurrent())
    near = 100 + KEEP_LEAST - 1
    rig.submit(prompt(*range(230), boundaries=(10, 100, near, near + 1)))
    rig.finish()
    assert kept(rig) == [100, near + 1, 229]


def test_boundaries_that_are_none_are_passed():
    rig = Rig(recurrent())
    rig.submit(prompt(*range(90), boundaries=(0, 90, 500)))
    rig.finish()
    assert kept(rig) == [89]


def test_a_short_prompt_is_not_kept():
    rig = Rig(recurrent())
    rig.submit(prompt(*range(KEEP_LEAST)))
    rig.finish()
    assert kept(rig) == []


@pytest.mark.parametrize(
    ("can", "length", "expected"),
    [
        (Abilities(), 400, []),
        (Abilities(prefixes=True), 400, [399]),
        (Abilities(prefixes=True), LONG_PROMPT, []),
    ],
)
def test_state_that_can_be_cut_is_kept_at_the_end_of_a_long_prompt(can, length, expected):
    rig = Rig(FakeBackend(abilities=can))
    rig.submit(prompt(*range(length), boundaries=(100, 250)))
    rig.finish()
    assert kept(rig) == expected


def test_a_newcomer_begins_from_a_row_that_still_answers():
    rig = Rig(FakeBackend(abilities=Abilities(prefixes=True)))
    rig.submit(prompt(*range(400), max_tokens=50))
    rig.turn(8)
    reader = rig.read(rig.submit(prompt(*range(390), 7, 8)))
    rig.finish()
    assert reader.session.report.cached_tokens == 390


def test_the_next_turn_of_a_chat_computes_its_tail_only():
    rig = Rig(recurrent())
    first = rig.read(rig.submit(prompt(*range(200), boundaries=(180,))))
    rig.run()
    second = prompt(*range(180), *first.tokens, *range(500, 600), boundaries=(180, 270))
    reader = rig.read(rig.submit(second))
    rig.finish()
    assert reader.session.report.cached_tokens == 180
    assert kept(rig) == [180, 270]
    assert reader.tokens == solo_run(second)


def test_an_edited_turn_begins_at_the_boundary_before_it():
    rig = Rig(recurrent())
    first = rig.read(rig.submit(prompt(*range(200), boundaries=(80, 180))))
    rig.run()
    known = [*range(200), *first.tokens]
    rig.submit(prompt(*known, *range(500, 600), boundaries=(80, len(known))))
    rig.run()
    edited = prompt(*known, *range(700, 800), boundaries=(80, len(known)))
    reader = rig.read(rig.submit(edited))
    rig.finish()
    assert reader.session.report.cached_tokens == len(known) - 1
    assert reader.tokens == solo_run(edited)


def test_keeping_one_row_holds_up_no_other():
    rig = Rig(recurrent(), prefill_floor=64)
    runner = rig.read(rig.submit(prompt(7, max_tokens=60)))
    rig.turn(3)
    rig.submit(prompt(*range(400), boundaries=(100, 250)))
    before = len(runner.tokens)
    rig.turn(20)
    assert len(runner.tokens) == before + 20
    assert kept(rig) == [100, 250, 399]
    rig.finish()


def test_alone_a_row_rests_for_one_turn_at_a_boundary():
    rig = Rig(recurrent())
    rig.submit(prompt(*range(200), boundaries=(100,)))
    rig.turn(3)
    assert kept(rig) == [100]
    assert len(rig.backend.plans) == 2
    rig.finish()


def test_choices_fork_what_was_kept_for_others():
    rig = Rig(recurrent())
    readers = rig.submit_all(choices(3, *range(200)))
    rig.finish()
    assert kept(rig) == [199]
    assert len(rig.backend.forks) == 2
    assert [r.tokens for r in readers] == [solo_run(r.session.spec.prompt) for r in readers]


@pytest.mark.parametrize("moment", ["launch", "collect", "keep"])
@pytest.mark.parametrize("nth", range(1, 8))
def test_a_passing_fault_costs_no_token(moment, nth):
    rig = Rig(recurrent(fault=Faults().at(moment, nth)), prefill_chunk=90)
    asked = [prompt(n, *range(300), boundaries=(100, 250)) for n in range(3)]
    readers = [rig.read(rig.submit(each)) for each in asked]
    rig.finish()
    assert [reader.tokens for reader in readers] == [solo_run(each) for each in asked]
