"""Takes the pictures of docs/pictures from a server that runs: `scripts/pictures.py URL`.

Needs Chromium. Answers are real, so no two runs look quite the same.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
QUESTIONS = (
    "Explain continuous batching to a cook, in one short paragraph.",
    "Write a Python function that merges two sorted lists, and a table of its costs.",
    "Name three uses of a heap.",
)
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
LOAD = 11  # requests at once: more than the eight rows of the default
WATCHED = 45_000  # milliseconds of dashboard before its picture


@contextmanager
def load(url: str) -> Iterator[None]:
    """Keeps the server busy: each caller asks again as soon as it has its answer."""
    over = threading.Event()
    callers = [threading.Thread(target=ask, args=(url, n, over)) for n in range(LOAD)]
    for caller in callers:
        caller.start()
    try:
        yield
    finally:
        over.set()
        for caller in callers:
            caller.join()


def ask(url: str, number: int, over: threading.Event) -> None:
    words = "word " * (40 * (number % 4 + 1))
    lane = '"lane": "solo", ' if number == 0 else ""
    body = (
        f'{{"messages": [{{"role": "user", "content": "Tell story {number}. {words}"}}], '
        f'{lane}"temperature": 0.8, "max_tokens": {40 + 15 * number}}}'
    )
    while not over.is_set():
        request = urllib.request.Request(
            f"{url}/v1/chat/completions", body.encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request) as reply:
            reply.read()


def talk(page: Page, url: str, questions: tuple[str, ...]) -> None:
    page.goto(url)
    page.evaluate('localStorage.setItem("slipstream.settings", \'{"max_tokens": "160"}\')')
    page.reload()
    for question in questions:
        page.keyboard.press("Control+k")
        page.get_by_label("Message", exact=True).fill(question)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Send").wait_for(timeout=120_000)


def chats(browser: Browser, url: str) -> None:
    page = browser.new_context(viewport=WIDE, color_scheme="light").new_page()
    talk(page, url, QUESTIONS)
    page.get_by_text(QUESTIONS[1][:20]).first.click()
    page.locator(".account summary").last.click()
    page.screenshot(path=FOLDER / "chat-light.png")
    page.emulate_media(color_scheme="dark")
    page.get_by_role("button", name="Settings").click()
    page.screenshot(path=FOLDER / "chat-dark.png")
    phone = browser.new_context(viewport=PHONE, device_scale_factor=2, has_touch=True).new_page()
    talk(phone, url, QUESTIONS[1:2])
    phone.screenshot(path=FOLDER / "chat-phone.png")


def dashboard(browser: Browser, url: str) -> None:
    page = browser.new_context(viewport={**WIDE, "height": 980}).new_page()
    with load(url):
        page.goto(f"{url}/#dashboard")
        page.wait_for_timeout(WATCHED)
        page.screenshot(path=FOLDER / "dashboard.png")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="where the server listens")
    url = parser.parse_args().url.rstrip("/")
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("There is no chromium on the path.")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        chats(browser, url)
        dashboard(browser, url)
    return 0


if __name__ == "__main__":
    sys.exit(main())
