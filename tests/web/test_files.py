"""The files of the page over HTTP, and what they may hold."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from slipstream.serve.web.files import STATIC

from .browser import Site, site

PAGE = "index.html"
VENDOR = STATIC / "vendor"
OURS = sorted(path for path in STATIC.iterdir() if path.is_file())
LONGEST = 400  # lines of one file


@pytest.fixture
def client(served: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url) as opened:
        yield opened


@pytest.mark.parametrize("accept", ["text/html", "*/*", "application/json"])
def test_whoever_asks_for_the_root_gets_the_page(client, accept):
    reply = client.get("/", headers={"accept": accept})
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/html")
    assert "<title>Slipstream</title>" in reply.text


def test_head_of_the_root_is_200_without_a_body(client):
    reply = client.head("/")
    assert (reply.status_code, reply.content) == (200, b"")


def test_the_page_may_load_from_its_own_server_only(client):
    policy = (client.get("/")).headers["content-security-policy"].split("; ")
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "img-src 'self' data:" in policy
    assert not any("unsafe" in rule or "*" in rule for rule in policy)


@pytest.mark.parametrize("path", ["/", "/web/main.js", "/web/vendor/marked.js"])
def test_every_file_is_sent_with_the_guarding_headers(client, path):
    headers = (client.get(path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "content-security-policy" in headers


def test_every_file_that_a_file_names_is_served(client):
    named = {"/web/" + name for name in re.findall(r'"web/([^"]+)"', (STATIC / PAGE).read_text())}
    for script in STATIC.rglob("*.js"):
        folder = script.parent.relative_to(STATIC)
        for name in re.findall(r'from ?"\./([^"]+)"', script.read_text("utf-8")):
            named.add(f"/web/{(folder / name).as_posix()}")
    assert "/web/vendor/preact.js" in named
    statuses = {path: (client.get(path)).status_code for path in sorted(named)}
    assert {path for path, status in statuses.items() if status != 200} == set()


def test_scripts_and_styles_have_types_that_a_strict_browser_takes(client):
    assert "javascript" in (client.get("/web/main.js")).headers["content-type"]
    assert (client.get("/web/page.css")).headers["content-type"].startswith("text/css")
    assert (client.get("/web/icon.svg")).headers["content-type"].startswith("image/svg")


def test_a_file_that_has_not_changed_is_not_sent_again(client):
    first = client.get("/web/main.js")
    again = client.get("/web/main.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/web/none.js", "/web/", "/web/vendor", "/web/../files.py", "/web/%2e%2e/files.py"]
)
def test_nothing_but_the_page_is_handed_out(client, path):
    reply = client.get(path)
    assert reply.status_code == 404
    assert reply.json()["error"]["code"] == "not_found"


PAGES = ("/", "/web/main.js")


def test_the_page_takes_a_key_as_a_password_and_its_numbers_do_not():
    with site(api_keys=("sesame",)) as guarded, httpx.Client(base_url=guarded.url) as client:
        for path in PAGES:
            asked = client.get(path)
            assert asked.status_code == 401
            assert asked.headers["www-authenticate"] == 'Basic realm="Slipstream"'
            assert client.get(path, auth=("me", "sesame")).status_code == 200
            assert client.get(path, auth=("sesame", "me")).status_code == 401
            assert client.get(path, headers={"authorization": "Basic ?"}).status_code == 401
            assert client.get(path, headers={"x-api-key": "sesame"}).status_code == 200
        for path in ("/stats", "/webby"):
            assert client.get(path, auth=("me", "sesame")).status_code == 401


def test_the_page_is_no_part_of_the_described_api(client):
    paths = (client.get("/openapi.json")).json()["paths"]
    assert "/" not in paths and not any(path.startswith("/web") for path in paths)


def test_no_file_of_ours_is_too_long():
    assert [path.name for path in OURS if len(path.read_text().splitlines()) >= LONGEST] == []


def test_no_file_of_ours_names_an_address():
    named = {path.name for path in OURS if re.search(r"https?://\w", path.read_text())}
    assert named == {"icon.svg"}  # the name of SVG itself


def test_the_page_holds_no_script_or_style_within():
    text = (STATIC / PAGE).read_text()
    assert not re.search(r"<style|<script(?![^>]*\bsrc=)|\bstyle=|\bon\w+=", text)


def test_every_vendored_file_is_listed_with_its_licence():
    listed = set(re.findall(r"`([^`]+\.(?:js|css))`", (VENDOR / "VENDOR.md").read_text()))
    assert listed == {path.name for path in VENDOR.iterdir() if path.suffix in {".js", ".css"}}
    libraries = len(re.findall(r"^\| (?!library|---)", (VENDOR / "VENDOR.md").read_text(), re.M))
    assert len(list(VENDOR.glob("*.LICENSE"))) == libraries
