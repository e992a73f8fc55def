"""What goes wrong is said in plain words, with what to do; and keys are asked for once."""

from __future__ import annotations

import asyncio

import pytest
from playwright.sync_api import Page, expect

from slipstream.contracts import errors
from slipstream.contracts.delta import Delta

from .browser import site
from .test_chat import answers, say

REFUSALS = {
    "full": (errors.QueueFull("64 wait."), "busy", "The server suggests 1 s."),
    "long": (
        errors.ContextExceeded(9000, 4096, param="messages"),
        "too long for the model",
        "9000",
    ),
    "field": (
        errors.InvalidRequest("top_p is 2.", param="top_p"),
        "refused “top_p”",
        "top_p is 2.",
    ),
    "away": (errors.Unavailable("The model is loading."), "cannot answer now", "is loading"),
    "fault": (RuntimeError("secret"), "The server failed.", "The server's log has more"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_is_told_with_what_to_do(page: Page, served, name: str):
    served.engine.refusal, *words = REFUSALS[name]
    say(page, "Hi")
    alert = page.get_by_role("alert")
    for word in words:
        expect(alert).to_contain_text(word)
    served.engine.refusal = None
    alert.get_by_role("button", name="Try again").click()
    expect(answers(page)).to_contain_text("Hello 🙂!")
    expect(answers(page)).to_have_count(1)


def test_a_fault_in_the_middle_keeps_what_came(page: Page, served):
    served.engine.script = [Delta(text="So far", tokens=1), errors.RowFault("sink", "it broke")]
    say(page, "Hi")
    expect(page.get_by_role("alert")).to_contain_text("failed inside the server")
    expect(answers(page)).to_contain_text("So far")


def test_a_stream_that_breaks_off_is_told(page: Page):
    body = 'data: {"choices": [{"index": 0, "delta": {"content": "So far"}}]}\n\n'
    page.route(
        "**/v1/chat/completions",
        lambda route: route.fulfill(body=body, content_type="text/event-stream"),
    )
    say(page, "Hi")
    expect(page.get_by_role("alert")).to_contain_text("connection was lost")
    expect(answers(page)).to_contain_text("So far")


def test_a_server_that_is_gone_is_told_and_found_again(page: Page, context):
    context.set_offline(True)
    say(page, "Hi")
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer.")
    context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    expect(answers(page)).to_contain_text("Hello")


def test_a_reload_in_the_middle_leaves_a_stopped_answer(page: Page, served):
    served.engine.script = [Delta(text="So far", tokens=1), asyncio.Event()]
    say(page, "Hi")
    expect(answers(page)).to_contain_text("So far")
    page.reload()
    page.get_by_role("button", name="Hi").first.click()
    expect(answers(page)).to_have_attribute("aria-busy", "false")


def test_a_key_is_asked_for_once_in_a_tab(visit):
    with site(api_keys=("sesame",)) as guarded:
        page = visit(guarded.url)
        dialog = page.get_by_role("dialog", name="This server needs a key")
        dialog.get_by_label("API key").fill("wrong")
        dialog.get_by_role("button", name="Go on").click()
        expect(dialog).to_contain_text("does not take this key")
        dialog.get_by_label("API key").fill("sesame")
        page.keyboard.press("Enter")
        expect(dialog).to_be_hidden()
        say(page, "Hi")
        expect(answers(page)).to_contain_text("Hello")
        page.reload()
        expect(page.get_by_label("Model")).to_have_value("acme/tiny-1B")
        expect(dialog).to_be_hidden()
        assert "sesame" not in page.evaluate("JSON.stringify(localStorage)")


def test_a_model_that_still_loads_is_told(page: Page, served):
    served.engine.state = "loading"
    page.reload()
    expect(page.get_by_role("status").first).to_contain_text("The model is still loading.")
    served.engine.state = "ready"
    expect(page.get_by_label("Model")).to_have_value("acme/tiny-1B")
