"""Prefixes on disk outlive the process, however it ends, and are never taken for others."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from .server import PATIENCE, Server, ready, run

LONG = [(7 * i * i + 3 * i) % 4000 + 100 for i in range(600)]
OTHER = [(5 * i * i + 11 * i) % 4000 + 100 for i in range(600)]


def asked(server: Server, prompt: list[int]) -> tuple[str, int]:
    """The text of an answer, and how many tokens of its prompt were cached."""
    body = {"prompt": prompt, "max_tokens": 8, "temperature": 0}
    reply = httpx.post(f"{server.url}/v1/completions", json=body, timeout=PATIENCE)
    assert reply.status_code == 200, reply.text
    answer: Mapping[str, Any] = reply.json()
    return answer["choices"][0]["text"], answer["slipstream"]["cached_tokens"]


def flushed(server: Server) -> Mapping[str, int]:
    reply = httpx.post(f"{server.url}/admin/cache/flush", timeout=PATIENCE)
    assert reply.status_code == 200, reply.text
    found: Mapping[str, int] = reply.json()
    return found


def test_what_was_computed_before_sigterm_is_used_after_it(tmp_path: Path) -> None:
    flags = ("--ssd-cache", str(tmp_path / "cache"))
    with ready(tmp_path / "log", *flags) as server:
        text, cached = asked(server, LONG)
        assert cached == 0
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
    with ready(tmp_path / "log", *flags) as server:
        assert asked(server, LONG) == (text, len(LONG) - 1)
        stats = httpx.get(f"{server.url}/stats").json()["prefix_cache"]
        assert stats["ssd_hits"] == 1
        assert stats["ssd_bytes"] > 0
        assert "WARNING" not in server.log and "Traceback" not in server.log


def test_a_kill_loses_what_was_not_flushed_and_no_more(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    flags = ("--ssd-cache", str(folder))
    with ready(tmp_path / "log", *flags) as server:
        text, _ = asked(server, LONG)
        done = flushed(server)
        files = list(folder.glob("*.safetensors"))
        assert done["written"] <= len(files)  # the rest was written before, while it was idle
        other, _ = asked(server, OTHER)
        server.process.kill()
    with ready(tmp_path / "log", *flags) as server:
        assert asked(server, LONG) == (text, len(LONG) - 1)
        assert asked(server, OTHER)[0] == other
        assert "WARNING" not in server.log and "Traceback" not in server.log
    listed = json.loads(run("cache", "ls", str(folder), "--json").stdout)
    assert listed["bad"] == []
    assert listed["bytes"] == sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def test_without_a_folder_there_is_nothing_to_flush(server: Server) -> None:
    assert flushed(server) == {"written": 0, "bytes": 0}
