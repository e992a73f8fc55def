"""What rows that begin alike share: who waits for whose prefix, and where a row rests to be kept.

A row rests when it is at a stop: it does not advance until nothing of it is in flight, and then
its prefix is kept, or forked. Knows nothing of the cache beyond what the backend says it can.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from slipstream.contracts.adapters import AdapterUse
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import Prompt, RowSpec
from slipstream.contracts.sequences import shared
from slipstream.engine.rows import Awaited, Live, Stop

SHARE_LEAST = 64  # tokens that a newcomer must gain by waiting for another row
KEEP_LEAST = 64  # tokens between two lengths of a prompt at which a snapshot is kept
LONG_PROMPT = 256  # tokens that are worth a copy as soon as they are computed


def awaited(newcomer: Live, earlier: Iterable[Live], snapshots: bool) -> Awaited | None:
    """The row whose prefix `newcomer` should wait for, if it gains SHARE_LEAST tokens by it.

    Only rows admitted before it come into question, so none waits for ever or in a circle.
    Those that have been kept already give what they gave without any waiting; what else the
    prefix cache holds is not known here. `snapshots`: a row that has passed the common prefix
    cannot be cut back to it."""
    spec = newcomer.spec
    if spec.lane is not Lane.GROUP or not spec.prompt.shares:
        return None
    known, best = 0, None
    for live in earlier:
        if live.row is None or space(live.spec) != space(spec):
            continue
        common = common_prefix(live.spec.prompt, spec.prompt)
        known = max(known, min(common, live.kept))
        passed = snapshots and live.computed > common
        if live.fills and not passed and (best is None or common > best.stop.length):
            best = Awaited(live.spec.key, Stop(common, keep=True))
    return best if best and best.stop.length >= known + SHARE_LEAST else None


def boundaries(prompt: Prompt, snapshots: bool) -> tuple[int, ...]:
    """Where a prompt is worth keeping while its row goes on, rising; the last is its end, less
    the token that draws.

    What can be cut needs no more than the end, so that others can begin from it before the row is
    done; `snapshots` are needed wherever prompts part."""
    last = len(prompt.ids) - 1
    if prompt.pooling is not None:
        return ()
    if not snapshots:
        return (last,) if last >= LONG_PROMPT else ()
    return tuple(sorted({*(b for b in prompt.boundaries if 0 < b < last), last}))


def next_stops(lives: Collection[Live]) -> dict[int, Stop]:
    """The next stop of each row that fills and has one, by key."""
    found: dict[int, list[Stop]] = {}
    for live in lives:
        if live.row is None and live.awaited is not None:
            found.setdefault(live.awaited.key, []).append(live.awaited.stop)
        if live.fills and (length := boundary(live)):
            found.setdefault(live.spec.key, []).append(Stop(length, keep=True))
    fills = {live.spec.key for live in lives if live.fills}
    return {key: min(stops, key=order) for key, stops in found.items() if key in fills}


def order(stop: Stop) -> tuple[int, bool]:
    """Nearer first; what is kept and forked at one length is kept first."""
    return stop.length, not stop.keep


def boundary(live: Live) -> int | None:
    """The next length of its prompt at which `live` is to be kept."""
    least = live.kept + KEEP_LEAST
    return next((length for length in live.boundaries if length >= least), None)


def space(spec: RowSpec) -> tuple[Lane, str, tuple[AdapterUse, ...]]:
    """What rows must have in common, beside tokens, to share anything."""
    return spec.lane, spec.prompt.cache_salt, spec.prompt.needs.adapters


def common_prefix(one: Prompt, two: Prompt) -> int:
    """Tokens that both begin with; each has at least one more of its own to compute."""
    return min(shared(one.ids, two.ids), len(one.ids) - 1, len(two.ids) - 1)
