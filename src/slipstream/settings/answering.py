"""Flags that shape answers where a request does not: adapters, sampling, the template."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slipstream.contracts.errors import UsageError
from slipstream.settings.flag import flag


@dataclass(frozen=True, kw_only=True)
class Answering:
    """What holds for answers whose request does not say otherwise."""

    adapters: tuple[str, ...] = flag(
        "--adapter",
        default=(),
        many=True,
        metavar="NAME=PATH",
        help="a folder with a LoRA adapter to mount under a name; repeatable",
    )
    adapter_path: Path | None = flag(
        "--adapter-path",
        default=None,
        metavar="PATH",
        help="as --adapter default=PATH, and requests that name no adapter run with it",
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
    keep_volatile_line: bool = flag(
        "--keep-volatile-line",
        default=False,
        help="leave a first system line that differs in every request where it is, instead of "
        "moving it to the end of the system text, or out where it is for the client's own servers",
    )

    def check_answering(self) -> None:
        for text in self.adapters:
            if not all(text.partition("=")):
                raise UsageError(f"--adapter is {text!r}; it is like NAME=PATH.", param="adapters")
