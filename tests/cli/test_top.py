"""`top` from a recorded server: the numbers, the keys, and the whole of it in a terminal."""

from __future__ import annotations

import contextlib
import http.server
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from slipstream.cli import main
from slipstream.cli.top import press
from slipstream.cli.top_keys import named
from slipstream.cli.top_source import Poller, Sample, Server
from slipstream.cli.top_view import SORTS, Rates, View, spell, window
from slipstream.contracts.errors import SlipstreamError, UsageError

STATS = {
    "model": "acme/tiny-1B",
    "uptime_s": 3725.0,
    "lanes": {"group": {"active": 2, "max": 8}, "solo": {"active": 0}},
    "queue": {"waiting": 1, "max": 64, "rejected": 3},
    "lease": {"held_by": None, "waiting": 0},
    "memory": {"active": 6e9, "budget": 8e9, "kv": 1e9, "kv_budget": 4e9},
    "prefix_cache": {"entries": 4, "bytes": 2e9, "hits": 3, "misses": 1, "hit_tokens": 900}
    | {"ssd_bytes": 0},
    "tokens": {"prompt": 1000, "cached": 900, "generated": 500},
    "placements": {"none": 7, "lane_requested": 2},
}


def row(name: str, generated: int = 0, **fields: Any) -> dict[str, Any]:
    return {
        "id": name,
        "choice": 0,
        "lane": "group",
        "state": "decode",
        "prompt_tokens": 40,
        "computed": 40,
        "cached_tokens": 8,
        "generated": generated,
        "age_ms": 1500.0,
        "reasons": [],
        **fields,
    }


ROWS = [
    row("first", 10, prompt_tokens=90),
    row("second", 30),
    row("third", 0, state="queued", lane="solo", reasons=["lane_requested"]),
]


def sample(at: float = 0.0, rows: list[dict[str, Any]] = ROWS, **tokens: int) -> Sample:
    return Sample(at, {**STATS, "tokens": {**STATS["tokens"], **tokens}}, rows)


def view(*samples: Sample) -> View:
    made = View("http://test")
    for one in samples or (sample(),):
        made.take(one)
    return made


def drawn(shown: View, height: int | None = 40, width: int = 120) -> str:
    page = io.StringIO()
    Console(width=width, file=page).print(shown.render(height))
    return page.getvalue()


def test_a_picture_has_rows_states_memory_cache_and_reasons():
    text = drawn(view())
    for word in ("first", "queued", "group 2/8", "waiting 1/64", "6.0 GB of 8.0 GB", "75% hits"):
        assert word in text
    assert "placed   group 7, solo for lane_requested 2" in text
    assert "up 1h02m" in text


def test_rates_are_between_two_samples():
    later = sample(2.0, [row("first", 20), row("new", 5)], generated=540, prompt=1100)
    rates = Rates.between(sample(), later)
    assert (rates.generated, rates.prompt) == (20.0, 50.0)
    assert rates.of(row("first")) == 5.0
    assert rates.of(row("new")) == 0.0


def test_a_server_that_began_anew_has_no_negative_rates():
    rates = Rates.between(sample(), sample(1.0, [row("first", 0)], generated=0, prompt=0))
    assert (rates.generated, rates.prompt, rates.of(row("first"))) == (0.0, 0.0, 0.0)


def test_a_name_cannot_write_on_the_screen():
    assert "[red]x[/red]" in drawn(view(sample(rows=[row("[red]x[/red]")])))


def test_sorts_go_round():
    shown = view()
    orders = {}
    for _ in SORTS:
        orders[shown.sort] = [one["id"] for one in shown.rows]
        shown.cycle()
    assert shown.sort == SORTS[0]
    assert orders["arrival"] == ["first", "second", "third"]
    assert orders["generated"] == ["second", "first", "third"]
    assert orders["prompt"][0] == "first"
    assert orders["lane"][-1] == "third"


def test_a_selection_stays_with_its_row():
    shown = view()
    shown.move(1)
    shown.move(1)
    assert shown.doomed == "second"
    shown.take(sample(1.0, [ROWS[2], ROWS[1], ROWS[0]]))
    assert shown.doomed == "second"
    shown.move(9)
    assert shown.doomed == "first"


def test_a_selected_row_that_has_ended_is_not_cancelled():
    shown = view()
    shown.move(1)
    shown.take(sample(1.0, [ROWS[1]]))
    assert shown.doomed is None


def test_the_selected_row_is_on_the_screen():
    rows = [row(f"r{number}") for number in range(50)]
    for place in (0, 5, 49):
        shown = window(rows, 7, (f"r{place}", 0))
        assert len(shown) == 7
        assert rows[place] in shown


@pytest.mark.parametrize("height", [12, 24, 60])
def test_a_picture_fits_the_screen(height):
    shown = view(sample(rows=[row(f"r{number}") for number in range(80)]))
    assert len(drawn(shown, height).splitlines()) <= max(height, 14)


def test_a_selected_row_is_all_of_one_colour():
    shown = view(sample(rows=[row("only")]))
    shown.move(1)
    page = io.StringIO()
    Console(width=120, file=page, force_terminal=True, color_system="standard").print(
        shown.render(40)
    )
    (line,) = [line for line in page.getvalue().splitlines() if "only" in line]
    assert "\x1b[7m" in line and "\x1b[7;32m" not in line


def test_no_rows_are_told_in_words():
    assert "No rows wait or run." in drawn(view(sample(rows=[])))


def test_numbers_that_are_old_say_so():
    shown = view()
    shown.trouble = "http://test does not answer."
    assert "These numbers are old." in drawn(shown)


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ("q", ["q"]),
        ("\x1b[A\x1b[B", ["up", "down"]),
        ("\x1bOAs", ["up", "s"]),
        ("\x03", ["q"]),
        ("", []),
    ],
)
def test_keys_have_names(typed, keys):
    assert named(typed) == keys


@pytest.mark.parametrize(("seconds", "text"), [(12, "12s"), (200, "3m20s"), (7500, "2h05m")])
def test_time_is_spelled_for_people(seconds, text):
    assert spell(seconds) == text


class Recorded:
    """A Source that plays samples and errors, the last one for ever."""

    def __init__(self, *played: Sample | SlipstreamError) -> None:
        self.played = list(played)
        self.cancelled: list[str] = []

    def read(self) -> Sample:
        now = self.played.pop(0) if len(self.played) > 1 else self.played[0]
        if isinstance(now, SlipstreamError):
            raise now
        return now

    def cancel(self, request_id: str) -> None:
        self.cancelled.append(request_id)


def test_a_poller_keeps_the_last_good_sample():
    first, third = sample(0.0), sample(2.0)
    poller = Poller(Recorded(first, SlipstreamError("gone"), third), 1.0)
    seen = []
    for _ in range(3):
        poller.poll()
        seen.append((poller.sample, poller.trouble))
    assert seen == [(first, None), (first, "gone"), (third, None)]


def test_c_cancels_the_selected_row_and_nothing_without_one():
    source = Recorded(sample())
    poller, shown = Poller(source, 60.0), view()
    press("c", shown, poller)
    press("down", shown, poller)
    press("c", shown, poller)
    poller.start()
    until(lambda: source.cancelled == ["first"])


def until(reached, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, "it was not reached"
        os.sched_yield()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    key: str | None = None
    deleted: list[str]

    def do_GET(self) -> None:
        self.answer({"/stats": STATS, "/admin/rows": {"rows": ROWS}}.get(self.path))

    def do_DELETE(self) -> None:
        self.deleted.append(self.path)
        self.answer(None)

    def answer(self, found: Any) -> None:
        status = 200 if found else 404
        if self.key and self.headers["authorization"] != f"Bearer {self.key}":
            status, found = 401, {}
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@contextlib.contextmanager
def recorded(key: str | None = None) -> Iterator[tuple[str, list[str]]]:
    """The address of a server that always answers the same, and the paths it was to delete."""
    handler = type("Bound", (Handler,), {"key": key, "deleted": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", handler.deleted
        server.shutdown()


def test_one_look_is_plain_text():
    with recorded() as (url, _):
        done = CliRunner().invoke(main.app(), ["top", "--once", "--url", url])
    assert done.exit_code == 0
    assert "first" in done.stdout
    assert "\x1b" not in done.stdout


def test_one_look_as_json():
    with recorded() as (url, _):
        done = CliRunner().invoke(main.app(), ["top", "--json", "--url", url])
    found = json.loads(done.stdout)
    assert (found["stats"], found["rows"]) == (STATS, ROWS)
    assert found["tokens_per_second"] == {"generated": 0.0, "prompt": 0.0}


def test_without_a_terminal_one_must_say_what_is_wanted():
    done = CliRunner().invoke(main.app(), ["top"])
    assert done.exit_code == 2


def test_a_key_is_asked_for_and_taken():
    with recorded(key="right") as (url, _):
        with pytest.raises(SlipstreamError, match="--api-key"):
            Server(url, None).read()
        assert Server(url, "right").read().rows == ROWS


def test_a_row_that_is_gone_already_can_be_cancelled():
    with recorded() as (url, deleted):
        Server(url, None).cancel("a/b?")
    assert deleted == ["/admin/rows/a%2Fb%3F"]


@pytest.mark.parametrize("url", ["ftp://host", "http://", "://"])
def test_what_is_no_address_is_wrong_usage(url):
    with pytest.raises(UsageError):
        Server(url, None)


def test_a_server_that_is_not_there_is_named():
    with pytest.raises(SlipstreamError, match=r"127\.0\.0\.1:9 does not answer"):
        Server("127.0.0.1:9", None).read()


class Terminal:
    """`slipstream top` on a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        ours, theirs = pty.openpty()
        self.descriptor, self.text = ours, ""
        code = "from slipstream.cli.main import main; main()"
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "110", "LINES": "30"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "top", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
        )
        os.close(theirs)

    def type(self, keys: str) -> None:
        os.write(self.descriptor, keys.encode())

    def shows(self, word: str) -> bool:
        """Reads what is there, for a moment at most."""
        if select.select([self.descriptor], [], [], 0.05)[0]:
            with contextlib.suppress(OSError):  # the other side is closed
                self.text += os.read(self.descriptor, 65536).decode("utf-8", "replace")
        return word in self.text


@pytest.fixture
def opened():
    with contextlib.ExitStack() as stack:

        def start(*arguments: str) -> Terminal:
            terminal = Terminal(*arguments)
            stack.callback(os.close, terminal.descriptor)
            stack.callback(terminal.process.wait)
            stack.callback(terminal.process.send_signal, signal.SIGKILL)
            return terminal

        yield start


def test_in_a_terminal_it_draws_sorts_selects_cancels_and_quits(opened):
    with recorded() as (url, deleted):
        terminal = opened("--url", url)
        until(lambda: terminal.shows("third"), 30)
        terminal.type("s")
        until(lambda: terminal.shows("sorted by state"))
        terminal.type("\x1b[B\x1b[Bc")
        until(lambda: terminal.shows("") and deleted == ["/admin/rows/second"])
        terminal.type("q")
        until(lambda: terminal.shows("\x1b[?1049l"))  # the old screen is back
        assert terminal.process.wait(10) == 0


def test_in_a_terminal_a_server_that_is_not_there_is_awaited(opened):
    terminal = opened("--url", "http://127.0.0.1:9", "--interval", "0.1")
    until(lambda: terminal.shows("does not answer"), 30)
    terminal.type("q")
    until(lambda: not terminal.shows("\0") and terminal.process.poll() is not None)
    assert terminal.process.returncode == 0
