"""Which lane a request takes, and why: one pure decision that nobody makes again later."""

from __future__ import annotations

from slipstream.contracts.errors import InvalidRequest
from slipstream.contracts.placement import (
    AUTOREGRESSIVE,
    Abilities,
    Lane,
    Needs,
    Placement,
    Reason,
)


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
    for name in needs.adapters:
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
