"""How one model's answers are read, and how they are bound: its reasoning and its tool calls.

It does not know ids but for those of markers, and nothing of what is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slipstream.contracts.completion import Completion, GrammarText, ToolMode
from slipstream.contracts.errors import InvalidRequest
from slipstream.text.grammar_source import CALLS_KIND
from slipstream.text.grammar_thinking import Lead
from slipstream.text.parts import Plain, Reader
from slipstream.text.reasoning import HARMONY, Dialect, Thinking, choose, variables
from slipstream.text.template import ChatTemplate
from slipstream.text.tokenizer import Tokenizer
from slipstream.text.tools import families
from slipstream.text.tools.binding import binding
from slipstream.text.tools.harmony import Harmony
from slipstream.text.tools.stage import ToolStage
from slipstream.text.tools.syntax import Syntax, Toolbox


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of the answers to one prompt before they come. One for all choices."""

    reader: Callable[[], Reader] = Plain
    keep: frozenset[int] = frozenset()  # special tokens that the reader must see
    lead: Lead | None = None  # before what a grammar binds


class Answers:
    """Fixed by what a template and a tokenizer declare; see `families` and `reasoning`."""

    def __init__(self, template: ChatTemplate, tokenizer: Tokenizer) -> None:
        def is_token(text: str) -> bool:
            return tokenizer.id_of(text) is not None

        self._template = template
        self._tokenizer = tokenizer
        self.form = families.choose(template.text, is_token)
        self.harmony = not isinstance(self.form, Syntax)
        self.dialect: Dialect | None = HARMONY if self.harmony else choose(template.text, is_token)
        self.ends = frozenset(self._special(self.form.ends).values())

    def variables(self, asked: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """What the template gets for `asked`, and the names in it that change nothing there."""
        return variables(asked, self._template.reads, self._template.text)

    def grammar(self, completion: Completion) -> GrammarText | None:
        """What the whole answer is bound to, its calls included. Raises InvalidRequest."""
        choice = completion.tool_choice
        names = [tool["function"]["name"] for tool in completion.tools]
        if choice.mode is ToolMode.NAMED and choice.name not in names:
            raise InvalidRequest(
                f"tool_choice names {choice.name!r}, which is not among the tools.",
                param="tool_choice",
            )
        return binding(completion, self.form, self._special(self.form.markers))

    def answer(self, completion: Completion, prompt: str, bound: GrammarText | None) -> Answer:
        """How to read the answers to a conversation that was rendered as `prompt`."""
        choice = completion.tool_choice
        single = not choice.parallel or choice.mode is ToolMode.NAMED
        offered = bool(completion.tools) and choice.mode is not ToolMode.NONE
        markers = self.form.markers if offered or self.harmony else ()
        if self.dialect is not None:
            markers = (*markers, self.dialect.begin, self.dialect.end)
        opened = self._opened(completion, prompt)
        toolbox = Toolbox(completion.tools)

        def reader() -> Reader:
            form, dialect = self.form, self.dialect
            if not isinstance(form, Syntax):
                return Harmony(single=single)
            inner = ToolStage(form, toolbox, single=single) if offered else Plain()
            if dialect is None:
                return inner
            return Thinking(dialect, inner, opened=opened, fresh=not completion.continue_final)

        lead = None if bound is None else self._lead(completion, prompt, opened, bound)
        return Answer(reader, frozenset(self._special(markers).values()), lead)

    def _opened(self, completion: Completion, prompt: str) -> bool:
        """Whether the answer begins within reasoning."""
        if self.dialect is None:
            return False
        if completion.continue_final and completion.messages:
            last = completion.messages[-1].get("content")
            text = last if isinstance(last, str) else ""
            return text.rfind(self.dialect.begin) > text.rfind(self.dialect.end)
        return prompt.rstrip().endswith(self.dialect.begin)

    def _lead(
        self, completion: Completion, prompt: str, opened: bool, bound: GrammarText
    ) -> Lead | None:
        """The reasoning that may or must come before what is bound."""
        dialect = self.dialect
        if dialect is None or (completion.continue_final and not opened):
            return None
        begin: tuple[int, ...] = ()
        if dialect.always:
            begin = tuple(self._tokenizer.encode(dialect.begin, add_special_tokens=False))
        elif not opened:
            index = self._tokenizer.id_of(dialect.begin)
            if index is None or prompt.rstrip().endswith(dialect.end):
                return None
            begin = (index,)
        final = "" if bound.kind == CALLS_KIND else self.form.final
        after = tuple(self._tokenizer.encode(final, add_special_tokens=False)) if final else ()
        return Lead(begin, dialect.always, dialect.end.encode(), after, self._tokenizer.token_bytes)

    def _special(self, markers: tuple[str, ...]) -> dict[str, int]:
        """The ids of those markers that are special tokens."""
        found = {marker: self._tokenizer.id_of(marker) for marker in markers}
        special = self._tokenizer.special_ids
        return {marker: index for marker, index in found.items() if index in special}
