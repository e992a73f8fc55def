"""The Claude Code command line, in a home and a folder of its own."""

import json
import os
from pathlib import Path

import checks
from commands import output, records, started

CLAUDE = str(Path(os.environ["SLIPSTREAM_CLIENT"], "node_modules", ".bin", "claude"))
WORK = Path(os.environ["HOME"], "work")
NOTE = WORK / "note.txt"
HERE = {
    "ANTHROPIC_BASE_URL": checks.TOLD,
    "ANTHROPIC_API_KEY": checks.KEY,
    "ANTHROPIC_MODEL": "claude-slipstream",
    "ANTHROPIC_SMALL_FAST_MODEL": "claude-slipstream",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
}
STREAM = ("--output-format", "stream-json", "--verbose", "--include-partial-messages")
JSON = ("--output-format", "json")
WORK.mkdir(parents=True, exist_ok=True)
NOTE.write_text("It is sunny in Rome.\n")
os.chdir(WORK)


def claude(*arguments: str) -> str:
    return output([CLAUDE, "-p", *arguments], **HERE)


def result(*arguments: str) -> dict:
    found = json.loads(claude(*arguments, *JSON))
    assert not found["is_error"], found
    return found


def chat() -> str:
    assert "Tokens" in result("/context")["result"]  # made of many count_tokens
    return checks.said(result(checks.HELLO)["result"])


def stream() -> str:
    events = [one["event"] for one in records(claude(checks.HELLO, *STREAM)) if "event" in one]
    deltas = [one["delta"] for one in events if one["type"] == "content_block_delta"]
    return checks.joined([delta["text"] for delta in deltas])


def tools() -> str:
    call = json.dumps({"command": f"cat {NOTE}", "description": "Reads the note"})
    checks.repeated(result(f"CALL: Bash {call}", "--allowedTools", "Bash")["result"])
    read = json.dumps({"file_path": str(NOTE)})
    return checks.repeated(result(f"CALL: Read {read}")["result"])


def structured() -> str:
    order = 'CALL: StructuredOutput {"city": "Rome", "days": 2}'
    return checks.is_trip(
        result(order, "--json-schema", json.dumps(checks.TRIP))["structured_output"]
    )


def cancel() -> str:
    with started([CLAUDE, "-p", checks.COUNT, *STREAM], **HERE) as process:
        for line in process.stdout:
            if b"text_delta" in line:
                break
    return "interrupted after the first text"


checks.run(chat, stream, tools, structured, cancel)
