"""The page, the real server and the starter model, all together."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from e2e.server import ready

from .test_chat import answers, say, settings
from .test_dashboard import card

LOAD = 60_000  # milliseconds that an answer may take on a busy machine


def test_the_starter_answers_and_the_dashboard_counts_it(visit, tmp_path):
    with ready(tmp_path / "log") as server:
        page = visit(server.url)
        panel = settings(page)
        panel.get_by_label("Longest answer").fill("8")
        panel.get_by_label("Temperature").fill("0")
        say(page, "Say hello.")
        line = answers(page).locator(".account summary")
        expect(line).to_contain_text(re.compile(r"group.*tok/s · \d tokens"), timeout=LOAD)
        page.get_by_role("link", name="Dashboard").click()
        expect(card(page, "Generating")).to_contain_text(re.compile(r"[1-9] tokens so far"))
        expect(card(page, "Placements")).to_contain_text("group shares every step with the others1")
        expect(card(page, "Live rows")).to_contain_text("No row runs.")
