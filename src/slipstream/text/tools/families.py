"""Which form of tool calls a model has, by what its template and its tokenizer declare.

It goes by markers, never by a model's name.
"""

from __future__ import annotations

from collections.abc import Callable

from slipstream.text.tools.deepseek import DEEPSEEK_V3, DEEPSEEK_V31
from slipstream.text.tools.gemma import FUNCTION_GEMMA, GEMMA4
from slipstream.text.tools.glm import GLM, LONGCAT
from slipstream.text.tools.harmony import HARMONY
from slipstream.text.tools.invoke import DEEPSEEK_MARKUP, MINIMAX
from slipstream.text.tools.json_tags import COMMAND, GRANITE, HERMES, HUNYUAN, INTERN, NEMOTRON
from slipstream.text.tools.kimi import KIMI
from slipstream.text.tools.llama import LLAMA, PLAIN
from slipstream.text.tools.mistral import MISTRAL, MISTRAL_LIST
from slipstream.text.tools.pythonic import LIQUID, OLMO, PYTHONIC, TOOL_CODE
from slipstream.text.tools.qwen_coder import QWEN_CODER, SEED
from slipstream.text.tools.syntax import Form

FORMS: tuple[Form, ...] = (
    HARMONY,
    DEEPSEEK_MARKUP,
    DEEPSEEK_V3,
    DEEPSEEK_V31,
    KIMI,
    MINIMAX,
    SEED,
    LONGCAT,
    GEMMA4,
    FUNCTION_GEMMA,
    LIQUID,
    INTERN,
    COMMAND,
    MISTRAL,
    MISTRAL_LIST,
    GRANITE,
    NEMOTRON,
    HUNYUAN,
    GLM,
    QWEN_CODER,
    HERMES,
    OLMO,
    TOOL_CODE,
    PYTHONIC,
    LLAMA,
)
"""The narrower before the wider."""


def choose(template: str, is_token: Callable[[str], bool]) -> Form:
    """The first form that `template` declares; else the first whose opening markers are all
    tokens of the vocabulary; else PLAIN, which needs no marker."""
    for form in FORMS:
        if any(all(sign in template for sign in signs) for signs in form.declared):
            return form
    for form in FORMS:
        if any(all(map(is_token, signs)) for signs in form.declared):
            return form
    return PLAIN
