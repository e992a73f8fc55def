"""The flags of `serve` come from Settings, all of them, and nothing else is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from slipstream.cli import main
from slipstream.cli.flags import command
from slipstream.cli.terminal import guarded
from slipstream.contracts.limits import MemoryLimits
from slipstream.settings import Settings, flags


def parsed(*arguments: str) -> tuple[Result, list[Settings]]:
    """What the command line of `serve` is understood as, without serving."""
    got: list[Settings] = []
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command()(guarded(command(got.append, help="")))
    return CliRunner().invoke(app, arguments), got


def settings(*arguments: str) -> Settings:
    result, got = parsed(*arguments)
    assert result.exit_code == 0, result.output
    return got[0]


def test_no_flags_are_the_defaults() -> None:
    assert settings() == Settings()


@pytest.mark.parametrize("name", [field.name for field in fields(Settings)])
def test_every_spelling_of_every_flag_is_in_the_help(name: str) -> None:
    result = CliRunner().invoke(main.app(), ["serve", "--help"], terminal_width=200)
    words = result.output.replace(",", " ").split()
    assert set(flags()[name].names) <= set(words)


def test_the_model_is_the_first_argument_or_a_flag() -> None:
    assert settings("org/m").model == settings("--model", "org/m").model == "org/m"


def test_two_different_models_are_wrong_usage() -> None:
    result, _ = parsed("a", "--model", "b")
    assert result.exit_code == 2 and "Two models are named" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        (["--decode-concurrency", "3"], "batch", 3),
        (["--prefill-step-size", "64"], "prefill_chunk", 64),
        (["--api-key", "a,b", "--api-key", "c"], "api_keys", ("a,b", "c")),
        (["--served-name", "a", "--served-name", "claude-*"], "served_names", ("a", "claude-*")),
        (["--allowed-origins", "http://a, http://b"], "allowed_origins", ("http://a", "http://b")),
        (["--strict"], "strict", True),
        (["--temp", "0.5"], "temp", 0.5),
        (["--chat-template", "t.jinja"], "chat_template", Path("t.jinja")),
        (["--log-level", "debug"], "log_level", "debug"),
        (["--log-level", "INFO"], "log_level", "info"),
        (["--kv-budget", "0.5"], "kv_budget", 0.5),
        (["--prefix-cache", "0"], "prefix_cache", 0.0),
        (["--prompt-cache-bytes", "2GB"], "prompt_cache_bytes", "2GB"),
        (["--ssd-cache", "warm", "--ssd-cache-size", "32"], "ssd_cache", Path("warm")),
        (["--keep-volatile-line"], "keep_volatile_line", True),
    ],
)
def test_a_flag_sets_its_field(arguments: Sequence[str], field: str, value: object) -> None:
    assert settings(*arguments) == Settings(**{field: value})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--bacth", "3"], "--batch"),
        (["--batch", "many"], "--batch"),
        (["--batch", "0"], "--batch must be at least 1"),
        (["--port", "70000"], "--port must be at most 65535"),
        (["--log-level", "loud"], "loud"),
        (["--kv-budget", "0"], "--kv-budget must be greater than 0"),
        (["--memory-budget", "inf"], "--memory-budget must be greater than 0"),
        (["--prefix-cache", "-1"], "--prefix-cache must be at least 0"),
        (["--prompt-cache-bytes", "much"], "a size is like 500MB"),
        (["--prefix-cache", "1", "--prompt-cache-bytes", "1GB"], "Give one"),
        (["--no-strict"], "--strict"),
        (["a", "b"], "b"),
        (["--ssd-cache", "warm", "--prefix-cache", "0"], "--ssd-cache needs memory"),
        (["--ssd-cache", "warm", "--prompt-cache-size", "0"], "--ssd-cache needs memory"),
    ],
)
def test_wrong_usage_names_the_flag(arguments: Sequence[str], says: str) -> None:
    result, got = parsed(*arguments)
    assert result.exit_code == 2 and says in result.stderr and not got
    assert "Traceback" not in result.output


GB = 1 << 30


@pytest.mark.parametrize(
    ("fields", "limits"),
    [
        ({}, MemoryLimits()),
        (
            {"kv_budget": 0.5, "memory_budget": 4},
            MemoryLimits(kv_budget=GB // 2, memory_budget=4 * GB),
        ),
        ({"prefix_cache": 0}, MemoryLimits(prefix_cache=0)),
        ({"prompt_cache_bytes": "500MB"}, MemoryLimits(prefix_cache=500_000_000)),
        ({"prompt_cache_bytes": "1.5 g"}, MemoryLimits(prefix_cache=1_500_000_000)),
        ({"prompt_cache_bytes": "12345"}, MemoryLimits(prefix_cache=12345)),
        ({"prompt_cache_size": 10}, MemoryLimits()),
        ({"prompt_cache_size": 0}, MemoryLimits(prefix_cache=0)),
    ],
)
def test_memory_is_given_in_gigabytes_or_sizes(fields: Any, limits: MemoryLimits) -> None:
    assert Settings(**fields).memory == limits


def test_a_command_line_of_mlx_lm_is_taken_and_says_what_changes_nothing() -> None:
    taken = settings(
        *("--model", "m", "--host", "0.0.0.0", "--port", "8081", "--allowed-origins", "*"),
        *("--trust-remote-code", "--log-level", "INFO", "--temp", "0.0", "--top-p", "1.0"),
        *("--top-k", "0", "--min-p", "0.0", "--max-tokens", "512", "--chat-template-args", "{}"),
        *("--decode-concurrency", "32", "--prompt-concurrency", "8", "--prefill-step-size", "2048"),
        *("--prompt-cache-size", "10", "--prompt-cache-bytes", "2GB"),
    )
    assert taken.effectless == ("--prompt-concurrency", "--trust-remote-code")
    assert settings().effectless == ()
