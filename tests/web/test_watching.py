"""What the dashboard draws beside /stats: percentiles, the prefix tree, and traces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, Route, expect

from slipstream.contracts.delta import Delta

from .test_chat import answers, say
from .test_dashboard import card

LATENCY = {
    "span_s": 60.0,
    "first_token_ms": {"count": 9, "p50": 120.0, "p95": 480.0, "p99": 1500.0},
    "gap_ms": {"count": 0, "p50": None, "p95": None, "p99": None},
}
SEGMENTS = [
    {"start": 0, "tokens": 400, "bytes": 4_000_000, "subtree": 5_500_000, "hits": 7, "parent": -1},
    {"start": 400, "tokens": 50, "bytes": 900_000, "subtree": 900_000, "hits": 0, "parent": 0},
    {"start": 0, "tokens": 30, "bytes": 700_000, "subtree": 700_000, "hits": 2, "parent": -1},
    {"start": 400, "tokens": 10, "bytes": 600_000, "subtree": 600_000, "hits": 1, "parent": 0},
]
ENTRY = {
    "id": "req/1 ü",
    "state": "ended",
    "age_ms": 9000.0,
    "duration_ms": 2000.0,
    "error": "",
    "finish": "length",
    "route": "/v1/chat/completions",
    "lane": "solo",
    "reasons": ["lane_requested"],
    "prompt_tokens": 900,
    "generated": 17,
    "phases_ms": {"queue": 100.0, "prefill": 400.0, "decode": 1500.0},
}
TRACE = {
    **ENTRY,
    "attributes": {
        "slipstream.lane": "solo",
        "slipstream.reasons": ["lane_requested"],
        "slipstream.cached_tokens": 128,
        "gen_ai.usage.input_tokens": 900,
    },
    "hops": [
        {"name": "queue", "start_ms": 0.0, "duration_ms": 100.0},
        {"name": "prefill", "start_ms": 100.0, "duration_ms": 400.0},
        {"name": "decode", "start_ms": 500.0, "duration_ms": 1500.0},
    ],
    "moments": [
        {"name": "cache", "at_ms": 100.0, "attributes": {"outcome": "hit", "cached_tokens": 128}},
        {"name": "park", "at_ms": 900.0, "attributes": {}},
    ],
}
PREFIXES = {"entries": 9, "segments": SEGMENTS}


def watched(page: Page) -> None:
    """Answers what the dashboard asks for, with the values above."""
    answers_of = {"latency": LATENCY, "prefixes": PREFIXES, "traces": {"traces": [ENTRY]}}
    for name, told in answers_of.items():
        page.route(f"**/admin/{name}", given(told))
    page.route("**/admin/traces/**", lambda route: route.fulfill(json=TRACE))


def given(told: Any) -> Callable[[Route], None]:
    return lambda route: route.fulfill(json=told)


def board(page: Page) -> Page:
    watched(page)
    page.get_by_role("link", name="Dashboard").click()
    return page


def test_percentiles_are_the_servers_own(page: Page):
    tile = card(board(page), "First token").first
    expect(tile).to_contain_text("120 ms")
    expect(tile).to_contain_text("p95 480 ms · p99 1.5 s")
    expect(card(page, "Gap between tokens").first).to_contain_text("no gaps for a minute")
    chart = page.get_by_role("img", name="First token over the last five minutes")
    expect(chart).to_have_accessible_name("First token over the last five minutes; now: "
        "p50 120 ms, p95 480 ms, p99 1.5 s")  # fmt: skip


def test_the_prefix_tree_is_drawn_depth_first_with_sizes_and_hits(page: Page):
    tree = card(board(page), "Prefix tree")
    expect(tree.locator("tbody tr")).to_have_text(
        ["4004.00 MB7", "50900 kB0", "10600 kB1", "30700 kB2"]
    )
    lefts = tree.locator(".span").evaluate_all("all => all.map(i => i.style.left)")
    assert [float(left.rstrip("%")) for left in lefts[:1] + lefts[3:]] == [0, 0]
    assert lefts[1] == lefts[2] != lefts[0]
    expect(tree).to_contain_text("5 lighter ones are not drawn.")


def test_a_request_that_ended_opens_its_trace(page: Page):
    line = card(board(page), "Recent requests").locator("tbody tr")
    expect(line).to_contain_text("length")
    expect(line).to_contain_text("lane_requested")
    with page.expect_request("**/admin/traces/**") as sent:
        line.get_by_role("button").click()
    assert sent.value.url.endswith("/admin/traces/req/1%20%C3%BC")
    dialog = page.get_by_role("dialog", name="Trace")
    expect(dialog.locator(".waterfall tbody td:first-child")).to_have_text(
        [
            "queue waits for a place",
            "prefill the prompt is computed",
            "decode tokens are drawn",
            "events",
        ]
    )
    lefts = dialog.locator(".waterfall .span").evaluate_all("all => all.map(i => i.style.left)")
    assert lefts == ["0%", "5%", "25%"]
    expect(dialog).to_contain_text("the prefix cache had 128 tokens")
    expect(dialog).to_contain_text("rested for exclusive work")


def test_a_trace_closes_by_key_by_button_and_by_a_click_beside_it(page: Page):
    link = card(board(page), "Recent requests").get_by_title("Trace of")
    dialog = page.get_by_role("dialog")
    for close in (
        lambda: page.keyboard.press("Escape"),
        lambda: dialog.get_by_role("button", name="Close").click(),
        lambda: page.mouse.click(5, 400),
    ):
        link.click()
        expect(dialog).to_be_visible()
        close()
        expect(dialog).to_have_count(0)
        expect(link).to_be_focused()


def test_a_request_that_is_kept_no_more_says_so(page: Page):
    board(page)
    page.unroute("**/admin/traces/**")
    card(page, "Recent requests").get_by_title("Trace of").click()
    expect(page.get_by_role("dialog")).to_contain_text("keeps no trace of this request")


def test_an_answer_opens_its_trace_also_while_it_runs(page: Page, served):
    served.engine.script = [Delta(text="So far", tokens=1), asyncio.Event()]
    say(page, "Hi")
    expect(answers(page)).to_contain_text("So far")
    answers(page).locator(".account summary").click()
    answers(page).get_by_title("Trace of").click()
    dialog = page.get_by_role("dialog", name="Trace")
    expect(dialog).to_contain_text("still running")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(answers(page)).to_have_attribute("aria-busy", "true")  # the key closed the trace only
    page.keyboard.press("Escape")
    expect(answers(page)).to_have_attribute("aria-busy", "false")
    answers(page).get_by_title("Trace of").click()
    expect(dialog).to_contain_text("ended: disconnect")


def test_a_server_of_before_shows_its_numbers_all_the_same(page: Page):
    page.route("**/admin/**", lambda route: route.fulfill(status=404, json={"error": {}}))
    page.get_by_role("link", name="Dashboard").click()
    expect(card(page, "First token").first).to_contain_text("not told by this server")
    expect(card(page, "Recent requests")).to_contain_text("does not list them")


def test_words_of_any_length_and_direction_stay_within_the_page(page: Page, served):
    served.engine.script = [Delta(text=f"שלום עולם\n\n{'x' * 400}", tokens=1)]
    page.set_viewport_size({"width": 390, "height": 844})
    say(page, "مرحبا " + "y" * 400)
    expect(answers(page).locator(".markdown > div").first).to_have_css("direction", "rtl")
    expect(page.locator(".bubble")).to_have_css("direction", "rtl")
    wide = "document.querySelector('.scroller').scrollWidth"
    assert page.evaluate(wide) <= 390
