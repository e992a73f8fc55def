"""The Codex command line, in a home and a folder of its own."""

import json
import os
import time
import urllib.request
from pathlib import Path

import checks
from commands import output, records, started

HOME = Path(os.environ["HOME"])
WORK = HOME / "work"
SCHEMA = HOME / "schema.json"
CODEX = (
    str(Path(os.environ["SLIPSTREAM_CLIENT"], "node_modules", ".bin", "codex")),
    "exec",
    "--json",
    "--skip-git-repo-check",
)
CONFIG = f"""model = "gpt-slipstream"
model_provider = "slipstream"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.slipstream]
name = "Slipstream"
base_url = "{checks.TOLD}/v1"
wire_api = "responses"
"""
for folder in (WORK, HOME / ".codex"):
    folder.mkdir(parents=True, exist_ok=True)
(HOME / ".codex" / "config.toml").write_text(CONFIG)
(WORK / "note.txt").write_text("It is sunny in Rome.\n")
SCHEMA.write_text(json.dumps(checks.TRIP))
os.chdir(WORK)


def message(*arguments: str) -> str:
    """The last thing that it says."""
    found = records(output([*CODEX, *arguments]))
    items = [one["item"] for one in found if one["type"] == "item.completed"]
    assert found[-1]["type"] == "turn.completed", found[-1]
    return checks.said(items[-1]["text"])


def chat() -> str:
    return message(checks.HELLO)


def stream() -> str:
    """All that it asks for is streamed; of the pieces it shows only the whole."""
    text = "SAY: one two three four"
    assert message(text) == "one two three four"
    return "one two three four"


def tools() -> str:
    call = 'CALL: exec_command {"cmd": "cat note.txt"}'
    return checks.repeated(message("--dangerously-bypass-approvals-and-sandbox", call))


def structured() -> str:
    order = 'SAY: {"city": "Rome", "days": 2}'
    return checks.is_trip(json.loads(message("--output-schema", str(SCHEMA), order)))


def cancel() -> str:
    """It prints no pieces, so its row is looked for on the server."""
    with started([*CODEX, checks.COUNT]) as process:
        while not generating():
            assert process.poll() is None
            time.sleep(0.1)
    return "interrupted while it streamed"


def generating() -> bool:
    with urllib.request.urlopen(f"{checks.TOLD}/admin/rows") as reply:
        return any(row["generated"] for row in json.load(reply)["rows"])


checks.run(chat, stream, tools, structured, cancel)
