"""A radix tree over token ids whose edges carry state, least recently used leaves out first.

Knows nothing of tensors: a Piece is the state of an edge's tokens and can be cut anywhere; a
Snapshot is the state at one length and cannot. Look-up costs what the prompt costs, not the tree.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

from slipstream.contracts.sequences import shared


class Piece(Protocol):
    """Immutable. The state of some consecutive tokens."""

    @property
    def nbytes(self) -> int: ...

    def cut(self, tokens: int) -> tuple[Self, Self]:
        """The state of the first `tokens` tokens, and of the rest."""
        ...


class Snapshot(Protocol):
    """Immutable. The state after some number of tokens."""

    @property
    def nbytes(self) -> int: ...


@dataclass(slots=True, eq=False)
class Node:
    """`ids` lead here from the parent. Snapshots are keyed by how many of `ids` lie before them."""

    ids: tuple[int, ...]
    piece: Piece
    parent: Node | None
    space: object = None  # of a root
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    children: dict[int, Node] = field(default_factory=dict)
    used: int = 0
    hits: int = 0
    gone: bool = False

    @property
    def nbytes(self) -> int:
        return self.piece.nbytes + sum(s.nbytes for s in self.snapshots.values())


Listed = tuple[int, int, Node]
"""A leaf, before it when it was used and a number."""
SPARE = 64  # entries of the heap of leaves that may be stale


@dataclass(frozen=True, slots=True)
class Hit:
    """`length` tokens of a prompt are known: the pieces up to there, the last one possibly longer
    than needed, and the snapshot at `length` where there is one."""

    length: int
    pieces: tuple[Piece, ...]
    snapshot: Snapshot | None


class PrefixTree:
    """`need_snapshots`: a prefix can only end where there is one. Owns pieces and snapshots."""

    def __init__(self, *, need_snapshots: bool) -> None:
        self._need_snapshots = need_snapshots
        self._roots: dict[object, Node] = {}
        self._clock = itertools.count(1)
        self._leaves: list[Listed] = []  # a heap; stale entries are skipped
        self._numbers = itertools.count()
        self.nbytes = 0
        self.entries = 0

    def find(self, space: object, ids: Sequence[int], limit: int) -> Hit:
        """The longest usable prefix of `ids`, at most `limit` tokens; marks it as used."""
        walked = list(self._walk(space, tuple(ids[:limit])))
        length, snapshot = self._usable(walked)
        self._touch([node for node, _ in walked])
        pieces, covered = [], 0
        for node, taken in walked:
            if covered >= length:
                break
            node.hits += 1
            pieces.append(node.piece)
            covered += taken
        return Hit(length, tuple(pieces), snapshot)

    def path(self, space: object, ids: Sequence[int]) -> list[tuple[Node, int]]:
        """The nodes along `ids`, with how many of their tokens agree. Marks nothing."""
        return list(self._walk(space, tuple(ids)))

    def matched(self, space: object, ids: Sequence[int]) -> int:
        """How many tokens of `ids` have a piece, usable or not. Marks nothing."""
        return sum(taken for _, taken in self._walk(space, tuple(ids)))

    @property
    def roots(self) -> Iterable[Node]:
        """One for each space; they hold nothing themselves."""
        return self._roots.values()

    def insert(
        self,
        space: object,
        ids: Sequence[int],
        piece: Callable[[int, int], Piece],
        snapshot: Snapshot | None = None,
    ) -> None:
        """Remembers the state of `ids`. `piece(start, stop)` is called for the part that is new.

        Takes what `piece` returns, and `snapshot`, the state after all of `ids`."""
        ids = tuple(ids)
        node, depth = self._roots.get(space), 0
        if node is None:
            node = self._roots[space] = Node((), NOTHING, None, space=space)
        touched = [node]
        while depth < len(ids):
            child = node.children.get(ids[depth])
            if child is None:
                child = self._grow(node, ids[depth:], piece(depth, len(ids)))
            common = shared(child.ids, ids[depth : depth + len(child.ids)])
            if common < len(child.ids):
                child = self._split(child, common)
            node, depth = child, depth + common
            touched.append(node)
        if snapshot is not None and node.parent is not None:
            self._attach(node, snapshot)
        self._touch(touched)

    def evict(self, most: int) -> None:
        """Drops leaves, the least recently used first, until at most `most` bytes are held."""
        while self.nbytes > most and self._leaves:
            entry = heapq.heappop(self._leaves)
            if valid(entry):
                self._drop(entry[-1])

    def _usable(self, walked: Sequence[tuple[Node, int]]) -> tuple[int, Snapshot | None]:
        total = sum(taken for _, taken in walked)
        if not self._need_snapshots:
            return total, None
        for node, taken in reversed(walked):
            total -= taken
            inside = [place for place in node.snapshots if place <= taken]
            if inside:
                return total + max(inside), node.snapshots[max(inside)]
        return 0, None

    def _walk(self, space: object, ids: tuple[int, ...]) -> Iterator[tuple[Node, int]]:
        """Nodes along `ids`, with how many of their tokens agree."""
        node, depth = self._roots.get(space), 0
        while node is not None and depth < len(ids):
            node = node.children.get(ids[depth])
            if node is None:
                return
            taken = shared(node.ids, ids[depth : depth + len(node.ids)])
            yield node, taken
            if taken < len(node.ids):
                return
            depth += taken

    def _grow(self, parent: Node, ids: tuple[int, ...], piece: Piece) -> Node:
        node = parent.children[ids[0]] = Node(ids, piece, parent)
        self.nbytes += node.nbytes
        self.entries += 1
        return node

    def _split(self, node: Node, at: int) -> Node:
        """Puts a node between `node` and its parent; returns it."""
        assert node.parent is not None
        before = node.nbytes
        head, tail = node.piece.cut(at)
        upper = Node(node.ids[:at], head, node.parent, used=node.used, hits=node.hits)
        upper.snapshots = {p: s for p, s in node.snapshots.items() if p <= at}
        node.snapshots = {p - at: s for p, s in node.snapshots.items() if p > at}
        node.parent.children[node.ids[0]] = upper
        node.ids, node.piece, node.parent = node.ids[at:], tail, upper
        upper.children[node.ids[0]] = node
        self.nbytes += upper.nbytes + node.nbytes - before
        self.entries += 1
        return upper

    def _attach(self, node: Node, snapshot: Snapshot) -> None:
        place = len(node.ids)
        if place not in node.snapshots:
            node.snapshots[place] = snapshot
            self.nbytes += snapshot.nbytes

    def _touch(self, nodes: Sequence[Node]) -> None:
        """Marks nodes as used now, deeper ones no later than those above them."""
        now = next(self._clock)
        for node in nodes:
            node.used = now
            if not node.children:
                self._enlist(node)

    def _enlist(self, node: Node) -> None:
        heapq.heappush(self._leaves, (node.used, next(self._numbers), node))
        if len(self._leaves) > SPARE + 2 * self.entries:
            self._leaves = [entry for entry in self._leaves if valid(entry)]
            heapq.heapify(self._leaves)

    def _drop(self, node: Node) -> None:
        parent = node.parent
        node.gone = True
        self.nbytes -= node.nbytes
        if parent is None:
            return
        self.entries -= 1
        del parent.children[node.ids[0]]
        if parent.children:
            return
        if parent.parent is None:
            del self._roots[parent.space]
        else:
            self._enlist(parent)


def valid(entry: Listed) -> bool:
    """Whether a leaf is still one, and was not used since it was listed."""
    used, _, node = entry
    return not node.gone and not node.children and node.used == used


class _Nothing:
    """The piece of a root."""

    nbytes = 0

    def cut(self, tokens: int) -> tuple[_Nothing, _Nothing]:
        return self, self


NOTHING = _Nothing()
