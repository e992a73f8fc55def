"""Which lane a request takes, and why: one pure decision that nobody makes again later."""

from __future__ import annotations

from slipstream.contracts.errors import ContextExceeded, InvalidRequest
from slipstream.contracts.placement import (
    AUTOREGRESSIVE,
    Abilities,
    Lane,
    Needs,
    Placement,
    Reason,
)
from slipstream.contracts.row import Prompt


def place(needs: Needs, abilities: Abilities) -> Placement:
    """The lane, the method and every reason against the group, in a fixed order.

    Raises InvalidRequest, naming the field, when no lane could run the request.
    """
    refuse_impossible(needs, abilities)
    reasons: list[Reason] = []
    if needs.solo:
        reasons.append(Reason.REQUESTED)
    if abilities.obstacle is not None:
        reasons.append(abilities.obstacle)
    if abilities.method != AUTOREGRESSIVE:
        reasons.append(Reason.METHOD_NOT_AUTOREGRESSIVE)
    distinct = tuple(dict.fromkeys(reasons))
    lane = Lane.SOLO if distinct else Lane.GROUP
    return Placement(lane=lane, method=abilities.method, reasons=distinct)


def refuse_impossible(needs: Needs, abilities: Abilities) -> None:
    """Raises InvalidRequest for what the loaded model cannot do on any lane."""
    for name in (use.name for use in needs.adapters):
        if name not in abilities.adapters:
            mounted = ", ".join(sorted(abilities.adapters)) or "none"
            raise InvalidRequest(
                f"The adapter {name!r} is not mounted. Mounted adapters: {mounted}.",
                param="adapter",
            )
    if needs.media and not abilities.media:
        raise InvalidRequest(
            "This model reads text only; send the messages without images, audio or video.",
            param="messages",
        )
    if needs.states and not abilities.states:
        raise InvalidRequest(
            "This model makes no embeddings here: no projection to the vocabulary was found in "
            "it, and so not the states before it.",
            param="model",
        )


def refuse_too_long(prompt: Prompt, abilities: Abilities) -> None:
    """Raises InvalidRequest, with the numbers, for a row that this memory can never hold."""
    most, tokens = abilities.context, len(prompt.ids)
    if most is None or tokens + prompt.max_tokens <= most:
        return
    if tokens >= most:
        raise ContextExceeded(tokens, most, param="prompt", by_memory=True)
    raise InvalidRequest(
        f"The prompt has {tokens} tokens and max_tokens is {prompt.max_tokens}, but this memory "
        f"holds {most} tokens of one request. Set max_tokens to at most {most - tokens}, raise "
        "--kv-budget, or choose a smaller --kv-scheme.",
        param="max_tokens",
        code="context_length_exceeded",
    )
