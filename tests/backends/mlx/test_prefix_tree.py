"""The tree gives what a plain list of whole prefixes gives, and counts every byte it holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.backends.mlx.prefix.tree import SPARE, Node, PrefixTree, shared


@dataclass(frozen=True)
class Tokens:
    """A piece that is its own tokens, so that what comes back can be checked."""

    ids: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return 10 * len(self.ids)

    def cut(self, tokens: int) -> tuple[Tokens, Tokens]:
        return Tokens(self.ids[:tokens]), Tokens(self.ids[tokens:])


@dataclass(frozen=True)
class State:
    """A snapshot that knows what it is a state of."""

    ids: tuple[int, ...]
    nbytes: int = 7


sequences = st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple)
spaces = st.sampled_from(["a", "b"])
actions = st.one_of(
    st.tuples(st.just("insert"), spaces, sequences, st.booleans()),
    st.tuples(st.just("find"), spaces, sequences, st.integers(0, 12)),
    st.tuples(st.just("evict"), st.integers(0, 400)),
)


def nodes(tree: PrefixTree) -> Iterator[Node]:
    waiting = list(tree._roots.values())
    while waiting:
        node = waiting.pop()
        waiting += node.children.values()
        yield node


def check_books(tree: PrefixTree) -> None:
    assert tree.nbytes == sum(node.nbytes for node in nodes(tree))
    assert tree.entries == sum(node.parent is not None for node in nodes(tree))
    for node in nodes(tree):
        for first, child in node.children.items():
            assert child.ids[0] == first
            assert child.parent is node
            assert child.used <= node.used or node.parent is None


def put(tree: PrefixTree, space: str, ids: tuple[int, ...], snapshot: bool) -> None:
    tree.insert(space, ids, lambda a, b: Tokens(ids[a:b]), State(ids) if snapshot else None)


@settings(max_examples=300, deadline=None)
@given(steps=st.lists(actions, max_size=30), need=st.booleans())
def test_hits_are_true_and_as_long_as_what_is_held_allows(steps: list[tuple], need: bool) -> None:
    tree = PrefixTree(need_snapshots=need)
    held: set[tuple[str, tuple[int, ...], bool]] = set()
    evicted = False
    for step in steps:
        if step[0] == "insert":
            _, space, ids, snapshot = step
            put(tree, space, ids, snapshot)
            held.add((space, ids, snapshot))
        elif step[0] == "find":
            _, space, ids, limit = step
            hit = tree.find(space, ids, limit)
            best = longest(held, space, ids[:limit], need)
            assert hit.length == best if not evicted else hit.length <= best
            joined = sum((piece.ids for piece in hit.pieces), ())
            assert joined[: hit.length] == ids[: hit.length]
            if need and hit.length:
                assert hit.snapshot.ids == ids[: hit.length]
        else:
            tree.evict(step[1])
            evicted = evicted or tree.nbytes == step[1] or bool(held)
            assert tree.nbytes <= step[1]
        check_books(tree)


def longest(
    held: set[tuple[str, tuple[int, ...], bool]], space: str, ids: tuple[int, ...], need: bool
) -> int:
    """The plain twin: look at everything that was ever inserted."""
    if need:
        whole = [own for s, own, snapshot in held if s == space and snapshot]
        return max((len(own) for own in whole if ids[: len(own)] == own), default=0)
    return max((shared(own, ids) for s, own, _ in held if s == space), default=0)


def test_what_was_used_last_stays_longest() -> None:
    tree = PrefixTree(need_snapshots=False)
    for first in range(3):
        put(tree, "a", (first, 9, 9), False)
    tree.find("a", (0, 9, 9), 3)
    tree.evict(30)
    assert tree.find("a", (0, 9, 9), 3).length == 3
    assert tree.find("a", (1, 9, 9), 3).length == tree.find("a", (2, 9, 9), 3).length == 0


def test_a_shared_beginning_is_held_once() -> None:
    tree = PrefixTree(need_snapshots=False)
    put(tree, "a", (1, 2, 3, 4), False)
    put(tree, "a", (1, 2, 3, 5), False)
    assert tree.nbytes == 50
    assert tree.entries == 3


def test_looking_up_walks_the_prompt_and_not_the_tree() -> None:
    walked = {}
    for entries in (100, 10_000):
        tree = PrefixTree(need_snapshots=False)
        for number in range(entries):
            put(tree, "a", (number, *range(20)), False)
        walked[entries] = len(list(tree._walk("a", (entries - 1, *range(20)))))
    assert walked[100] == walked[10_000] == 1


def test_hits_without_end_leave_nothing_behind() -> None:
    tree = PrefixTree(need_snapshots=False)
    put(tree, "a", (1, 2, 3), False)
    for _ in range(1000):
        tree.find("a", (1, 2, 3), 3)
    assert len(tree._leaves) <= SPARE + 2 * tree.entries


def test_a_tenant_that_was_evicted_leaves_nothing_behind() -> None:
    tree = PrefixTree(need_snapshots=False)
    for number in range(50):
        put(tree, f"tenant {number}", (1, 2, 3), False)
        put(tree, f"tenant {number}", (1, 2, 4), False)
    tree.evict(0)
    assert list(nodes(tree)) == []


def test_what_was_used_often_is_dropped_as_soon_as_it_is_its_turn() -> None:
    tree = PrefixTree(need_snapshots=False)
    for first in range(5):
        put(tree, "a", (first, 9, 9), False)
        for _ in range(100):
            tree.find("a", (first, 9, 9), 3)
    for first in (3, 1, 4, 0, 2):
        tree.find("a", (first, 9, 9), 3)
    for gone in (3, 1, 4, 0, 2):
        tree.evict(tree.nbytes - 1)
        assert tree.find("a", (gone, 9, 9), 3).length == 0


@given(one=sequences, two=sequences)
def test_shared_is_the_common_beginning(one: tuple[int, ...], two: tuple[int, ...]) -> None:
    count = 0
    while count < min(len(one), len(two)) and one[count] == two[count]:
        count += 1
    assert shared(one, two) == count
