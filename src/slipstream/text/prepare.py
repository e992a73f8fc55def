"""A Completion becomes a Prompt: ids, sampling, limits and stops resolved, everything checked.

It does not know lanes, devices or HTTP, and reads no settings: defaults are given to it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slipstream.contracts.completion import Completion, Message, ToolMode
from slipstream.contracts.errors import InvalidRequest, ModelError
from slipstream.contracts.model import ModelInfo
from slipstream.contracts.placement import Lane, Needs
from slipstream.contracts.row import Prompt
from slipstream.contracts.sampling import SEED_BITS, Sampling, check_range
from slipstream.text.answers import Answer, Answers
from slipstream.text.boundaries import Rendered, boundaries
from slipstream.text.detokenize import Detokenizer
from slipstream.text.echo import Echo
from slipstream.text.embedding import Embedder
from slipstream.text.grammar import Compiled, GrammarCompiler
from slipstream.text.room import Room
from slipstream.text.sink import Sink
from slipstream.text.stops import Stops
from slipstream.text.template import ChatTemplate
from slipstream.text.tokenizer import Tokenizer
from slipstream.text.volatile import settled

MOST_STOPS = 16
GENERATION_FIELDS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
FRESH_BITS = 52  # of a seed that is made here: a client in JavaScript can send it back


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A checked request, ready to be placed. Frozen: one for all choices."""

    prompt: Prompt  # without a matcher
    grammar: Compiled | None
    stop: tuple[str, ...]
    choices: int
    tokenizer: Tokenizer
    answer: Answer
    ignored: tuple[str, ...]  # fields that change nothing with this model
    continues: bool  # the answer goes on in the middle of a text
    echo: Echo | None  # the prompt, when it is to come out first

    def for_choice(self, choice: int) -> Prompt:
        """The prompt of choice `choice` from 0 on: the same, with a seed and a matcher of its
        own."""
        sampling = self.prompt.sampling
        seed = (sampling.seed + choice) % (1 << SEED_BITS) if choice else sampling.seed
        matcher = None
        if self.grammar is not None:
            matcher = self.grammar.matcher(self.prompt.stop_ids, self.answer.lead)
        return replace(self.prompt, sampling=replace(sampling, seed=seed), matcher=matcher)

    def sink(self, choice: int = 0) -> Sink:
        """A fresh text chain for one choice."""
        return Sink(
            Detokenizer(self.tokenizer, keep=self.answer.keep, continues=self.continues),
            Stops(self.stop),
            self.answer.reader(),
            stop_ids=self.prompt.stop_ids,
            choice=choice,
            echo=self.echo,
        )


def fresh_seed() -> int:
    return secrets.randbits(FRESH_BITS)


class Preparer:
    """Prepares requests for one model. Every refusal is an InvalidRequest naming a field.

    Costs what the tokenizer costs, 30 to 100 ms per 100 kB of text, and for a text that cannot
    fit no more than two contexts of it. Safe in threads, should a caller want to keep that off
    its loop.
    """

    def __init__(
        self,
        info: ModelInfo,
        tokenizer: Tokenizer,
        template: ChatTemplate,
        defaults: Mapping[str, object],
        context: int,
        max_tokens_default: int | None = None,
        draw_seed: Callable[[], int] = fresh_seed,
        *,
        keep_volatile_line: bool = False,
    ) -> None:
        """`defaults`: see `sampling_defaults`. `context` in tokens, enforced.

        `keep_volatile_line` leaves it where it is; see `volatile`."""
        self._tokenizer = tokenizer
        self._template = template
        self._defaults = defaults
        self._room = room = Room(tokenizer, context, info.vocab_size)
        self._keep_volatile_line = keep_volatile_line
        self._max_tokens = max_tokens_default
        self.embedder = Embedder(info, tokenizer, room)
        self._draw_seed = draw_seed
        own = tokenizer.eos_id  # chat models end turns with it, whatever their config.json says
        ends = [*info.eos_ids] if own is None else [own, *info.eos_ids]
        self._eos = frozenset(ends)
        self._answers = Answers(template, tokenizer)
        self._grammars = GrammarCompiler(tokenizer, dict.fromkeys(ends), info.vocab_size)

    def limit_context(self, context: int) -> None:
        """From now on no prompt is longer than `context` tokens: memory holds no more."""
        self._room.limit(context)

    def close(self) -> None:
        """Lets go of grammars that wait to be compiled."""
        self._grammars.close()

    async def grammar(self, completion: Completion) -> Compiled | None:
        """What `prepare` wants beside a completion whose answer is bound, compiled off the loop.

        Raises InvalidRequest, and QueueFull when too many wait for theirs."""
        bound = self._answers.grammar(completion)
        if bound is None:
            return None
        if completion.ignore_eos:
            raise InvalidRequest(
                f"ignore_eos cannot be joined with {bound.param}: "
                "what is bound to a form ends with it.",
                param="ignore_eos",
            )
        return await self._grammars.compile(bound)

    def prepare(self, completion: Completion, grammar: Compiled | None = None) -> Prepared:
        """`grammar` is what `grammar()` made of this completion.

        Raises InvalidRequest, and ContextExceeded when there is no room for one token more."""
        bound = self._answers.grammar(completion)
        assert (grammar is None) == (bound is None)
        ignored = self.idle(completion)
        stop = _checked_stops(completion.stop)
        stop_ids = self._stop_ids(completion, stop)
        sampling = Sampling.resolve(completion.sampling, self._defaults, self._draw_seed())
        self._room.check_ids(sampling.logit_bias, "logit_bias")
        ids, rendered = self._read(completion)
        if completion.max_tokens is not None and completion.max_tokens < 1:
            raise InvalidRequest("max_tokens must be at least 1.", param="max_tokens")
        room = self._room.context - len(ids)
        if room < 1:
            raise self._room.exceeded(len(ids), completion.prompt_param)
        wanted = completion.max_tokens or self._max_tokens or room
        prompt = Prompt(
            ids=ids,
            max_tokens=min(wanted, room),
            sampling=sampling,
            stop_ids=stop_ids,
            logprobs=completion.logprobs,
            logprobs_raw=completion.logprobs_raw,
            prompt_logprobs=completion.echo and completion.logprobs is not None,
            needs=Needs(
                solo=completion.lane == Lane.SOLO,
                adapters=completion.adapters or (),
            ),
            priority=completion.priority,
            cache_salt=completion.cache_salt,
            boundaries=() if rendered is None else self._boundaries(completion, rendered),
        )
        return Prepared(
            prompt=prompt,
            grammar=grammar,
            stop=stop,
            choices=completion.choices,
            tokenizer=self._tokenizer,
            answer=Answer()
            if rendered is None
            else self._answers.answer(completion, rendered.text, bound),
            ignored=ignored,
            continues=completion.messages is None or completion.continue_final,
            echo=self._echo(completion, ids) if completion.echo else None,
        )

    def ids(self, completion: Completion) -> tuple[int, ...]:
        """The prompt's ids, at least one, all in the vocabulary; not checked against the context,
        but for a text so long that it cannot fit. Raises InvalidRequest, ContextExceeded."""
        return self._read(completion)[0]

    def _read(self, completion: Completion) -> tuple[tuple[int, ...], Rendered | None]:
        """The ids, and for messages what was rendered on the way."""
        param, rendered = completion.prompt_param, None
        if completion.messages is not None:
            found, rendered = self._rendered(completion)
        elif completion.text is not None:
            self._room.check_length(completion.text, param)
            found = self._tokenizer.encode(completion.text)
        else:
            found = list(completion.ids or ())
        if not found:
            bos = self._tokenizer.bos_id
            if bos is None:
                raise InvalidRequest("The prompt is empty.", param=param)
            found = [bos]
        self._room.check_ids(found, param)
        return tuple(found), rendered

    def _rendered(self, completion: Completion) -> tuple[list[int], Rendered]:
        text = self._render(completion, self._messages(completion))
        self._check_tools(completion, text)
        self._room.check_length(text, completion.prompt_param)
        ids, spans = self._tokenizer.encode_placed(text)
        bos = self._tokenizer.bos_id
        doubled = int(bos is not None and ids[:2] == [bos, bos])
        return ids[doubled:], Rendered(text, spans[doubled:])

    def _messages(self, completion: Completion) -> Sequence[Message]:
        return self._settled(completion)[0]

    def _settled(self, completion: Completion) -> tuple[Sequence[Message], tuple[str, ...]]:
        messages = completion.messages or ()
        return (messages, ()) if self._keep_volatile_line else settled(messages)

    def _render(
        self, completion: Completion, messages: Sequence[Message], **variables: object
    ) -> str:
        offered = completion.tool_choice.mode is not ToolMode.NONE
        given, _ = self._answers.variables(completion.template_kwargs)
        return self._template.render(
            messages,
            tools=completion.tools if offered else (),
            variables={**given, **variables},
            continue_final=completion.continue_final,
            param=completion.prompt_param,
        )

    def _check_tools(self, completion: Completion, rendered: str) -> None:
        """Raises InvalidRequest where the template drops the tools, and nothing else would make
        the model call them."""
        if completion.tools and completion.tool_choice.mode is ToolMode.AUTO:
            without = replace(completion, tools=())
            if self._render(without, self._messages(completion)) == rendered:
                raise InvalidRequest(
                    "This model's chat template takes no tools. With tool_choice required, or "
                    "naming a tool, a call is made all the same.",
                    param="tools",
                )

    def idle(self, completion: Completion) -> tuple[str, ...]:
        """Its fields, and lines of its prompt, that change nothing with this model. Raises
        InvalidRequest where the request must have none."""
        _, idle = self._answers.variables(completion.template_kwargs)
        own = "reasoning_effort"
        found = [name if name == own else f"chat_template_kwargs.{name}" for name in idle]
        found += self._settled(completion)[1]
        if completion.strict and found:
            raise InvalidRequest(
                f"{found[0]} changes nothing with this model, and --strict refuses that.",
                param=found[0],
            )
        return tuple(found)

    def _boundaries(self, completion: Completion, rendered: Rendered) -> tuple[int, ...]:
        def ending(messages: Sequence[Message], reply: bool) -> str:
            asked = replace(completion, continue_final=False)
            return self._render(asked, messages, add_generation_prompt=reply)

        final = completion.continue_final
        return boundaries(rendered, self._messages(completion), ending, continued=final)

    def _stop_ids(self, completion: Completion, stop: Sequence[str]) -> frozenset[int]:
        """The ids that end a row. A stop string that is a special token never shows in the text,
        so it ends the row by its id."""
        self._room.check_ids(completion.stop_token_ids, "stop_token_ids")
        ids = {*completion.stop_token_ids}
        ids |= self._tokenizer.special_ids.intersection(map(self._tokenizer.id_of, stop))
        if not completion.ignore_eos:
            ids |= self._eos if completion.messages is None else self._eos | self._answers.ends
        return frozenset(ids)

    def _echo(self, completion: Completion, ids: Sequence[int]) -> Echo:
        text = self._tokenizer.decode(ids) if completion.text is None else completion.text
        return Echo(text, self._tokenizer)


def _checked_stops(stop: tuple[str, ...]) -> tuple[str, ...]:
    if len(stop) > MOST_STOPS:
        raise InvalidRequest(f"There may be {MOST_STOPS} stop strings at most.", param="stop")
    if not all(stop):
        raise InvalidRequest("A stop string may not be empty.", param="stop")
    return stop


def sampling_defaults(
    generation: Mapping[str, Any], flags: Mapping[str, object]
) -> dict[str, object]:
    """The server's sampling defaults: `flags` (by Sampling's names, None: not set) over what the
    model's generation_config says. Raises ModelError when that is out of range.

    A model that says it samples, but not at which temperature, means 1; one that says it does
    not sample means 0; one that says nothing is greedy, which is Sampling's own default.
    """
    found: dict[str, object] = {}
    for name in GENERATION_FIELDS:
        value = generation.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ModelError(f"generation_config.json: {name} is {value!r}, not a number.")
        try:
            check_range(name, value)
        except InvalidRequest as error:
            raise ModelError(f"generation_config.json: {error}") from error
        found[name] = value
    samples = generation.get("do_sample")
    if samples is False:
        found["temperature"] = 0.0
    elif samples is True:
        found.setdefault("temperature", 1.0)
    return found | {name: value for name, value in flags.items() if value is not None}
