"""A row whose prefix comes from a disk opens when it is there; until then it holds up nobody."""

import asyncio

import pytest

from slipstream.contracts.clock import MonotonicClock
from slipstream.contracts.limits import Limits
from slipstream.contracts.placement import Abilities
from slipstream.contracts.row import CancelReason, Stopped
from slipstream.engine.gateway import Gateway
from slipstream.testing.backend import FakeBackend, solo_run

from .rig import Rig, choices, prompt


def test_a_late_row_draws_what_it_draws_alone():
    rig = Rig(FakeBackend(late=3))
    reader = rig.read(rig.submit())
    rig.finish()
    assert reader.tokens == solo_run(reader.session.spec.prompt)


def test_other_rows_go_on_while_one_is_to_come():
    class Late(FakeBackend):
        def open(self, spec):
            return None if spec.prompt.ids[0] == 9 and len(self.plans) < 8 else super().open(spec)

    rig = Rig(Late())
    runner = rig.read(rig.submit(prompt(1, max_tokens=20)))
    late = rig.read(rig.submit(prompt(9)))
    rig.turn(8)
    assert (len(runner.tokens), len(late.tokens)) == (7, 0)
    rig.finish()
    assert late.tokens == solo_run(late.session.spec.prompt)


def test_choices_wait_together_and_fork():
    rig = Rig(FakeBackend(late=3))
    readers = rig.submit_all(choices(3, *range(9)))
    rig.finish()
    assert [r.tokens for r in readers] == [solo_run(r.session.spec.prompt) for r in readers]
    assert len(rig.backend.forks) == 2


def test_rows_that_begin_alike_share_what_is_missing():
    rig = Rig(FakeBackend(late=3, abilities=Abilities(prefixes=True)), prefill_chunk=50)
    first = rig.read(rig.submit(prompt(*range(200), 7)))
    rig.turn(5)
    second = rig.read(rig.submit(prompt(*range(200), 8)))
    rig.finish()
    assert second.session.report.cached_tokens == 200
    assert [r.tokens for r in (first, second)] == [
        solo_run(r.session.spec.prompt) for r in (first, second)
    ]


@pytest.mark.parametrize("turns", range(4))
def test_a_row_that_is_still_to_come_can_be_cancelled(turns):
    rig = Rig(FakeBackend(late=100))
    reader = rig.read(rig.submit())
    rig.turn(turns)
    reader.session.cancel(CancelReason.DISCONNECT)
    rig.finish()
    assert reader.session.outcome == Stopped(CancelReason.DISCONNECT)


def test_exclusive_work_need_not_wait_for_a_disk():
    rig = Rig(FakeBackend(late=5))
    reader = rig.read(rig.submit())
    rig.turn(2)
    job = rig.exclusive(lambda: "done")
    rig.turn()
    assert job.result() == "done"
    rig.finish()
    assert reader.tokens == solo_run(reader.session.spec.prompt)


def test_the_driver_looks_again_without_being_woken():
    async def run():
        door = Gateway(lambda: FakeBackend(late=3), Limits(), MonotonicClock())
        door.start()
        await door.wait_ready()
        (session,) = door.submit([prompt()])
        tokens = [event.token async for batch in session.batches() for event in batch]
        await door.close(1.0)
        return tokens

    assert asyncio.run(run()) == solo_run(prompt())
