"""`top`: a live view of a running server, or one look at it."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from slipstream.cli.top_source import Poller, Server, Source
from slipstream.contracts.errors import UsageError
from slipstream.settings import environment_keys

if TYPE_CHECKING:
    from slipstream.cli.top_view import View

PATIENCE = 0.1  # seconds that a key is waited for
APART = 0.5  # seconds between the two samples of one look


def top(
    url: Annotated[str, typer.Option("--url", help="the server")] = "http://127.0.0.1:8080",
    api_key: Annotated[
        str | None, typer.Option("--api-key", help="its key (also SLIPSTREAM_API_KEY)")
    ] = None,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, metavar="S", help="seconds between two looks")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="print one look and stop")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="one look, for programs")] = False,
) -> None:
    """Watch a running server: rows, queue, memory, cache. q quits, c cancels the selected row."""
    key = api_key or next(iter(environment_keys()), None)
    source = Server(url, key)
    if once or as_json:
        look(source, url, as_json=as_json)
    elif sys.stdin.isatty() and sys.stdout.isatty():
        watch(source, url, interval)
    else:
        raise UsageError("top needs a terminal; --once and --json do not.")


def look(source: Source, url: str, *, as_json: bool) -> None:
    """Prints one look. Raises SlipstreamError."""
    from rich.console import Console

    from slipstream.cli.top_view import Rates, View

    before = source.read()
    time.sleep(APART)
    after = source.read()
    if as_json:
        rates = Rates.between(before, after)
        spoken = {"generated": rates.generated, "prompt": rates.prompt}
        found = {"stats": after.stats, "rows": after.rows, "tokens_per_second": spoken}
        typer.echo(json.dumps(found, indent=2))
        return
    view = View(url)
    view.take(before)
    view.take(after)
    Console().print(view.render())


def watch(source: Source, url: str, interval: float) -> None:
    """Draws until q is pressed. A server that does not answer is asked again."""
    from rich.console import Console
    from rich.live import Live

    from slipstream.cli.top_keys import raw
    from slipstream.cli.top_view import View

    console, view, poller = Console(), View(url), Poller(source, interval)
    poller.start()
    with raw() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        live.update(view.render(console.height), refresh=True)
        while True:
            pressed = keys.next(PATIENCE)
            if "q" in pressed:
                return
            for key in pressed:
                press(key, view, poller)
            if pressed or poller.news.is_set():
                poller.news.clear()
                view.trouble = poller.trouble
                if poller.sample is not None:
                    view.take(poller.sample)
                live.update(view.render(console.height), refresh=True)


def press(key: str, view: View, poller: Poller) -> None:
    match key:
        case "s":
            view.cycle()
        case "up" | "down":
            view.move(1 if key == "down" else -1)
        case "c" if view.doomed is not None:
            poller.cancel(view.doomed)
