"""Model text becomes markup, and never more than markup."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from slipstream.contracts.delta import Delta
from slipstream.contracts.row import FinishReason

from .test_chat import answers, say

HOSTILE = (
    "<script>window.hit = 1</script>",
    "<img src=x onerror='window.hit = 1'>",
    "![x](http://elsewhere.example/pixel.png)",
    "![x](/stats)",
    "[x](javascript:window.hit=1)",
    "[x](data:text/html,<script>1</script>)",
    "<a href='javascript:window.hit=1'>x</a>",
    "<svg><animate onbegin='window.hit=1'></svg>",
    "<form action='/'><input></form>",
    "<iframe src='/'></iframe>",
    "```html\n<img src=x onerror='window.hit=1'>\n```",
    "```x\"><img src=x onerror='window.hit=1'>\ncode\n```",
    "| <img src=x onerror='window.hit=1'> |\n|---|\n| `<b>` |",
    "[x](http://a.example 'title\"onmouseover=\"window.hit=1')",
    "<style>body { display: none }</style>",
    '<div id="page" name="body" style="position:fixed">x</div>',
)


def answer(page: Page, served, text: str):
    served.engine.script = [
        *(Delta(text=text[at : at + 7], tokens=1) for at in range(0, len(text), 7)),
        Delta(tokens=1, finish=FinishReason.STOP),
    ]
    say(page, "Hi")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    expect(answers(page).locator(".account")).to_be_visible()
    return answers(page).locator(".markdown")


def test_markdown_becomes_markup(page: Page, served):
    shown = answer(page, served, "A **bold** word\n\n- one\n- two\n\n| n | m |\n|--|-:|\n| 1 | 2 |")
    expect(shown.locator("strong")).to_have_text("bold")
    expect(shown.locator("li")).to_have_text(["one", "two"])
    expect(shown.locator("td").last).to_have_css("text-align", "right")


def test_code_is_coloured_and_can_be_copied(page: Page, served, context):
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    shown = answer(page, served, "```python\ndef f(a):\n    return a < 1\n```")
    expect(shown.locator(".hljs-keyword").first).to_have_text("def")
    shown.get_by_role("button", name="Copy").click()
    expect(shown.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "def f(a):\n    return a < 1"


def test_links_open_elsewhere_and_tell_nothing(page: Page, served):
    link = answer(page, served, "[docs](https://docs.example/a)").get_by_role("link")
    expect(link).to_have_attribute("href", "https://docs.example/a")
    expect(link).to_have_attribute("target", "_blank")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")


@pytest.fixture(scope="module")
def everything() -> str:
    return "\n\n".join(HOSTILE)


def test_hostile_text_is_shown_and_not_run(page: Page, served, everything: str):
    shown = answer(page, served, everything)
    for tag in ("script", "img", "iframe", "form", "input", "svg", "style"):
        expect(shown.locator(tag)).to_have_count(0)
    assert page.evaluate("window.hit") is None
    attributes = page.evaluate(
        "[...document.querySelectorAll('.markdown *')].flatMap(e => e.getAttributeNames())"
    )
    assert not {name for name in attributes if name.startswith("on") or name in {"style", "id"}}
    for href in shown.locator("a").evaluate_all("all => all.map(a => a.getAttribute('href'))"):
        assert href is None or href.startswith("http")
    expect(shown).to_contain_text("<script>window.hit = 1</script>")


def test_text_in_parts_ends_as_the_whole_text_would(page: Page, served):
    text = "# T\n\n1. a\n   ```js\n   let x = 1;\n   ```\n2. b\n\n> q **w**\n\n[r]\n\n[r]: https://r.example"
    grown = answer(page, served, text).inner_html()
    page.reload()
    page.get_by_role("button", name="Hi").first.click()
    assert answers(page).locator(".markdown").inner_html() == grown
