"""What the engine needs of a device. It says which row advances by how many tokens; no tensors.

All methods are called on the device thread, and only there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from slipstream.contracts.adapters import Adapters
from slipstream.contracts.errors import Fault
from slipstream.contracts.placement import Abilities
from slipstream.contracts.row import Ranked, RowSpec, Scored


class Row(Protocol):
    """One sequence on the device. It owns its caches, alone, for life."""

    @property
    def spec(self) -> RowSpec: ...

    @property
    def pending(self) -> int:
        """Tokens known but not yet computed: the unread prompt at first, 1 while decoding.

        A launched draw counts as a known token, so pending never waits for a read."""
        ...

    @property
    def cached(self) -> int:
        """Prompt tokens that were taken from a prefix instead of computed."""
        ...


@dataclass(frozen=True, slots=True)
class Advance:
    """`row` moves on by `tokens`, 1 <= tokens <= row.pending. Reaching 0 pending draws a token."""

    row: Row
    tokens: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """One token drawn for a row, or the fault that ends it."""

    row: Row
    token: int
    logprob: float | None = None
    top: tuple[Ranked, ...] = ()
    scored: tuple[Scored, ...] = ()  # the prompt's tokens, with the row's first draw
    forced: bool = False  # it was certain and rides along: no draw was launched for it
    fault: Fault | None = None
    vector: bytes = b""  # in place of a token, where the prompt has pooling


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixStats:
    """The prefix cache; `bytes` and `ssd_bytes` are held now, `dirty` entries not yet on disk."""

    entries: int = 0
    bytes: int = 0
    hits: int = 0
    misses: int = 0
    hit_tokens: int = 0
    ssd_bytes: int = 0
    ssd_hits: int = 0
    dirty: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of the prefix tree: `tokens` tokens after the first `start` of a prompt.

    `bytes` are its own, `subtree` those of it and all that goes on from it; `hits` are prompts
    that began with it. `parent` is the index of the stretch before it in the same list, or -1."""

    start: int
    tokens: int
    bytes: int
    subtree: int
    hits: int
    parent: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes. `kv` is what live rows hold now, `kv_budget` what they may hold together. `segments`
    are the heaviest of the prefix tree, parents first."""

    weights: int = 0
    kv: int = 0
    kv_budget: int = 0
    prefix_ram: int = 0
    active: int = 0
    peak: int = 0
    budget: int = 0
    prefix: PrefixStats = field(default_factory=PrefixStats)
    segments: tuple[Segment, ...] = ()


class Backend(Protocol):
    @property
    def abilities(self) -> Abilities: ...

    def project(self, spec: RowSpec) -> int:
        """Bytes of the row of `spec` at its full length, prompt and max_tokens, at most."""
        ...

    def open(self, spec: RowSpec) -> Row | None:
        """Takes `spec` and makes its row; what the prefix cache has of its prompt is computed
        already (`row.cached`). None while that is on its way from a disk: to be asked again in
        the next turn, or never. Raises Fault; then, and with None, it holds nothing of `spec`."""
        ...

    def keep(self, row: Row) -> None:
        """Copies what `row` has computed of its prompt into the prefix cache, where there is one,
        for rows that begin alike. Nothing of the row may be in flight."""
        ...

    def fork(self, row: Row, spec: RowSpec) -> Row:
        """As `open`, for a prompt equal to `row`'s: begins with all that `row` has computed.

        `row` has drawn nothing, has a token pending and no launch in flight; it stays as it is.
        Raises as `open` does."""
        ...

    def launch(self, plan: Sequence[Advance]) -> None:
        """Builds and starts one forward over all rows of `plan`, without waiting for it.

        Raises ForwardFault: no row of the plan may be used before `rewind`."""
        ...

    def collect(self, keep: int) -> Sequence[Drawn]:
        """Reads launches, oldest first, until at most `keep` are in flight.

        Draws of released rows are dropped. Raises ForwardFault as `launch` does; then every
        launch in flight is dropped, and every row in one needs `rewind`."""
        ...

    def rewind(self, row: Row, drawn: Sequence[int]) -> None:
        """Forgets what `row` computed; its known tokens become the prompt and `drawn`."""
        ...

    def release(self, row: Row) -> None:
        """Frees what the row holds, or hands it to the prefix cache. Idempotent; never raises."""
        ...

    def park(self) -> None:
        """Makes the state of all rows rest in finished arrays, before exclusive work."""
        ...

    def memory(self) -> Memory: ...

    def close(self) -> None: ...


class Adapting(Backend, Protocol):
    """A backend whose rows can run with adapters."""

    @property
    def adapters(self) -> Adapters: ...
