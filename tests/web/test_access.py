"""What axe-core finds wrong for people who do not see, or do not use a mouse: nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from slipstream.contracts.delta import Delta
from slipstream.contracts.row import FinishReason

from .test_chat import answers, say, settings
from .test_dashboard import BUSY, ROW, ROWS
from .test_watching import TRACE, watched

AXE = (Path(__file__).parent / "vendor" / "axe.js").read_text("utf-8")
RULES = "axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})"
TEXT = "Words with `code` and a [link](https://a.example).\n\n```python\n# c\nx = 'a'\n```"


def faults(page: Page) -> list[str]:
    page.evaluate(AXE)
    found = page.evaluate(RULES)["violations"]
    return [f"{one['id']}: {node['html'][:120]}" for one in found for node in one["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_chat_has_no_faults(page: Page, served, scheme: str):
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    assert faults(page) == []
    served.engine.script = [
        Delta(reasoning="Hm.", tokens=1),
        Delta(text=TEXT, tokens=9),
        Delta(tokens=1, finish=FinishReason.LENGTH),
    ]
    say(page, "Hi")
    answers(page).locator(".account summary").click()
    answers(page).get_by_text("Thoughts").click()
    settings(page).get_by_label("Temperature").fill("1")
    expect(page.get_by_role("button", name="Settings, 1 set")).to_be_visible()
    assert faults(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_dashboard_has_no_faults(page: Page, served, scheme: str):
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    served.engine.numbers = BUSY
    page.route(ROWS, lambda route: route.fulfill(json={"rows": [ROW]}))
    page.get_by_role("link", name="Dashboard").click()
    expect(page.locator("rect")).to_have_count(1)
    assert faults(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_trace_has_no_faults(page: Page, scheme: str):
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    watched(page)
    page.get_by_role("link", name="Dashboard").click()
    page.get_by_title(f"Trace of {TRACE['id']}").click()
    expect(page.get_by_role("dialog").locator(".waterfall tbody tr")).to_have_count(4)
    assert faults(page) == []


def test_the_keyboard_alone_reaches_bar_list_and_message(page: Page):
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    expect(page.get_by_label("Model")).to_be_visible()
    page.get_by_role("link", name="Chat").focus()
    seen = []
    for _ in range(8):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate(
                "document.activeElement.ariaLabel ?? document.activeElement.textContent.trim()"
            )
        )
    assert seen[:4] == ["Dashboard", "Model", "Settings", "Theme: auto"]
    assert seen[4].startswith("New chat") and "Messages" in seen
