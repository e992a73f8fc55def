"""Eight streams of different shapes at once, again and again, for pictures and for `top`.

Knows nothing of browsers. `python scripts/mixed_load.py URL SECONDS` runs it by itself.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

CHAT, COMPLETIONS, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/messages"
SYSTEM = "You are a patient guide in a museum of ships. " * 12
LONG = "The harbour was quiet, and the tide came in as it always had. " * 50
CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
}


def talk(text: str, **fields: Any) -> Mapping[str, Any]:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
    return {"messages": messages, "stream": True, **fields}


SHAPES: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("chat", CHAT, talk("Tell me of the first steamship.", max_tokens=60)),
    ("seeded", CHAT, talk("Name a ship.", seed=7, temperature=1.0, max_tokens=45)),
    ("greedy", CHAT, talk("What is a keel?", temperature=0, max_tokens=50)),
    ("logprobs", CHAT, talk("What is a mast?", logprobs=True, top_logprobs=5, max_tokens=40)),
    (
        "schema",
        CHAT,
        talk(
            "A port, as JSON.",
            response_format={"type": "json_schema", "json_schema": {"name": "c", "schema": CITY}},
            max_tokens=60,
        ),
    ),
    ("long", COMPLETIONS, {"prompt": LONG, "stream": True, "max_tokens": 30}),
    ("solo", CHAT, talk("Sing of the sea.", lane="solo", max_tokens=40)),
    (
        "messages",
        MESSAGES,
        {
            "messages": [{"role": "user", "content": "What is a harbour?"}],
            "stream": True,
            "max_tokens": 50,
        },
    ),
)


def ask(url: str, name: str, path: str, body: Mapping[str, Any], over: threading.Event) -> None:
    """Asks again as soon as it has its answer. Each has an id that people can read."""
    number = 0
    while not over.is_set():
        number += 1
        fresh = {**body, "prompt": f"{number}. {body['prompt']}"} if "prompt" in body else body
        headers = {"content-type": "application/json", "x-request-id": f"{name}-{number}"}
        request = urllib.request.Request(url + path, json.dumps(fresh).encode(), headers)
        with urllib.request.urlopen(request) as reply:
            for _ in reply:
                if over.is_set():
                    return


@contextmanager
def load(url: str) -> Iterator[None]:
    over = threading.Event()
    callers = [threading.Thread(target=ask, args=(url, *shape, over)) for shape in SHAPES]
    for caller in callers:
        caller.start()
    try:
        yield
    finally:
        over.set()
        for caller in callers:
            caller.join()


if __name__ == "__main__":
    with load(sys.argv[1].rstrip("/")):
        time.sleep(float(sys.argv[2]))
