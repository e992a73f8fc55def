"""One frozen Settings: every flag, its default, its help. The sole reader of flags and environment.

The command line is generated from the fields' metadata, and so are the docs' tables; a flag exists
nowhere else.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from slipstream.contracts.errors import UsageError
from slipstream.contracts.limits import Limits, MemoryLimits


@dataclass(frozen=True, slots=True)
class Flag:
    """How a field is spelled on the command line. `many`: repeatable, collects a tuple.

    `effectless`: taken so that a command line for mlx_lm.server starts, and changes nothing."""

    names: tuple[str, ...]
    help: str
    metavar: str | None = None
    many: bool = False
    choices: tuple[str, ...] = ()
    effectless: bool = False


def flag(
    *names: str,
    default: Any,
    help: str,
    metavar: str | None = None,
    many: bool = False,
    choices: Sequence[str] = (),
    effectless: bool = False,
) -> Any:
    meta = {"flag": Flag(names, help, metavar, many, tuple(choices), effectless)}
    return field(default=default, metadata=meta)


LOG_LEVELS = ("debug", "info", "warning", "error", "critical")
GB = 1 << 30
SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]?)B?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `slipstream serve` was told. `model` None is the starter.

    Raises UsageError, naming the flag, when a value cannot be meant.
    """

    model: str | None = flag(
        "--model",
        default=None,
        metavar="MODEL",
        help="a folder, a hub id, or a unique part of the name of a model on disk "
        "(default: the starter; also as the first argument)",
    )
    host: str = flag("--host", default="127.0.0.1", help="where it listens")
    port: int = flag("--port", default=8080, help="the port; 0 takes a free one")
    batch: int = flag(
        "--batch",
        "--decode-concurrency",
        default=8,
        help="most rows in the group; 1 is one row at a time",
    )
    queue: int = flag("--queue", default=64, help="most waiting requests; one more gets 429")
    max_tokens: int | None = flag(
        "--max-tokens",
        default=None,
        help="answer length when a request names none (default: the rest of the context)",
    )
    context: int | None = flag(
        "--context",
        default=None,
        help="context length, enforced and advertised (default: the model's)",
    )
    prefill_chunk: int = flag(
        "--prefill-chunk",
        "--prefill-step-size",
        default=2048,
        help="most prompt tokens in one turn",
    )
    target_gap: float = flag(
        "--target-gap",
        default=200.0,
        metavar="MS",
        help="gap between two tokens of a running row that prompts should not exceed",
    )
    kv_budget: float | None = flag(
        "--kv-budget",
        default=None,
        metavar="GB",
        help="memory for live rows (default: what weights and reserve leave of the budget)",
    )
    memory_budget: float | None = flag(
        "--memory-budget",
        default=None,
        metavar="GB",
        help="memory for weights, rows, caches and all else (default: 0.75 of the device's)",
    )
    prefix_cache: float | None = flag(
        "--prefix-cache",
        default=None,
        metavar="GB",
        help="memory for what finished rows leave to later ones; 0 is off "
        "(default: a quarter of what weights leave)",
    )
    prompt_cache_bytes: str | None = flag(
        "--prompt-cache-bytes",
        default=None,
        metavar="SIZE",
        help="as --prefix-cache, in bytes, or like 500MB or 2GB (decimal, as mlx_lm.server has it)",
    )
    prompt_cache_size: int | None = flag(
        "--prompt-cache-size",
        default=None,
        metavar="N",
        help="of mlx_lm.server: 0 turns the prefix cache off; any other number changes nothing, "
        "for the cache is bounded in bytes",
    )
    ssd_cache: Path | None = flag(
        "--ssd-cache",
        default=None,
        metavar="DIR",
        help="a folder for prefixes that outlive the memory, and a restart (default: none)",
    )
    ssd_cache_size: float = flag(
        "--ssd-cache-size", default=32.0, metavar="GB", help="most that --ssd-cache may hold"
    )
    keep_volatile_line: bool = flag(
        "--keep-volatile-line",
        default=False,
        help="leave a first system line that differs in every request where it is, "
        "instead of moving it to the end of the system text",
    )
    api_keys: tuple[str, ...] = flag(
        "--api-key",
        default=(),
        many=True,
        metavar="KEY",
        help="a key that requests must carry; repeatable (also SLIPSTREAM_API_KEY)",
    )
    api_key_file: Path | None = flag(
        "--api-key-file", default=None, help="a file with one key a line"
    )
    allowed_origins: tuple[str, ...] = flag(
        "--allowed-origins",
        default=(),
        many=True,
        metavar="LIST",
        help="origins that browsers may call from, comma-separated or repeated",
    )
    max_body: float = flag(
        "--max-body", default=64.0, metavar="MB", help="larger bodies are refused with 413"
    )
    request_timeout: float = flag(
        "--request-timeout", default=600.0, metavar="S", help="deadline of one request"
    )
    temp: float | None = flag(
        "--temp", default=None, help="default temperature (default: the model's)"
    )
    top_p: float | None = flag("--top-p", default=None, help="default top-p (default: the model's)")
    top_k: int | None = flag("--top-k", default=None, help="default top-k (default: the model's)")
    min_p: float | None = flag("--min-p", default=None, help="default min-p (default: the model's)")
    chat_template: Path | None = flag(
        "--chat-template", default=None, help="a Jinja file to use instead of the model's template"
    )
    chat_template_args: str = flag(
        "--chat-template-args",
        default="{}",
        metavar="JSON",
        help="extra variables for the template",
    )
    served_names: tuple[str, ...] = flag(
        "--served-name",
        default=(),
        many=True,
        metavar="NAME",
        help="a model name that requests may use; repeatable, * matches "
        "(default: the model's id, default, default_model)",
    )
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
    strict: bool = flag(
        "--strict", default=False, help="refuse unknown fields instead of declaring them"
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

    def __post_init__(self) -> None:
        for name, low in LEAST:
            value = getattr(self, name)
            if value is not None and not low <= value < math.inf:
                raise UsageError(f"{spelled(name)} must be at least {low}.", param=name)
        for name in POSITIVE:
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise UsageError(f"{spelled(name)} must be greater than 0.", param=name)
        if self.port > 65535:
            raise UsageError("--port must be at most 65535.", param="port")
        if self.prefix_cache is not None and self.prompt_cache_bytes is not None:
            raise UsageError(
                "--prefix-cache and --prompt-cache-bytes name the same memory. Give one.",
                param="prefix_cache",
            )
        if self.prompt_cache_bytes is not None:
            size(self.prompt_cache_bytes, "prompt_cache_bytes")

    @property
    def limits(self) -> Limits:
        return Limits(
            batch=self.batch,
            queue=self.queue,
            prefill_chunk=self.prefill_chunk,
            prefill_floor=min(24, self.prefill_chunk),
            target_gap=self.target_gap / 1000,
            request_timeout=self.request_timeout,
        )

    @property
    def memory(self) -> MemoryLimits:
        return MemoryLimits(
            memory_budget=_gigabytes(self.memory_budget),
            kv_budget=_gigabytes(self.kv_budget),
            prefix_cache=self._prefix_bytes,
        )

    @property
    def ssd_cache_bytes(self) -> int:
        return int(self.ssd_cache_size * GB)

    @property
    def _prefix_bytes(self) -> int | None:
        if self.prompt_cache_size == 0:
            return 0
        if self.prompt_cache_bytes is not None:
            return size(self.prompt_cache_bytes, "prompt_cache_bytes")
        return _gigabytes(self.prefix_cache)

    @property
    def effectless(self) -> tuple[str, ...]:
        """The flags that were given and change nothing."""
        given = [name for name in flags() if getattr(self, name) != getattr(DEFAULTS, name)]
        return tuple(spelled(name) for name in given if flags()[name].effectless)

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that opens the door, from the flags and the file; none means no door."""
        found = list(self.api_keys)
        if self.api_key_file is not None:
            try:
                lines = self.api_key_file.read_text("utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"--api-key-file: {error}", param="api_key_file") from error
            found += [line.strip() for line in lines if line.strip()]
        return tuple(found)


LEAST = (
    ("batch", 1),
    ("queue", 0),
    ("prefill_chunk", 1),
    ("port", 0),
    ("max_tokens", 1),
    ("context", 1),
    ("prefix_cache", 0),
    ("prompt_cache_size", 0),
)
POSITIVE = (
    "target_gap",
    "max_body",
    "request_timeout",
    "kv_budget",
    "memory_budget",
    "ssd_cache_size",
)
DEFAULTS = Settings()


def size(text: str, name: str) -> int:
    """Bytes of a number that may have a unit: 500MB, 2G, 1048576; units are decimal.

    Raises UsageError naming the flag of field `name`."""
    match = SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{spelled(name)} is {text!r}; a size is like 500MB or 2GB.", param=name)
    return int(float(match[1]) * 1000 ** " KMGT".index(match[2].upper() or " "))


def _gigabytes(value: float | None) -> int | None:
    return None if value is None else int(value * GB)


def spelled(name: str) -> str:
    """The first spelling of the flag of field `name`."""
    return flags()[name].names[0]


def flags() -> Mapping[str, Flag]:
    """Field name -> Flag, in the order of the help."""
    described: tuple[Field[Any], ...] = fields(Settings)
    return {f.name: f.metadata["flag"] for f in described}


def cache_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Where converted models live: SLIPSTREAM_CACHE, else slipstream/ in the user's cache."""
    if given := environ.get("SLIPSTREAM_CACHE"):
        return Path(given)
    base = environ.get("XDG_CACHE_HOME") or str(
        Path(environ.get("HOME", "~")).expanduser() / ".cache"
    )
    return Path(base) / "slipstream"


def environment_keys(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The keys of SLIPSTREAM_API_KEY, comma-separated."""
    return tuple(k.strip() for k in environ.get("SLIPSTREAM_API_KEY", "").split(",") if k.strip())
