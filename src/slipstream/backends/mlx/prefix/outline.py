"""The prefix tree in outline, for people: its heaviest branches, with what they hold and save.

The whole tree is walked, so it is drawn only when somebody may look: see Outline.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from slipstream.backends.mlx.prefix.tree import Node, PrefixTree
from slipstream.contracts.backend import Segment

MOST = 24  # segments
AGAIN = 32  # looks at a busy tree until it is walked anew, at least
SHARE = 8  # entries of a tree for one look more: a long walk is made less often


class Outline:
    """Borrows `tree`."""

    def __init__(self, tree: PrefixTree) -> None:
        self._tree = tree
        self._drawn: tuple[Segment, ...] = ()
        self._looks = 0

    def look(self, *, busy: bool) -> tuple[Segment, ...]:
        """The heaviest segments, parents first. While rows run (`busy`), as they were some looks
        ago: a look comes with every turn."""
        self._looks += 1
        if not busy or self._looks > max(AGAIN, self._tree.entries // SHARE):
            self._looks = 0
            self._drawn = heaviest(self._tree.roots)
        return self._drawn


@dataclass(slots=True, eq=False)
class Branch:
    node: Node
    start: int
    above: Branch | None
    subtree: int


def heaviest(roots: Iterable[Node], most: int = MOST) -> tuple[Segment, ...]:
    """The `most` nodes with the heaviest subtrees. A parent weighs no less than its child, so
    every node's parent is among them."""
    found: list[Branch] = []
    for root in roots:
        for child in root.children.values():
            found.append(Branch(child, 0, None, child.nbytes))
    for branch in found:  # grows while it is walked, parents first
        below = branch.start + len(branch.node.ids)
        for child in branch.node.children.values():
            found.append(Branch(child, below, branch, child.nbytes))
    for branch in reversed(found):
        if branch.above is not None:
            branch.above.subtree += branch.subtree
    order = {id(branch): place for place, branch in enumerate(found)}
    chosen = heapq.nlargest(most, found, key=lambda one: (one.subtree, -order[id(one)]))
    index = {id(branch): place for place, branch in enumerate(chosen)}
    return tuple(
        Segment(
            start=branch.start,
            tokens=len(branch.node.ids),
            bytes=branch.node.nbytes,
            subtree=branch.subtree,
            hits=branch.node.hits,
            parent=-1 if branch.above is None else index[id(branch.above)],
        )
        for branch in chosen
    )
