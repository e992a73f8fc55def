"""Flags of the server itself: what it loads, where it listens, who may ask, how much at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slipstream.contracts.errors import UsageError
from slipstream.contracts.limits import Limits
from slipstream.settings.flag import flag


@dataclass(frozen=True, kw_only=True)
class Serving:
    """Who may ask, and how much runs at once."""

    model: str | None = flag(
        "--model",
        default=None,
        metavar="MODEL",
        help="a folder, a hub id, or a unique part of the name of a model on disk "
        "(default: the starter; also as the first argument)",
    )
    host: str = flag("--host", default="127.0.0.1", help="where it listens")
    port: int = flag("--port", default=8080, least=0, help="the port; 0 takes a free one")
    batch: int = flag(
        "--batch",
        "--decode-concurrency",
        default=8,
        least=1,
        help="most rows in the group; 1 is one row at a time",
    )
    queue: int = flag(
        "--queue", default=64, least=0, help="most waiting requests; one more gets 429"
    )
    max_tokens: int | None = flag(
        "--max-tokens",
        default=None,
        least=1,
        help="answer length when a request names none (default: the rest of the context)",
    )
    context: int | None = flag(
        "--context",
        default=None,
        least=1,
        help="context length, enforced and advertised (default: the model's)",
    )
    prefill_chunk: int = flag(
        "--prefill-chunk",
        "--prefill-step-size",
        default=2048,
        least=1,
        help="most prompt tokens in one turn",
    )
    target_gap: float = flag(
        "--target-gap",
        default=200.0,
        above=0,
        metavar="MS",
        help="gap between two tokens of a running row that prompts should not exceed",
    )
    request_timeout: float = flag(
        "--request-timeout", default=600.0, above=0, metavar="S", help="deadline of one request"
    )
    max_body: float = flag(
        "--max-body", default=64.0, above=0, metavar="MB", help="larger bodies are refused with 413"
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
    served_names: tuple[str, ...] = flag(
        "--served-name",
        default=(),
        many=True,
        metavar="NAME",
        help="a model name that requests may use; repeatable, * matches "
        "(default: the model's id, default, default_model)",
    )
    strict: bool = flag(
        "--strict", default=False, help="refuse unknown fields instead of declaring them"
    )

    def check_serving(self) -> None:
        if self.port > 65535:
            raise UsageError("--port must be at most 65535.", param="port")

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
