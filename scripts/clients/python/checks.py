"""What every client's program shares: where the servers are, what to ask, how to tell the result.

It runs in the client's own environment, so it imports nothing beside the standard library.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable

STARTER = os.environ["SLIPSTREAM_STARTER"]  # a small model, which has to be made to call
TOLD = os.environ["SLIPSTREAM_TOLD"]  # does as it is told: SAY, CALL, COUNT
MODEL = "default"
KEY = "none"

HELLO = "Say hello."
ASK = "How is the weather in Rome?"
ORDER = 'CALL: get_weather {"city": "Rome"}'
COUNT = "COUNT"
WEATHER = "It is sunny in {}."
TRIP = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Paris", "Rome"]},
        "days": {"type": "integer", "enum": [1, 2, 3]},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
PLACE = {
    "type": "object",
    "properties": {"city": TRIP["properties"]["city"]},
    "required": ["city"],
    "additionalProperties": False,
}


def weather(city: str) -> str:
    assert city in ("Paris", "Rome"), city
    return WEATHER.format(city)


def is_trip(found: dict) -> str:
    assert found["city"] in ("Paris", "Rome") and found["days"] in (1, 2, 3), found
    return json.dumps(found)


def joined(pieces: list[str]) -> str:
    """A stream comes in several pieces, or it is none."""
    text = "".join(pieces)
    assert len(pieces) > 1 and text, pieces
    return text


def said(text: str | None) -> str:
    assert text, "the answer is empty"
    return text


def repeated(text: str, words: str = "sunny in Rome") -> str:
    """The told model's word on a tool's result."""
    assert words in text, text
    return text


def run(*checks: Callable[[], str]) -> None:
    """Runs all, in order, and prints a line of JSON for each. Cancellation comes last: the runner
    looks at the server once it has read that line."""
    failed = False
    for check in checks:
        line = {"check": check.__name__, "ok": True}
        try:
            line["said"] = check()[:100]
        except Exception as error:  # noqa: BLE001 whatever a library may raise
            traceback.print_exc()
            failed = True
            line |= {"ok": False, "error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(line), flush=True)
    sys.exit(failed)
