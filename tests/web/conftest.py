"""One browser for the folder, a server and a fresh profile for each test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from .browser import FLAGS, Site, chromium, site

PATIENCE = 10_000  # milliseconds
HERE = Path(__file__).parent
NOTICE = "tests/web: no Chromium and no apt-get to install it: the browser tests are left out"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what needs a browser only where none can be had, and says so."""
    if chromium() or shutil.which("apt-get"):
        return
    left = [one for one in items if HERE in one.path.parents and "browser" in one.fixturenames]
    if left:
        items[:] = [one for one in items if one not in left]
        config.hook.pytest_deselected(items=left)
        config.issue_config_time_warning(pytest.PytestWarning(NOTICE), stacklevel=2)


# Not for the session: while Playwright is there, this thread has a loop that runs.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    program = chromium()
    assert program, "These tests drive Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture
def served() -> Iterator[Site]:
    with site() as running:
        yield running


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    # The password is given where a server asks for one; its calls want the key themselves.
    opened = browser.new_context(
        viewport={"width": 1280, "height": 800},
        http_credentials={"username": "me", "password": "sesame"},
    )
    opened.set_default_timeout(PATIENCE)
    yield opened
    opened.close()


@pytest.fixture
def visit(context: BrowserContext) -> Iterator[Callable[[str], Page]]:
    """Opens a page. At the end none has complained, nor asked anything of another host."""
    complaints: list[str] = []

    def visit(url: str) -> Page:
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if is_ours(said) else None)
        page.on("request", lambda request: complaints.extend(foreign(request.url, url)))
        page.goto(url)
        return page

    yield visit
    assert complaints == []


def is_ours(said) -> bool:
    """Failed loads are told too, and tests provoke those."""
    return said.type == "error" and "Failed to load resource" not in said.text


def foreign(address: str, home: str) -> list[str]:
    asked, own = urlsplit(address), urlsplit(home)
    return [] if asked.scheme in {"data", "blob"} or asked.netloc == own.netloc else [address]


@pytest.fixture
def page(served: Site, visit: Callable[[str], Page]) -> Page:
    return visit(served.url)
