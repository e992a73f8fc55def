"""Chat templates: messages in, the text that the model was trained to continue out.

It does not know ids. What Hugging Face's `apply_chat_template` renders is what this renders.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jinja2

from slipstream.contracts.completion import Message
from slipstream.contracts.errors import InvalidRequest, ModelError
from slipstream.contracts.model import ModelInfo
from slipstream.text.sandbox import Budget, Refused, Sandbox, TooCostly

DEFAULT, WITH_TOOLS, WITH_DOCUMENTS = "default", "tool_use", "rag"
RESERVED = frozenset({"messages", "tools"})
REASONING = ("reasoning_content", "thinking", "reasoning")
MARK = "CONTINUE_FINAL_MESSAGE_TAG "
NEEDLE = "needle"
SHORT_ID = 9  # characters
FAILURES = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What template code can raise: Jinja's own, and what its expressions can."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One compiled template, and the shapes of message that it was seen to read."""

    template: jinja2.Template
    reads_parts: bool  # content may be a list of parts
    reads_text: bool  # content may be a string
    reads_objects: bool  # arguments of tool calls may be objects
    short_ids: bool  # ids of tool calls have to be nine letters and digits


class ChatTemplate:
    """A model's templates, compiled, with the variables that every rendering gets.

    `texts` maps names to sources: `default`, and `tool_use` and `rag` for requests with tools or
    documents. None at all is fine until one is needed. Raises ModelError when one cannot be read.
    `text` is all of them, `reads` the names of variables that they read.
    """

    def __init__(
        self,
        texts: Mapping[str, str],
        *,
        special: Mapping[str, str] = MappingProxyType({}),
        variables: Mapping[str, Any] = MappingProxyType({}),
        now: Callable[[], datetime] = datetime.now,
        budget: Callable[[], Budget] = Budget,
    ) -> None:
        """`special` is the tokenizer's `named`; `variables` are extra ones from the flags."""
        self._sandbox = Sandbox()
        self._sandbox.globals["strftime_now"] = lambda form: now().strftime(form)
        self._variables = {**special, **variables}
        self._budget = budget
        self.text = "\n".join(texts.values())
        self._variants = {name: self._compile(name, text) for name, text in texts.items()}
        self.reads = frozenset(
            name for text in texts.values() for name in self._sandbox.undeclared(text)
        )

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        variables: Mapping[str, Any] = MappingProxyType({}),
        continue_final: bool = False,
        param: str = "messages",
    ) -> str:
        """The prompt. `continue_final` leaves the last message open instead of beginning a reply.

        Raises InvalidRequest naming `param` when the template refuses or fails on the messages."""
        if taken := RESERVED.intersection(variables):
            raise InvalidRequest(
                f"chat_template_kwargs may not set {min(taken)}.", param="chat_template_kwargs"
            )
        if not messages:
            raise InvalidRequest("There is no message.", param=param)
        variant = self._choose(bool(tools), bool(variables.get("documents")), param)
        shaped = [_shape(message, variant, param) for message in messages]
        final = _mark_final(shaped, param) if continue_final else None
        given = {
            "documents": None,
            "add_generation_prompt": True,
            **self._variables,
            **variables,
            "messages": shaped,
            "tools": list(tools) or None,
        }
        if continue_final:
            given["add_generation_prompt"] = False
        try:
            text = self._sandbox.render(variant.template, given, self._budget())
        except Refused as error:
            raise InvalidRequest(f"The chat template refuses: {error}", param=param) from error
        except TooCostly as error:
            raise InvalidRequest(f"The chat template was ended: {error}.", param=param) from error
        except FAILURES as error:
            what = str(error) or type(error).__name__
            raise InvalidRequest(
                f"The chat template cannot render these messages: {what}", param=param
            ) from error
        return text if final is None else _cut(text, final, param)

    def _choose(self, tools: bool, documents: bool, param: str) -> Variant:
        wanted = [DEFAULT]
        if documents:
            wanted.insert(0, WITH_DOCUMENTS)
        if tools:
            wanted.insert(0, WITH_TOOLS)
        for name in wanted:
            if name in self._variants:
                return self._variants[name]
        raise InvalidRequest(
            "This model has no chat template. Send a plain prompt to /v1/completions, or start "
            "the server with --chat-template FILE.",
            param=param,
        )

    def _compile(self, name: str, text: str) -> Variant:
        try:
            template = self._sandbox.compiled(text)
        except jinja2.TemplateSyntaxError as error:
            raise ModelError(
                f"The chat template ({name}) is broken at line {error.lineno}: {error.message}."
            ) from error
        except RecursionError as error:
            raise ModelError(f"The chat template ({name}) is nested too deeply.") from error
        return self._probe(template)

    def _probe(self, template: jinja2.Template) -> Variant:
        """Finds out, by rendering tiny conversations, what the template can read."""
        text = self._try(template, _user(NEEDLE))
        parts = self._try(template, _user([{"type": "text", "text": NEEDLE}]))
        reads_text = NEEDLE in text
        reads_parts = parts == text if reads_text else NEEDLE in parts
        objects = self._try(template, *_call({NEEDLE: NEEDLE}))
        as_json = self._try(template, *_call(json.dumps({NEEDLE: NEEDLE})))
        reads_objects = NEEDLE in objects or NEEDLE not in as_json
        long_ids = self._try(template, *_call({NEEDLE: NEEDLE}, "call_" + "0" * 32))
        short_ids = NEEDLE in objects and not long_ids
        reads_text = reads_text or not reads_parts
        return Variant(template, reads_parts, reads_text, reads_objects, short_ids)

    def _try(self, template: jinja2.Template, *messages: Message) -> str:
        """What is rendered, in lower case; nothing when the template fails on it."""
        given = {**self._variables, "messages": list(messages), "tools": None, "documents": None}
        try:
            return self._sandbox.render(template, given, self._budget()).lower()
        except FAILURES:
            return ""


def read_templates(info: ModelInfo, given: str | None = None) -> dict[str, str]:
    """A model's template texts by name; `given` replaces them all. Raises ModelError.

    From chat_template.jinja and additional_chat_templates/ where they are, else from
    tokenizer_config.json, where one is a string and several are a list of records.
    """
    if given is not None:
        return {DEFAULT: given}
    try:
        found = {
            path.stem: path.read_text("utf-8")
            for path in sorted((info.path / "additional_chat_templates").glob("*.jinja"))
        }
        main = info.path / "chat_template.jinja"
        if main.is_file():
            found[DEFAULT] = main.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"A chat template of {info.path} cannot be read: {error}.") from error
    if found:
        return found
    return _named_texts(info.chat_template or info.tokenizer.get("chat_template"))


def load_template(
    info: ModelInfo,
    special: Mapping[str, str],
    *,
    given: Path | None = None,
    variables: Mapping[str, Any] = MappingProxyType({}),
) -> ChatTemplate:
    """The template of `info`, or the one in the file `given`. Raises ModelError."""
    try:
        text = None if given is None else given.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"The chat template {given} cannot be read: {error}.") from error
    return ChatTemplate(read_templates(info, text), special=special, variables=variables)


def _named_texts(written: object) -> dict[str, str]:
    if written is None:
        return {}
    if isinstance(written, str):
        return {DEFAULT: written}
    try:
        return {str(one["name"]): str(one["template"]) for one in written}  # type: ignore[attr-defined]
    except (TypeError, KeyError) as error:
        raise ModelError("chat_template in tokenizer_config.json is not a template.") from error


def _user(content: str | list[dict[str, str]]) -> Message:
    return {"role": "user", "content": content}


def _call(arguments: object, call_id: str = "abcdefgh1") -> tuple[Message, Message]:
    function = {"name": "look", "arguments": arguments}
    call = {"type": "function", "id": call_id, "function": function}
    return _user("hi"), {"role": "assistant", "content": "", "tool_calls": [call]}


def _shape(message: Message, variant: Variant, param: str) -> dict[str, Any]:
    """A copy of `message` as this template reads it: no nulls, content and arguments in the
    form it knows, reasoning under every name that templates use."""
    shaped = {name: value for name, value in message.items() if value is not None}
    content = shaped.get("content")
    if isinstance(content, (list, tuple)):
        parts = [_text_part(part, param) for part in content]
        texts = "".join(part["text"] for part in parts)
        shaped["content"] = parts if variant.reads_parts else texts
    elif isinstance(content, str) and not variant.reads_text:
        shaped["content"] = [{"type": "text", "text": content}]
    if variant.reads_objects and "tool_calls" in shaped:
        shaped["tool_calls"] = [_with_object(call) for call in shaped["tool_calls"]]
    if variant.short_ids:
        _shorten_ids(shaped)
    reasoning = next((shaped[name] for name in REASONING if name in shaped), None)
    if reasoning is not None:
        shaped = {"thinking": reasoning, **shaped, "reasoning_content": reasoning}
    return shaped


def _shorten_ids(message: dict[str, Any]) -> None:
    """Each id becomes nine letters and digits of its own, the same one wherever it stands."""
    if isinstance(message.get("tool_call_id"), str):
        message["tool_call_id"] = _short_id(message["tool_call_id"])
    if "tool_calls" in message:
        message["tool_calls"] = [
            {**call, "id": _short_id(str(call.get("id", "")))}
            if isinstance(call, Mapping)
            else call
            for call in message["tool_calls"]
        ]


def _short_id(given: str) -> str:
    fits = len(given) == SHORT_ID and given.isascii() and given.isalnum()
    return given if fits else hashlib.sha256(given.encode()).hexdigest()[:SHORT_ID]


def _text_part(part: Any, param: str) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    text = part.get("text") if isinstance(part, Mapping) else None
    if not isinstance(text, str):
        kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
        raise InvalidRequest(f"This model reads text, and no parts of type {kind!r}.", param=param)
    return {**part, "type": "text"}


def _with_object(call: Any) -> Any:
    """Clients send arguments as the JSON text of an object; most templates want the object."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError:
        return call
    if not isinstance(arguments, dict):
        return call
    return {**call, "function": {**function, "arguments": arguments}}


def _mark_final(messages: list[dict[str, Any]], param: str) -> str:
    """Puts MARK at the end of the last message's text, and returns that text."""
    last = messages[-1]
    content = last.get("content")
    if isinstance(content, str):
        last["content"] = content + MARK
        return content
    texts = [n for n, part in enumerate(content or ()) if "text" in part]
    if not texts:
        raise InvalidRequest("The last message has no text to continue.", param=param)
    parts = list(content or ())
    text: str = parts[texts[-1]]["text"]
    parts[texts[-1]] = {**parts[texts[-1]], "text": text + MARK}
    last["content"] = parts
    return text


def _cut(text: str, final: str, param: str) -> str:
    """Ends the prompt where MARK stands. What follows it closes the message."""
    at = text.rfind(MARK.strip())
    if at < 0 or final.strip() not in text:
        raise InvalidRequest(
            "The chat template changes the last message, so it cannot be continued.", param=param
        )
    if text.startswith(MARK, at):
        return text[:at]
    return text[:at].rstrip()  # the template strips the message, so its end may not count
