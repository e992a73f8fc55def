"""The documentation as a site, and the page of messages against what the code says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from . import messages

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
LOADED = re.compile(r"<(?:script|img|link|source|iframe)\b[^>]*?\b(?:src|href)=\"([^\"]+)\"")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    done = subprocess.run([*command, str(folder)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_has_every_page_and_loads_nothing_from_elsewhere(built: Path):
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    made = {path.relative_to(built).with_suffix(".md") for path in built.rglob("*.html")}
    assert pages <= made
    for page in built.rglob("*.html"):
        loaded = LOADED.findall(page.read_text("utf-8"))
        assert [address for address in loaded if "//" in address] == [], page.name


def test_what_a_page_of_the_site_loads_is_there(built: Path):
    page = built / "web.html"
    loaded = LOADED.findall(page.read_text("utf-8"))
    assert any(address.endswith(".png") for address in loaded)
    assert [address for address in loaded if not (page.parent / address).is_file()] == []


def test_every_message_is_explained():
    assert messages.unexplained(ROOT, PAGE) == []


def test_every_message_of_the_page_is_one_that_is_said():
    assert messages.unsaid(ROOT, PAGE) == []


def plant(root: Path, code: str, row: str) -> Path:
    source = root / "src" / "slipstream"
    source.mkdir(parents=True)
    (source / "planted.py").write_text(code)
    page = root / "page.md"
    page.write_text(f"| message | what |\n|---|---|\n| `{row}` | wait |\n")
    return page


SAID = (
    'raise QueueFull(f"As many as {most} wait. Try `later`.")\n'
    'log.warning("the lamp is broken: %s", e)\n'
)


def test_a_message_without_a_line_is_found(tmp_path: Path):
    page = plant(tmp_path, SAID, "As many as … wait. Try later.")
    assert messages.unexplained(tmp_path, page) == [
        "page.md: 'the lamp is broken: …' is not explained"
    ]


def test_a_line_without_a_message_is_found(tmp_path: Path):
    page = plant(tmp_path, SAID, "As few as … wait.")
    assert messages.unsaid(tmp_path, page) == ["page.md: nothing says 'As few as … wait.'"]
