"""What sends a request to the solo lane, pinned: a change here is a change of what we promise."""

from __future__ import annotations

import re
from pathlib import Path

from slipstream.serve.fields import NEVER, NOT_YET

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "lanes.md"
ROW = re.compile(r"\| `(?P<field>\w+)` \| `.*`" + 4 * r" \| (\w*)" + r" \|")
SOLO = {"lane"}


def fields_on(lane: str) -> set[str]:
    """The fields that lead to `lane` on any route; the page is compared with the code elsewhere."""
    rows = [match for line in PAGE.read_text("utf-8").splitlines() if (match := ROW.match(line))]
    assert len(rows) > 40
    return {row["field"] for row in rows if lane in row.groups()[1:]}


def test_nothing_but_the_request_for_it_leads_to_the_solo_lane():
    assert fields_on("solo") == SOLO


def test_what_is_refused_is_what_the_tables_refuse():
    assert fields_on("refused") == {*NEVER, *NOT_YET}


def test_all_other_fields_ride_in_the_group():
    assert not fields_on("group") & (fields_on("solo") | fields_on("refused"))
