"""Conversations stay in the browser, and can be named, deleted, taken out and put back."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

from playwright.sync_api import Page, expect

from slipstream.contracts.delta import Delta

from .test_chat import answers, say


def begin(page: Page, text: str) -> None:
    page.keyboard.press("Control+k")
    say(page, text)
    expect(answers(page)).to_contain_text("Hello")
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def entries(page: Page):
    return page.locator(".chat-title")


def test_a_reload_finds_everything_again(page: Page):
    begin(page, "First question")
    page.reload()
    page.get_by_role("button", name=re.compile("^First question")).click()
    expect(answers(page)).to_contain_text("Hello 🙂!")
    expect(answers(page).locator(".account summary")).to_contain_text("group")


def test_the_newest_conversation_comes_first(page: Page):
    begin(page, "One")
    begin(page, "Two")
    expect(entries(page)).to_have_text(["Two", "One"])


def test_a_conversation_can_be_renamed(page: Page):
    begin(page, "One")
    page.get_by_role("button", name="Rename").click()
    page.get_by_label("Name of the conversation").fill("Another name")
    page.keyboard.press("Enter")
    expect(entries(page)).to_have_text(["Another name"])
    page.reload()
    expect(entries(page)).to_have_text(["Another name"])


def test_a_deleted_conversation_is_gone_unless_taken_back(page: Page):
    begin(page, "One")
    page.get_by_role("button", name="Delete").click()
    expect(entries(page)).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(entries(page)).to_have_text(["One"])
    page.get_by_role("button", name=re.compile("^One")).click()
    page.get_by_role("button", name="Delete").click()
    page.reload()
    expect(page.get_by_text("Conversations stay in this browser.")).to_be_visible()


def test_deleting_a_conversation_ends_its_answer(page: Page, served):
    served.engine.script = [Delta(text="Part", tokens=1), asyncio.Event()]
    say(page, "One")
    expect(answers(page)).to_contain_text("Part")
    page.get_by_role("button", name="Delete").click()
    served.wait_for(served.engine.runnings[-1].ended)
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name=re.compile("^One")).click()
    expect(answers(page)).to_have_attribute("aria-busy", "false")


def test_an_exported_conversation_reads_as_markdown(page: Page):
    begin(page, "One")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as Markdown").click()
    assert download.value.suggested_filename == "one.md"
    text = Path(download.value.path()).read_text("utf-8")
    assert text == "# One\n\n## You\n\nOne\n\n## Answer\n\nHello 🙂!\n\n"


def test_what_was_exported_can_be_imported(page: Page):
    begin(page, "One")
    begin(page, "Two")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export all").click()
    assert len(json.loads(Path(download.value.path()).read_text("utf-8"))) == 2
    page.evaluate("localStorage.clear()")
    page.reload()
    page.get_by_label("File to import").set_input_files(download.value.path())
    expect(entries(page)).to_have_text(["Two", "One"])


def test_a_file_that_is_no_conversation_is_named(page: Page, tmp_path: Path):
    (tmp_path / "x.json").write_text("not json")
    page.get_by_label("File to import").set_input_files(tmp_path / "x.json")
    expect(page.get_by_text("x.json is no file of conversations")).to_be_visible()


def test_two_tabs_show_the_same_list(page: Page, visit):
    other = visit(page.url)
    begin(page, "One")
    expect(entries(other)).to_have_text(["One"])


def test_broken_storage_costs_only_the_broken_entry(page: Page):
    begin(page, "One")
    page.evaluate("localStorage.setItem('slipstream.chat.bad', '{')")
    page.reload()
    expect(entries(page)).to_have_text(["One"])
