"""POST /v1/completions: parses its body and renders its choices, and no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.contracts.completion import Completion
from slipstream.contracts.delta import Delta, TextLogprob
from slipstream.contracts.errors import InvalidRequest
from slipstream.serve import fields
from slipstream.serve.api import Parsed
from slipstream.serve.fields import Context, GenerationRequest, TopCount
from slipstream.serve.openai.reply import Choice, OpenAIReply
from slipstream.serve.wire import Object
from slipstream.text.sink import Folded


class TextRequest(GenerationRequest, kw_only=True):
    prompt: Any = None  # checked by `prompts`: a union of lists is beyond plain types
    best_of: int | None = None
    echo: bool | None = None
    logprobs: TopCount | None = None


def parse(body: Object, context: Context) -> Parsed:
    request = fields.typed(body, TextRequest)
    if request.best_of is not None and not request.best_of == (request.n or 1) == 1:
        raise InvalidRequest("best_of is refused, but for 1; send n.", param="best_of")
    sources = prompts(request.prompt, context.rows_max)
    if len(sources) * (request.n or 1) > context.rows_max:
        raise InvalidRequest(
            f"{len(sources)} prompts with n={request.n or 1} are more answers than can run or "
            f"wait; at most {context.rows_max} can.",
            param="n",
        )
    shared = fields.shared(body, request, context)
    shared |= {
        "prompt_param": "prompt",
        "max_tokens": fields.one_limit(request.max_tokens, request.min_tokens),
        "logprobs": request.logprobs,
        "echo": bool(request.echo),
    }
    completions = tuple(
        Completion(**shared, text=source)
        if isinstance(source, str)
        else Completion(**shared, ids=tuple(source))
        for source in sources
    )
    fields.refuse_not_yet(body)
    reply = OpenAIReply(
        TextStyle(logprobs=request.logprobs is not None),
        model=shared["model"],
        ignored=shared["ignored"],
        prompts=len(sources),
        choices=shared["choices"],
        include_usage=fields.include_usage(request),
    )
    return Parsed(completions, reply, bool(request.stream))


def prompts(given: Any, most: int) -> Sequence[str | Sequence[int]]:
    """The prompts in `given`: a text, texts, ids or lists of ids. Raises InvalidRequest."""
    if isinstance(given, str):
        return [given]
    if are_ids(given):
        return [given]
    if not isinstance(given, list) or not given:
        raise refusal()
    if len(given) > most:
        raise InvalidRequest(
            f"prompt has {len(given)} entries; at most {most} can run or wait.", param="prompt"
        )
    if all(isinstance(one, str) for one in given) or all(are_ids(one) for one in given):
        return given
    raise refusal()


def are_ids(given: Any) -> bool:
    """A bool is an int to Python, and no id to us."""
    return (
        isinstance(given, list)
        and bool(given)
        and all(type(one) is int and one >= 0 for one in given)
    )


def refusal() -> InvalidRequest:
    return InvalidRequest(
        "prompt must be a text, a list of texts, a list of token ids or a list of such lists, "
        "and no list may be empty.",
        param="prompt",
    )


class TextStyle:
    """How this route writes a choice."""

    prefix = "cmpl-"
    body_object = "text_completion"
    chunk_object = "text_completion"

    def __init__(self, *, logprobs: bool) -> None:
        self._logprobs = logprobs

    def writer(self, index: int) -> TextWriter:
        return TextWriter(index)

    def whole(self, index: int, folded: Folded) -> Choice:
        logprobs = columns(folded.logprobs, 0) if self._logprobs else None
        return choice(index, folded.text, logprobs, folded.finish)


class TextWriter:
    """One choice of a stream; it counts the characters that its tokens began so far."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._offset = 0

    def push(self, delta: Delta) -> list[Choice]:
        if not (delta.text or delta.logprobs or delta.finish):
            return []
        logprobs = columns(delta.logprobs, self._offset) if delta.logprobs else None
        self._offset += sum(map(characters, delta.logprobs))
        return [choice(self._index, delta.text, logprobs, delta.finish)]


def choice(index: int, text: str, logprobs: Mapping[str, Any] | None, finish: str | None) -> Choice:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}


def columns(logprobs: Sequence[TextLogprob], offset: int) -> Mapping[str, Any]:
    """This route's shape: one list a quantity. `offset` is that of the first token."""
    offsets = []
    for one in logprobs:
        offsets.append(offset)
        offset += characters(one)
    return {
        "tokens": [name(one) for one in logprobs],
        "token_logprobs": [one.logprob for one in logprobs],
        "top_logprobs": [alternatives(one) for one in logprobs],
        "text_offset": offsets,
    }


def alternatives(one: TextLogprob) -> Mapping[str, float | None] | None:
    """The top tokens and the chosen one; null for a prompt's first token, which nobody chose.
    Of tokens that are written alike, the likeliest counts."""
    if one.logprob is None:
        return None
    return {name(top): top.logprob for top in (one, *reversed(one.top))}


def characters(one: TextLogprob) -> int:
    """How many characters begin in the token's UTF-8 bytes."""
    return 0 if one.silent else sum(byte & 0xC0 != 0x80 for byte in one.raw)


def name(one: TextLogprob) -> str:
    """The token as text; pieces of characters by their bytes, so that they stay apart."""
    try:
        return one.raw.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in one.raw)
