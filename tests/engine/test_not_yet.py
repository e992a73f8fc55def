"""A row that the backend cannot make yet is asked for again, and keeps nobody waiting."""

from __future__ import annotations

from slipstream.contracts.backend import Row
from slipstream.contracts.row import CancelReason, RowSpec
from slipstream.testing.backend import FakeBackend, solo_run

from .rig import Rig, choices, prompt


class Late(FakeBackend):
    """Prompts that begin with 9 are on their way from a disk until `here` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.here = False
        self.asked = 0

    def open(self, spec: RowSpec) -> Row | None:
        if spec.prompt.ids[0] == 9 and not self.here:
            self.asked += 1
            return None
        return super().open(spec)


def test_others_run_meanwhile_and_it_runs_when_it_is_there() -> None:
    backend = Late()
    rig = Rig(backend)
    late, other = prompt(9, 2, 3), prompt(1, 2, 3)
    waiting, running = rig.submit_all([late])[0], rig.submit_all([other])[0]
    while not running.task.done():
        rig.turn()
    assert running.tokens == solo_run(other)
    assert waiting.tokens == []
    assert backend.asked > 1
    backend.here = True
    while not waiting.task.done():
        rig.turn()
    assert waiting.tokens == solo_run(late)
    assert backend.breaches == []


def test_all_choices_of_a_request_run_when_it_is_there() -> None:
    backend = Late()
    rig = Rig(backend)
    asked = choices(3, 9, 2, 3)
    readers = rig.submit_all(asked)
    rig.turn()
    rig.turn()
    backend.here = True
    while not all(reader.task.done() for reader in readers):
        rig.turn()
    assert [reader.tokens for reader in readers] == [solo_run(one) for one in asked]


def test_it_can_be_cancelled_while_it_waits() -> None:
    backend = Late()
    rig = Rig(backend)
    reader = rig.submit_all([prompt(9, 2, 3)])[0]
    rig.turn()
    reader.session.cancel(CancelReason.DISCONNECT)
    rig.turn()
    asked = backend.asked
    assert not rig.turn()
    assert reader.task.done()
    assert backend.asked == asked
