"""The chat, as somebody at a browser sees it."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from playwright.sync_api import Page, expect

from serve.scripted import HELLO
from slipstream.contracts.delta import Delta
from slipstream.contracts.row import CancelReason, FinishReason

from .browser import asked, delta, frames

END = Delta(tokens=1, finish=FinishReason.STOP)
CHAT = "**/v1/chat/completions"


def say(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def answers(page: Page):
    return page.get_by_role("article", name="Answer")


def settings(page: Page):
    page.get_by_role("button", name=re.compile("^Settings")).click()
    return page.get_by_role("complementary", name="Settings")


def test_an_answer_appears_below_its_question(page: Page):
    say(page, "Hi")
    expect(answers(page)).to_contain_text("Hello 🙂!")
    expect(page.get_by_role("article", name="You")).to_have_text("Hi")


def test_an_answer_shows_while_it_grows_and_escape_stops_it(page: Page, served):
    hold = asyncio.Event()
    served.engine.script = [Delta(text="First words", tokens=2), hold, END]
    say(page, "Hi")
    expect(answers(page)).to_contain_text("First words")
    expect(answers(page)).to_have_attribute("aria-busy", "true")
    page.keyboard.press("Escape")
    expect(answers(page)).to_contain_text("stopped")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    served.wait_for(served.engine.runnings[-1].ended)
    assert served.engine.runnings[-1].reason is CancelReason.DISCONNECT


def test_the_stop_button_stops(page: Page, served):
    served.engine.script = [asyncio.Event(), END]
    say(page, "Hi")
    expect(answers(page)).to_contain_text("On the group lane")
    page.get_by_role("button", name="Stop").click()
    expect(answers(page)).to_contain_text("Stopped before the first word.")


def test_shift_enter_breaks_the_line_and_enter_sends(page: Page, served):
    page.get_by_label("Message", exact=True).press_sequentially("a")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("b")
    page.keyboard.press("Enter")
    expect(answers(page)).to_contain_text("Hello")
    assert asked(served) == [{"role": "user", "content": "a\nb"}]


def test_each_answer_shows_lane_times_and_tokens(page: Page):
    say(page, "Hi")
    line = answers(page).locator(".account summary")
    expect(line).to_contain_text("group")
    expect(line).to_contain_text("167 tok/s · 5 tokens · 3 cached")
    line.click()
    facts = answers(page).locator("dl")
    for words in ("Queue1.5 ms", "Prefill20 ms", "Decode30 ms", "7, 3 of them cached", "Seed11"):
        expect(facts).to_contain_text(words)


def test_a_solo_answer_shows_its_reason(page: Page, served):
    settings(page).get_by_label("Lane").select_option("solo")
    say(page, "Hi")
    expect(answers(page).locator(".account summary")).to_contain_text("lane_requested")


def test_a_conversation_goes_on_with_all_that_was_said(page: Page, served):
    say(page, "One")
    expect(answers(page)).to_have_count(1)
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    say(page, "Two")
    expect(answers(page)).to_have_count(2)
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    assert [one["content"] for one in asked(served)] == ["One", "Hello 🙂!", "Two"]


def test_answering_again_replaces_the_answer(page: Page, served):
    say(page, "Hi")
    expect(answers(page)).to_contain_text("Hello")
    served.engine.script = [Delta(text="Other", tokens=1), END]
    page.get_by_role("button", name="Answer again").click()
    expect(answers(page)).to_contain_text("Other")
    expect(answers(page)).to_have_count(1)
    assert asked(served) == [{"role": "user", "content": "Hi"}]


def test_an_edited_message_is_answered_anew(page: Page, served):
    say(page, "Hi")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    page.get_by_role("article", name="You").hover()
    page.get_by_role("button", name="Edit message").click()
    page.get_by_label("Edit your message").fill("Bye")
    page.keyboard.press("Enter")
    expect(page.get_by_role("article", name="You")).to_have_text("Bye")
    expect(answers(page)).to_contain_text("Hello")
    assert asked(served) == [{"role": "user", "content": "Bye"}]


def test_an_edited_answer_is_what_the_model_reads_next(page: Page, served):
    say(page, "Hi")
    page.get_by_role("button", name="Edit answer").click()
    page.get_by_label("Edit the answer").fill("Mine")
    page.get_by_role("button", name="Save").click()
    expect(answers(page)).to_contain_text("Mine")
    say(page, "Next")
    expect(answers(page).last).to_contain_text("Hello")
    assert [one["content"] for one in asked(served)] == ["Hi", "Mine", "Next"]


def test_settings_reach_the_server_and_empty_ones_do_not(page: Page):
    panel = settings(page)
    panel.get_by_label("System prompt").fill("Be brief.")
    panel.get_by_label("Temperature").fill("0.7")
    panel.get_by_label("Longest answer").fill("50")
    panel.get_by_label("Seed").fill("9007199254740993")
    panel.get_by_label("Stop texts").fill("###\nEnd")
    panel.get_by_label("More fields").fill('{"priority": 1}')
    with page.expect_request(CHAT) as sent:
        say(page, "Hi")
    body = json.loads(sent.value.post_data)
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (body["temperature"], body["max_tokens"], body["priority"]) == (0.7, 50, 1)
    assert body["seed"] == 9007199254740993  # beyond what the page's numbers hold
    assert body["stop"] == ["###", "End"]
    assert body["stream_options"] == {"include_usage": True}
    assert not {"top_p", "top_k", "lane", "tools"} & body.keys()


def test_a_setting_that_cannot_be_read_says_so_at_once(page: Page):
    panel = settings(page)
    panel.get_by_label("More fields").fill("{nonsense")
    expect(panel).to_contain_text("More fields is not JSON")
    say(page, "Hi")
    expect(page.get_by_role("alert")).to_contain_text("A setting cannot be read.")


def test_reasoning_is_folded_above_the_answer(page: Page, served):
    served.engine.script = [Delta(reasoning="Hm, let me see.", tokens=4), *HELLO]
    say(page, "Hi")
    thoughts = answers(page).get_by_text("Hm, let me see.")
    expect(answers(page)).to_contain_text("Hello 🙂!")
    expect(thoughts).to_be_hidden()
    page.get_by_text("Thoughts").click()
    expect(thoughts).to_be_visible()


def test_tool_calls_are_folded_and_take_results_by_hand(page: Page):
    call = {"index": 0, "id": "call_1", "function": {"name": "weather", "arguments": '{"ci'}}
    rest = {"index": 0, "function": {"arguments": 'ty": "Rome"}'}}
    stream = frames(
        delta(tool_calls=[call]), delta(tool_calls=[rest]), delta(finish_reason="tool_calls")
    )
    page.route(CHAT, lambda route: route.fulfill(body=stream, content_type="text/event-stream"))
    say(page, "Weather?")
    page.get_by_text("Calls weather").click()
    expect(answers(page).locator("pre")).to_have_text('{\n  "city": "Rome"\n}')
    page.get_by_label("Result of weather").fill("Sunny")
    with page.expect_request(CHAT) as sent:
        page.get_by_role("button", name="Send results").click()
    *_, called, result = json.loads(sent.value.post_data)["messages"]
    assert called["tool_calls"][0]["function"]["arguments"] == '{"city": "Rome"}'
    assert result == {"role": "tool", "tool_call_id": "call_1", "content": "Sunny"}


def test_control_k_begins_a_new_conversation(page: Page):
    say(page, "Hi")
    expect(answers(page)).to_have_count(1)
    page.keyboard.press("Control+k")
    expect(answers(page)).to_have_count(0)
    expect(page.get_by_label("Message", exact=True)).to_be_focused()


def test_two_conversations_can_be_answered_at_once(page: Page, served):
    served.engine.script = [Delta(text="Part", tokens=1), asyncio.Event(), END]
    say(page, "One")
    expect(answers(page)).to_contain_text("Part")
    page.keyboard.press("Control+k")
    say(page, "Two")
    expect(answers(page)).to_contain_text("Part")
    expect(page.get_by_role("img", name="answering")).to_have_count(2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_until_one_is_chosen(page: Page, scheme):
    page.emulate_media(color_scheme=scheme)
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = "rgb(250, 249, 247)", "rgb(19, 21, 20)"
    assert page.evaluate(ground) == {"light": light, "dark": dark}[scheme]
    page.get_by_role("button", name="Theme: auto").click()
    page.get_by_role("button", name="Theme: light").click()
    page.reload()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    assert page.evaluate(ground) == dark


def test_a_phone_sees_the_chat_whole_and_the_list_on_demand(page: Page):
    page.set_viewport_size({"width": 360, "height": 740})
    say(page, "Hi")
    expect(answers(page)).to_contain_text("Hello")
    wide = "document.documentElement.scrollWidth"
    assert page.evaluate(wide) <= 360
    entry = page.get_by_role("button", name=re.compile("^Hi"))
    expect(entry).to_be_hidden()
    page.get_by_role("button", name="Conversations").click()
    expect(entry).to_be_visible()
    page.keyboard.press("Escape")
    expect(entry).to_be_hidden()
    page.get_by_role("link", name="Dashboard").click()
    expect(page.get_by_role("heading", name="Memory")).to_be_visible()
    assert page.evaluate(wide) <= 360
