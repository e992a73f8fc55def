"""A Completion becomes a Prompt: ids, sampling, limits and stops resolved, everything checked.

It does not know lanes, devices or HTTP, and reads no settings: defaults are given to it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slipstream.contracts.completion import Completion
from slipstream.contracts.errors import ContextExceeded, InvalidRequest, ModelError
from slipstream.contracts.model import ModelInfo
from slipstream.contracts.placement import Lane, Needs
from slipstream.contracts.row import Prompt
from slipstream.contracts.sampling import SEED_BITS, Sampling, check_range
from slipstream.text.detokenize import Detokenizer
from slipstream.text.echo import Echo
from slipstream.text.grammar import Compiled, GrammarCompiler
from slipstream.text.sink import Sink
from slipstream.text.stops import Stops
from slipstream.text.template import ChatTemplate
from slipstream.text.tokenizer import Tokenizer

MOST_STOPS = 16
GENERATION_FIELDS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
LONG_TEXT = 1 << 18  # characters; a longer text is first counted piece by piece
DENSE_TEXT = 16  # characters per token: no ordinary text packs as many
SLICE = 1 << 16  # characters counted at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A checked request, ready to be placed. Frozen: one for all choices."""

    prompt: Prompt  # without a matcher
    grammar: Compiled | None
    stop: tuple[str, ...]
    choices: int
    tokenizer: Tokenizer
    continues: bool  # the answer goes on in the middle of a text
    echo: Echo | None  # the prompt, when it is to come out first

    def for_choice(self, choice: int) -> Prompt:
        """The prompt of choice `choice` from 0 on: the same, with a seed and a matcher of its
        own."""
        sampling = self.prompt.sampling
        seed = (sampling.seed + choice) % (1 << SEED_BITS) if choice else sampling.seed
        matcher = self.grammar.matcher(self.prompt.stop_ids) if self.grammar else None
        return replace(self.prompt, sampling=replace(sampling, seed=seed), matcher=matcher)

    def sink(self, choice: int = 0) -> Sink:
        """A fresh text chain for one choice."""
        return Sink(
            Detokenizer(self.tokenizer, continues=self.continues),
            Stops(self.stop),
            stop_ids=self.prompt.stop_ids,
            choice=choice,
            echo=self.echo,
        )


def fresh_seed() -> int:
    return secrets.randbits(SEED_BITS)


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
    ) -> None:
        """`defaults`: see `sampling_defaults`. `context` in tokens, enforced."""
        self._tokenizer = tokenizer
        self._template = template
        self._defaults = defaults
        self._vocabulary = info.vocab_size
        self._context = context
        self._max_tokens = max_tokens_default
        self._draw_seed = draw_seed
        own = tokenizer.eos_id  # chat models end turns with it, whatever their config.json says
        ends = [*info.eos_ids] if own is None else [own, *info.eos_ids]
        self._eos = frozenset(ends)
        self._grammars = GrammarCompiler(tokenizer, dict.fromkeys(ends), info.vocab_size)

    def close(self) -> None:
        """Lets go of grammars that wait to be compiled."""
        self._grammars.close()

    async def grammar(self, completion: Completion) -> Compiled | None:
        """What `prepare` wants beside a completion that has a grammar, compiled off the loop.

        Raises InvalidRequest, and QueueFull when too many wait for theirs."""
        if completion.grammar is None:
            return None
        if completion.ignore_eos:
            raise InvalidRequest(
                f"ignore_eos cannot be joined with {completion.grammar.param}: "
                "what is bound to a form ends with it.",
                param="ignore_eos",
            )
        return await self._grammars.compile(completion.grammar)

    def prepare(self, completion: Completion, grammar: Compiled | None = None) -> Prepared:
        """`grammar` is what `grammar()` made of the completion's own.

        Raises InvalidRequest, and ContextExceeded when there is no room for one token more."""
        assert (grammar is None) == (completion.grammar is None)
        stop = _checked_stops(completion.stop)
        stop_ids = self._stop_ids(completion, stop)
        sampling = Sampling.resolve(completion.sampling, self._defaults, self._draw_seed())
        self._check_ids(sampling.logit_bias, "logit_bias")
        ids = self.ids(completion)
        if completion.max_tokens is not None and completion.max_tokens < 1:
            raise InvalidRequest("max_tokens must be at least 1.", param="max_tokens")
        room = self._context - len(ids)
        if room < 1:
            raise ContextExceeded(len(ids), self._context, param=completion.prompt_param)
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
                adapters=tuple(name for name, _ in completion.adapters),
            ),
            priority=completion.priority,
            cache_salt=completion.cache_salt,
        )
        return Prepared(
            prompt=prompt,
            grammar=grammar,
            stop=stop,
            choices=completion.choices,
            tokenizer=self._tokenizer,
            continues=completion.messages is None or completion.continue_final,
            echo=self._echo(completion, ids) if completion.echo else None,
        )

    def ids(self, completion: Completion) -> tuple[int, ...]:
        """The prompt's ids, at least one, all in the vocabulary; not checked against the context,
        but for a text so long that it cannot fit. Raises InvalidRequest, ContextExceeded."""
        param = completion.prompt_param
        if completion.messages is not None:
            found = self._rendered(completion)
        elif completion.text is not None:
            found = self._encode(completion.text, special=True, param=param)
        else:
            found = list(completion.ids or ())
        if not found:
            bos = self._tokenizer.bos_id
            if bos is None:
                raise InvalidRequest("The prompt is empty.", param=param)
            found = [bos]
        self._check_ids(found, param)
        return tuple(found)

    def _rendered(self, completion: Completion) -> list[int]:
        text = self._template.render(
            completion.messages or (),
            tools=completion.tools,
            variables=completion.template_kwargs,
            continue_final=completion.continue_final,
            param=completion.prompt_param,
        )
        ids = self._encode(text, special=False, param=completion.prompt_param)
        bos = self._tokenizer.bos_id
        doubled = bos is not None and ids[:2] == [bos, bos]
        return ids[1:] if doubled else ids

    def _encode(self, text: str, special: bool, param: str) -> list[int]:
        if len(text) > max(LONG_TEXT, DENSE_TEXT * self._context):
            self._refuse_endless(text, param)
        return self._tokenizer.encode(text, add_special_tokens=special)

    def _refuse_endless(self, text: str, param: str) -> None:
        """Counts slices until there are twice as many tokens as can fit, which no seams explain."""
        tokens = 0
        for start in range(0, len(text), SLICE):
            piece = text[start : start + SLICE]
            tokens += len(self._tokenizer.encode(piece, add_special_tokens=False))
            if tokens > 2 * self._context:
                raise ContextExceeded(tokens, self._context, param=param, at_least=True)

    def _stop_ids(self, completion: Completion, stop: Sequence[str]) -> frozenset[int]:
        """The ids that end a row. A stop string that is a special token never shows in the text,
        so it ends the row by its id."""
        self._check_ids(completion.stop_token_ids, "stop_token_ids")
        ids = {*completion.stop_token_ids}
        ids |= self._tokenizer.special_ids.intersection(map(self._tokenizer.id_of, stop))
        return frozenset(ids if completion.ignore_eos else ids | self._eos)

    def _check_ids(self, ids: Iterable[int], param: str) -> None:
        for token in ids:
            if not 0 <= token < self._vocabulary:
                raise InvalidRequest(
                    f"{token} is not a token of this model; ids are 0 to {self._vocabulary - 1}.",
                    param=param,
                )

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
