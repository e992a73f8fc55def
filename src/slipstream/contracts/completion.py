"""What a client asked, the same record for every API. A protocol file builds it and no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from slipstream.contracts.adapters import AdapterUse

Message = Mapping[str, Any]
"""One chat message in the shape that chat templates read: role, content, tool_calls, ..."""


class ToolMode(StrEnum):
    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"
    NAMED = "named"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """Whether tools may or must be called. `name` is set for NAMED only; `parallel` allows several
    calls in one answer."""

    mode: ToolMode = ToolMode.AUTO
    name: str = ""
    parallel: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One generation request, API-agnostic. Exactly one of `messages`, `text`, `ids` is given.

    `sampling` holds only what the client set, keyed by Sampling's field names.
    `ignored` lists the request's fields that change nothing here, as dotted paths.
    """

    request_id: str
    model: str
    messages: Sequence[Message] | None = None
    text: str | None = None
    ids: Sequence[int] | None = None
    prompt_param: str = "messages"  # the field that errors about the prompt name
    tools: Sequence[Mapping[str, Any]] = ()  # OpenAI's shape: {"type": "function", "function": ...}
    tool_choice: ToolChoice = ToolChoice()
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    continue_final: bool = False  # the last message is an assistant's, to be continued
    sampling: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    choices: int = 1  # n
    logprobs: int | None = None  # None: off; k: the chosen token and the top k
    logprobs_raw: bool = False  # taken before bias, penalties and masks
    echo: bool = False
    grammar: GrammarText | None = None
    lane: str | None = None  # "solo" forces it
    priority: int = 0  # -2..2, higher runs sooner
    adapters: tuple[AdapterUse, ...] | None = None  # None: the server's default, if it has one
    cache_salt: str = ""
    ignored: tuple[str, ...] = ()
    strict: bool = False  # what turns out to change nothing with the model is refused too

    def __post_init__(self) -> None:
        sources = (self.messages, self.text, self.ids)
        assert sum(source is not None for source in sources) == 1


@dataclass(frozen=True, slots=True)
class PromptSize:
    """How long a prompt is, and what of its request changes nothing with the model."""

    tokens: int
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GrammarText:
    """What output is bound to, not yet compiled. `param` is the field that asked for it."""

    kind: str  # "json_object", "json_schema", "regex", "choice", "lark", "gbnf"
    text: str  # the schema as JSON, the pattern, the choices as a JSON list, the grammar
    param: str
