"""The dashboard shows what /stats and /admin/rows say."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from slipstream.contracts.backend import Memory, PrefixStats
from slipstream.contracts.report import EngineStats, LaneStats, SpecStats

GB = 1_000_000_000
BUSY = EngineStats(
    turns=1234,
    group=LaneStats(active=3, max=8, submitted=40),
    solo=LaneStats(active=1, submitted=2),
    waiting=5,
    queue_max=64,
    rejected=7,
    lease_held_by="adapters",
    lease_waiting=1,
    memory=Memory(
        weights=2 * GB,
        kv=GB,
        kv_budget=4 * GB,
        prefix_ram=GB // 2,
        active=4 * GB,
        peak=5 * GB,
        budget=8 * GB,
        prefix=PrefixStats(entries=12, hits=30, misses=10, hit_tokens=4567),
    ),
    spec=SpecStats(drafted=100, accepted=61),
    prompt_tokens=10_000,
    cached_tokens=4567,
    generated_tokens=2500,
    placements={"none": 40, "lane_requested": 2},
    finish={"stop": 30, "length": 7},
)
ROW = {
    "id": "req-abcdef-123456",
    "choice": 0,
    "lane": "group",
    "state": "prefill",
    "prompt_tokens": 900,
    "computed": 300,
    "cached_tokens": 128,
    "generated": 0,
    "age_ms": 1500,
    "reasons": [],
}
ROWS = "**/admin/rows"


@pytest.fixture
def board(page: Page, served) -> Page:
    served.engine.numbers = BUSY
    page.get_by_role("link", name="Dashboard").click()
    return page


def card(page: Page, title: str):
    return page.locator("section").filter(has=page.get_by_role("heading", name=title))


def test_lanes_queue_and_lease_are_there(board: Page):
    expect(card(board, "Group lane")).to_contain_text("3 of 8")
    expect(card(board, "Group lane")).to_contain_text("solo lane: 1 running")
    expect(board.locator(".slots .full")).to_have_count(3)
    expect(card(board, "Queue").first).to_contain_text("5 of 64")
    expect(card(board, "Queue").first).to_contain_text("7 refused")
    expect(card(board, "Lease")).to_contain_text("adapters")


def test_memory_is_a_bar_of_kinds_against_the_budget(board: Page):
    memory = card(board, "Memory")
    expect(memory).to_contain_text("4.00 GB of 8.00 GB; peak 5.00 GB")
    expect(memory.locator("li")).to_have_text(
        [
            "weights2.00 GB",
            "live rows1.00 GB",
            "prefix cache500 MB",
            "other500 MB",
            "rows may hold4.00 GB",
        ]
    )
    widths = memory.locator(".stack i").evaluate_all("all => all.map(i => i.style.width)")
    assert widths == ["25%", "12.5%", "6.25%", "6.25%"]


def test_prefixes_placements_endings_and_drafts_are_there(board: Page):
    expect(card(board, "Prefix cache")).to_contain_text("75 % of 40 prompts found something")
    expect(card(board, "Placements").locator("li")).to_have_text(
        [
            "group shares every step with the others40",
            "lane_requested the request asked for the solo lane2",
        ]
    )
    expect(card(board, "How answers ended").locator("li")).to_have_text(
        [
            "stop the model was done, or met a stop text30",
            "length the longest answer or the context was used up7",
        ]
    )
    expect(card(board, "Speculation")).to_contain_text("61, 61 %")


def test_the_speed_is_what_the_counters_gained(board: Page, served):
    expect(card(board, "Generating")).to_contain_text("2,500 tokens so far")
    served.engine.numbers = EngineStats(
        group=BUSY.group, prompt_tokens=10_000, cached_tokens=4567, generated_tokens=3500
    )
    expect(card(board, "Generating")).to_contain_text(re.compile(r"[1-9]\d\d?(,\d+)? tok/s"))


def test_a_server_without_a_list_of_rows_is_told_so(page: Page):
    page.route(ROWS, lambda route: route.fulfill(status=404, json={"error": {"message": "No."}}))
    page.get_by_role("link", name="Dashboard").click()
    expect(card(page, "Live rows")).to_contain_text("This server does not list its rows")


def test_rows_stand_on_a_timeline_and_stay_a_while_when_they_end(page: Page):
    page.route(ROWS, lambda route: route.fulfill(json={"rows": [ROW]}))
    page.get_by_role("link", name="Dashboard").click()
    line = card(page, "Live rows").locator("tbody tr")
    expect(line).to_contain_text("req-abcdef-1")
    expect(line).to_contain_text("300 of 900 128 cached")
    expect(line.locator("rect.phase-prefill")).to_have_count(1)
    grown = {**ROW, "state": "decode", "computed": 900, "generated": 17, "age_ms": 2600}
    page.unroute(ROWS)
    page.route(ROWS, lambda route: route.fulfill(json={"rows": [grown]}))
    expect(line).to_contain_text("decode")
    expect(line.locator("rect")).to_have_count(2)
    page.unroute(ROWS)
    page.route(ROWS, lambda route: route.fulfill(json={"rows": []}))
    expect(line).to_contain_text("ended")


def test_a_row_can_be_ended(page: Page):
    page.route(ROWS, lambda route: route.fulfill(json={"rows": [ROW]}))
    page.route(f"{ROWS}/*", lambda route: route.fulfill(json={"id": ROW["id"], "cancelled": 1}))
    page.get_by_role("link", name="Dashboard").click()
    with page.expect_request(lambda one: one.method == "DELETE") as sent:
        page.get_by_role("button", name=f"End {ROW['id']}").click()
    assert sent.value.url.endswith(f"/admin/rows/{ROW['id']}")


def test_a_restarted_server_begins_a_new_curve(board: Page, served):
    expect(card(board, "Generating")).to_contain_text("2,500 tokens so far")
    served.engine.numbers = EngineStats()
    expect(card(board, "Generating")).to_contain_text("0 tokens so far")
    expect(card(board, "Generating")).to_contain_text("0.0 tok/s")
