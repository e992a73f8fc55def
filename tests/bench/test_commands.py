"""`bench serve` as it is called: what it prints and writes, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slipstream.cli.main import app

from .servers import DONE, Scripted, listening, said, stream, usage, whole

GOOD = stream(said("a"), said("b"), usage(7, 2), DONE)
REFUSED = whole("429 Too Many Requests", {"error": {"message": "full"}})
COMMAND = (sys.executable, "-c", "from slipstream.cli.main import main; main()", "bench", "serve")
SMALL = ("--model", "m", "--concurrency", "2", "--requests", "3", "--prompt", "8", "--output", "2")


@pytest.mark.anyio
async def test_two_servers_make_tables_files_and_a_last_line_of_json(tmp_path: Path) -> None:
    async with listening(Scripted(GOOD)) as one, listening(Scripted(GOOD, REFUSED)) as two:
        options = ("--rounds", "2", "--goodput", "ttft:60000", "--out", str(tmp_path))
        bench = await asyncio.create_subprocess_exec(
            *COMMAND, one, two, *SMALL, *options, stdout=PIPE, stderr=PIPE
        )
        out, progress = await bench.communicate()
    assert bench.returncode == 0, progress
    last = json.loads(out.splitlines()[-1])
    rows = last["rows"]
    assert [(row["sent"], row["failed"]) for row in rows] == [(6, "0"), (6, "status 429 x6")]
    assert [row["good_share"] for row in rows] == [1.0, 0.0]
    assert b"round 2" in progress and b"round 2" not in out
    assert b"status 429: " in out and b"full" in out
    assert written(tmp_path) == ["bench.json", "bench.svg", "bench.txt"]


def written(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--goodput", "speed:5"], "--goodput"),
        (["--workload", "heavy"], "--workload"),
        (["--concurrency", "0"], "--concurrency"),
        (["--concurrency", "many"], "--concurrency"),
        (["--concurrency", "1", "--rate", "2"], "--rate"),
        (["--extra", "[]"], "--extra"),
    ],
)
def test_a_wrong_option_is_named_before_anything_is_asked(options: list[str], named: str) -> None:
    done = CliRunner().invoke(app(), ["bench", "serve", "http://host", *options])
    assert done.exit_code == 2 and named in done.output


def test_an_address_without_a_scheme_is_wrong_usage() -> None:
    done = CliRunner().invoke(app(), ["bench", "serve", "localhost:8080"])
    assert done.exit_code == 2 and "http://" in done.output
