"""What settings mean for one model: its context, sampling defaults, template variables, log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slipstream.contracts.errors import UsageError
from slipstream.contracts.model import ModelInfo
from slipstream.engine.times import TurnLog
from slipstream.settings import Settings

SAMPLING_FLAGS = (
    ("temperature", "temp"),
    ("top_p", "top_p"),
    ("top_k", "top_k"),
    ("min_p", "min_p"),
)


def context_of(settings: Settings, info: ModelInfo) -> int:
    if settings.context is None:
        return info.context
    if settings.context > info.context:
        raise UsageError(
            f"--context {settings.context} is more than this model's {info.context} tokens.",
            param="context",
        )
    return settings.context


def turn_log(path: Path | None) -> TurnLog | None:
    if path is None:
        return None
    try:
        return TurnLog(path)
    except OSError as error:
        raise UsageError(f"--trace-turns: {error}", param="trace_turns") from error


def template_variables(settings: Settings) -> dict[str, Any]:
    try:
        found = json.loads(settings.chat_template_args)
    except ValueError as error:
        raise UsageError(
            f"--chat-template-args is not JSON: {error}", param="chat_template_args"
        ) from error
    if not isinstance(found, dict):
        raise UsageError(
            "--chat-template-args must be a JSON object of template variables.",
            param="chat_template_args",
        )
    return found
