"""Rows that end in a vector: among others, sharing the device and none of what was computed."""

from __future__ import annotations

import pytest

from slipstream.contracts.errors import InvalidRequest, QueueFull, RowFault
from slipstream.contracts.placement import Abilities, Needs
from slipstream.contracts.pooling import Pooling, PoolMode
from slipstream.contracts.row import CancelReason, Prompt
from slipstream.library.embedding import embeddings
from slipstream.testing.backend import FakeBackend, mix, solo_run

from .rig import Faults, Rig, prompt

CAN = Abilities(states=True, prefixes=True)


def asked(*ids: int) -> Prompt:
    pooling = Pooling(mode=PoolMode.LAST, size=2, normalized=False)
    return prompt(*ids, max_tokens=1, needs=Needs(states=True), pooling=pooling)


def twin(*ids: int) -> bytes:
    state = 0
    for token in ids:
        state = mix(state, token)
    return state.to_bytes(8, "little")


def test_vectors_come_in_the_order_of_the_inputs_however_few_places_there_are() -> None:
    rig = Rig(FakeBackend(abilities=CAN), batch=2, queue=1)
    inputs = [tuple(range(1, 2 + 5 * n % 7)) for n in range(9)]
    making = rig.spawn(
        embeddings(rig.desk.submit, [asked(*ids) for ids in inputs], rig.limits.batch)
    )
    rig.until(making.done)
    made = making.result()
    assert made.vectors == tuple(twin(*ids) for ids in inputs)
    assert made.report.prompt_tokens == sum(map(len, inputs))
    rig.finish()


def test_a_row_beside_it_says_what_it_says_alone_and_gets_its_turns() -> None:
    rig = Rig(FakeBackend(abilities=CAN), batch=2, prefill_chunk=8)
    talker = rig.read(rig.submit(prompt(7, 8, 9, max_tokens=20)))
    making = rig.spawn(embeddings(rig.desk.submit, [asked(*range(1, 60)) for _ in range(4)], 1))
    rig.until(lambda: len(talker.tokens) > 10)
    assert not making.done()
    rig.finish()
    assert talker.tokens == solo_run(prompt(7, 8, 9, max_tokens=20))
    assert making.result().vectors == (twin(*range(1, 60)),) * 4
    assert rig.desk.stats().generated_tokens == 20


def test_nothing_of_it_comes_from_or_goes_to_the_prefix_cache() -> None:
    rig = Rig(FakeBackend(abilities=CAN))
    ids = tuple(range(1, 90))
    rig.read(rig.submit(prompt(*ids)))
    rig.run()
    kept = len(rig.backend.kept)
    readers = [rig.read(rig.submit(asked(*ids))) for _ in range(2)]
    rig.run()
    assert [reader.session.report.cached_tokens for reader in readers] == [0, 0]
    assert [reader.events[-1].vector for reader in readers] == [twin(*ids)] * 2
    assert len(rig.backend.kept) == kept
    rig.finish()


def test_the_fault_of_one_input_ends_the_request_and_nobody_else() -> None:
    faults = Faults().always("draw", lambda prompts: prompts[0].ids == (5, 5))
    rig = Rig(FakeBackend(abilities=CAN, fault=faults), batch=4)
    other = rig.read(rig.submit(prompt(1, 2, 3)))
    making = rig.spawn(
        embeddings(rig.desk.submit, [asked(1, 2), asked(5, 5), asked(*range(40))], 4)
    )
    rig.until(making.done)
    assert isinstance(making.exception(), RowFault)
    rig.finish()
    assert other.tokens == solo_run(prompt(1, 2, 3))


def test_cancelling_it_ends_its_rows_and_sends_no_more() -> None:
    rig = Rig(FakeBackend(abilities=CAN), batch=2, prefill_chunk=4)
    making = rig.spawn(embeddings(rig.desk.submit, [asked(*range(1, 50)) for _ in range(9)], 2))
    rig.turn(2)
    making.cancel()
    rig.finish()
    assert making.cancelled()
    stats = rig.desk.stats()
    assert stats.group.submitted == 4
    assert stats.finish == {CancelReason.DISCONNECT: 4}


def test_a_full_queue_refuses_it_whole_only_before_it_began() -> None:
    rig = Rig(FakeBackend(abilities=CAN), batch=1, queue=0)
    talker = rig.read(rig.submit(prompt(max_tokens=8)))
    refused = rig.spawn(embeddings(rig.desk.submit, [asked(1, 2)], 1))
    rig.settle()
    assert isinstance(refused.exception(), QueueFull)
    rig.until(lambda: talker.session.outcome is not None)
    making = rig.spawn(embeddings(rig.desk.submit, [asked(1, 2), asked(3, 4)], 1))
    rig.until(making.done)
    assert making.result().vectors == (twin(1, 2), twin(3, 4))
    rig.finish()


def test_a_model_whose_states_cannot_be_had_refuses_by_name() -> None:
    rig = Rig(FakeBackend(abilities=Abilities()))
    with pytest.raises(InvalidRequest) as refused:
        rig.submit(asked(1, 2))
    assert refused.value.param == "model"
    rig.finish()
