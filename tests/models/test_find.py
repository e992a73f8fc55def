"""Which model a name means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from slipstream.contracts.errors import ModelError
from slipstream.models import starter
from slipstream.models.disk import Stored
from slipstream.models.find import Folder, Found, HubId, Starter, only, resolve


def stored(id: str, problem: str | None = None) -> Stored:
    return Stored(id=id, path=Path("hub", id), size=1, problem=problem)


QWEN, QWEN_SMALL = stored("org/Qwen3-4B"), stored("org/Qwen3-4B-4bit")
PARTIAL = stored("other/half", problem="a shard is missing")
ALL = (QWEN, QWEN_SMALL, PARTIAL)


def meaning(name: str | None, stored: Sequence[Stored] = ALL) -> Found:
    return resolve(name, lambda: stored)


@pytest.mark.parametrize("name", [None, "starter", "STARTER", starter.NAME])
def test_no_name_and_the_starters_name_mean_the_starter(name: str | None) -> None:
    assert meaning(name, ()) == Starter()


def test_a_part_of_the_starters_name_means_it_once_it_is_on_disk() -> None:
    assert meaning("smollm2", [stored(starter.NAME)]) == Starter()


def test_a_folder_comes_first(tmp_path: Path) -> None:
    assert meaning(str(tmp_path)) == Folder(tmp_path)


def test_a_path_that_is_not_there_is_no_name() -> None:
    with pytest.raises(ModelError, match="There is no folder"):
        meaning("./no/such")


def test_an_exact_id_on_disk_needs_no_hub() -> None:
    assert meaning("ORG/qwen3-4b") == Folder(QWEN.path, QWEN.id)


def test_an_id_that_is_not_on_disk_is_the_hubs() -> None:
    assert meaning("org/Qwen3") == HubId("org/Qwen3")


def test_a_model_that_is_not_whole_is_to_be_fetched_on() -> None:
    assert meaning("other/half") == meaning("half") == HubId("other/half")


def test_a_unique_part_is_enough() -> None:
    assert meaning("4bit") == Folder(QWEN_SMALL.path, QWEN_SMALL.id)


def test_the_whole_last_part_wins_over_longer_names() -> None:
    assert meaning("qwen3-4b") == Folder(QWEN.path, QWEN.id)


def test_a_part_of_several_names_lists_them() -> None:
    with pytest.raises(ModelError, match="org/Qwen3-4B, org/Qwen3-4B-4bit"):
        meaning("qwen")


def test_an_unknown_name_lists_what_is_near() -> None:
    with pytest.raises(ModelError, match="On disk: other/half"):
        meaning("others-half")


def test_an_unknown_name_on_an_empty_disk_says_so() -> None:
    with pytest.raises(ModelError, match="No model is on this disk yet"):
        meaning("qwen", ())


def test_only_prefers_the_exact_id() -> None:
    assert only("org/Qwen3-4B", ALL) is QWEN
