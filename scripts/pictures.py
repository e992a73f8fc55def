"""Takes the pictures of docs/pictures from a server that runs: `scripts/pictures.py URL`.

Needs Chromium, and tmux for `top`. Answers are real, so no two runs look quite the same.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mixed_load import load
from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console
from rich.text import Text

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
QUESTIONS = (
    "Explain continuous batching to a cook, in one short paragraph.",
    "Write a Python function that merges two sorted lists, and a table of its costs.",
    "Name three uses of a heap.",
)
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
TALL = {**WIDE, "height": 2180}  # all of the dashboard
WATCHED = 60_000  # milliseconds of dashboard before its picture
ENDED = 6  # requests before the picture of the dashboard
PATIENCE = 300_000  # milliseconds for an answer
COLUMNS, LINES = 118, 24  # of a terminal
SESSION = "slipstream-top"
# rich's own form without the fonts that it would fetch from another host.
FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def told(url: str, path: str) -> Any:
    with urllib.request.urlopen(url + path) as reply:
        return json.load(reply)


def talk(page: Page, url: str, questions: tuple[str, ...]) -> None:
    page.goto(url)
    page.evaluate('localStorage.setItem("slipstream.settings", \'{"max_tokens": "160"}\')')
    page.reload()
    for question in questions:
        page.keyboard.press("Control+k")
        page.get_by_label("Message", exact=True).fill(question)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Send").wait_for(timeout=PATIENCE)


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


def dashboards(browser: Browser, url: str) -> None:
    page = browser.new_context(viewport=TALL).new_page()
    phone = browser.new_context(viewport=PHONE, device_scale_factor=2, has_touch=True).new_page()
    with load(url):
        for one in (page, phone):
            one.goto(f"{url}/#dashboard")
        page.wait_for_timeout(WATCHED)
        ended(page, url, lambda found: len(found) >= ENDED)
        top(url)
        page.screenshot(path=FOLDER / "dashboard.png")
        phone.screenshot(path=FOLDER / "dashboard-phone.png")
        page.emulate_media(color_scheme="dark")
        page.wait_for_timeout(1500)
        page.screenshot(path=FOLDER / "dashboard-dark.png")
        page.emulate_media(color_scheme="light")
        trace(page, url, "group", lambda one: one["id"].startswith(("greedy", "seeded")))
        trace(page, url, "solo", lambda one: one["lane"] == "solo")


def ended(page: Page, url: str, enough: Callable[[list[Any]], bool]) -> list[Any]:
    """Requests that ended well, the newest first, as soon as there are `enough`."""
    until = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < until:
        found = [one for one in told(url, "/admin/traces")["traces"] if not one["error"]]
        if enough(found):
            return found
        page.wait_for_timeout(1000)
    raise SystemExit("Too few requests ended in time.")


def trace(page: Page, url: str, name: str, wanted: Callable[[Mapping[str, Any]], bool]) -> None:
    """The newest one that is `wanted`, of those that ended well."""
    found = ended(page, url, lambda found: any(map(wanted, found)))
    ids = [one["id"] for one in found if wanted(one)]
    more = page.get_by_role("button", name=re.compile(r"^All \d+$"))
    if more.count():
        more.click()
    page.get_by_title(f"Trace of {ids[0]}", exact=True).last.click()
    dialog = page.get_by_role("dialog")
    dialog.locator(".waterfall").wait_for()
    dialog.screenshot(path=FOLDER / f"trace-{name}.png")
    page.keyboard.press("Escape")
    fewer = page.get_by_role("button", name="Fewer")
    if fewer.count():
        fewer.click()


def top(url: str) -> None:
    """`slipstream top` in a terminal, as a drawing. Left out where there is no tmux."""
    if shutil.which("tmux") is None:
        print("There is no tmux: top.svg stays as it is.")
        return
    program = Path(sys.executable).with_name("slipstream")
    size = ["-x", str(COLUMNS), "-y", str(LINES)]
    command = f"{program} top --url {url}"
    subprocess.run(["tmux", "new-session", "-d", "-s", SESSION, *size, command], check=True)
    time.sleep(12)  # it draws rates over several looks
    for key in ("s", "s", "Down", "Down"):  # by speed, with a row selected
        subprocess.run(["tmux", "send-keys", "-t", SESSION, key], check=True)
        time.sleep(1)  # the next look shows it
    capture = ["tmux", "capture-pane", "-e", "-p", "-t", SESSION]
    shown = subprocess.run(capture, capture_output=True, text=True, check=True).stdout
    subprocess.run(["tmux", "kill-session", "-t", SESSION], check=True)
    console = Console(record=True, width=COLUMNS, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(Text.from_ansi(shown.rstrip()))
    drawn = FONT_FACE.sub("", console.export_svg(title="slipstream top"))
    (FOLDER / "top.svg").write_text(drawn.replace("Fira Code", "ui-monospace"), "utf-8")


PICTURES: Mapping[str, Callable[[Browser, str], None]] = {"chat": chats, "dashboard": dashboards}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="where the server listens")
    parser.add_argument("--only", choices=sorted(PICTURES), help="some of the pictures")
    options = parser.parse_args()
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("There is no chromium on the path.")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name in [options.only] if options.only else PICTURES:
            PICTURES[name](browser, options.url.rstrip("/"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
