"""Flags about looking on, and those that only another server has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slipstream.settings.flag import flag

LOG_LEVELS = ("debug", "info", "warning", "error", "critical")


@dataclass(frozen=True, kw_only=True)
class Watching:
    """What is written down about the work."""

    trace: Path | None = flag(
        "--trace",
        default=None,
        metavar="FILE",
        help="write the spans of every generation here, for Perfetto or Chrome",
    )
    otlp: str | None = flag(
        "--otlp",
        default=None,
        metavar="URL",
        help="send the spans of every generation to this OpenTelemetry collector, over HTTP "
        "(needs the extra slipstream[otlp])",
    )
    trace_turns: Path | None = flag(
        "--trace-turns",
        default=None,
        metavar="FILE",
        help="write one line of JSON a turn of the device thread here, with its times",
    )
    log_level: str = flag("--log-level", default="info", choices=LOG_LEVELS, help="how much to log")
    prompt_concurrency: int | None = flag(
        "--prompt-concurrency",
        default=None,
        effectless=True,
        help="of mlx_lm.server; changes nothing: all prompts in the group fill at once",
    )
    trust_remote_code: bool = flag(
        "--trust-remote-code",
        default=False,
        effectless=True,
        help="of mlx_lm.server; changes nothing: no code of a model folder is ever run",
    )
