"""I1: the lane is a pure decision with named reasons."""

import dataclasses

import pytest

from slipstream.contracts.adapters import AdapterUse
from slipstream.contracts.errors import InvalidRequest
from slipstream.contracts.placement import AUTOREGRESSIVE, Abilities, Lane, Needs, Placement, Reason
from slipstream.engine.placement import place

PLAIN = Abilities()
DIFFUSION = Abilities(method="diffusion", obstacle=Reason.METHOD_NOT_AUTOREGRESSIVE)

TABLE = [
    (Needs(), PLAIN, ()),
    (Needs(solo=True), PLAIN, (Reason.REQUESTED,)),
    (Needs(), Abilities(obstacle=Reason.MIXER_NOT_FOUND), (Reason.MIXER_NOT_FOUND,)),
    (Needs(), Abilities(obstacle=Reason.SELF_CHECK_FAILED), (Reason.SELF_CHECK_FAILED,)),
    (Needs(), DIFFUSION, (Reason.METHOD_NOT_AUTOREGRESSIVE,)),
    (Needs(), Abilities(method="diffusion"), (Reason.METHOD_NOT_AUTOREGRESSIVE,)),
    (
        Needs(solo=True),
        Abilities(method="diffusion", obstacle=Reason.SELF_CHECK_FAILED),
        (Reason.REQUESTED, Reason.SELF_CHECK_FAILED, Reason.METHOD_NOT_AUTOREGRESSIVE),
    ),
    (Needs(adapters=(AdapterUse("sql"),)), Abilities(adapters=frozenset({"sql"})), ()),
    (Needs(media=True), Abilities(media=True), ()),
]


@pytest.mark.parametrize(("needs", "abilities", "reasons"), TABLE)
def test_the_table_decides(needs, abilities, reasons):
    lane = Lane.SOLO if reasons else Lane.GROUP
    expected = Placement(lane=lane, method=abilities.method, reasons=reasons)
    assert place(needs, abilities) == expected


def test_every_reason_is_reachable():
    assert {reason for _, _, reasons in TABLE for reason in reasons} == set(Reason)


def test_the_same_question_has_the_same_answer():
    assert place(Needs(solo=True), PLAIN) == place(Needs(solo=True), PLAIN)


def test_a_placement_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        place(Needs(), PLAIN).lane = Lane.SOLO


def test_a_placement_names_the_method():
    assert place(Needs(), PLAIN).method == AUTOREGRESSIVE
    assert place(Needs(), DIFFUSION).method == "diffusion"


def test_an_unknown_adapter_is_refused_with_those_that_are_mounted():
    with pytest.raises(InvalidRequest, match="Mounted adapters: chat, sql") as refusal:
        place(Needs(adapters=(AdapterUse("sq"),)), Abilities(adapters=frozenset({"sql", "chat"})))
    assert refusal.value.param == "adapter"


def test_media_is_refused_by_a_text_model():
    with pytest.raises(InvalidRequest, match="text only") as refusal:
        place(Needs(media=True), PLAIN)
    assert refusal.value.param == "messages"
