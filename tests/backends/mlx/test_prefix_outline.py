"""The outline of a prefix tree: the heaviest branches, their parents among them, hits counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slipstream.backends.mlx.prefix.outline import AGAIN, Outline, heaviest
from slipstream.backends.mlx.prefix.tree import PrefixTree

from .test_prefix_tree import Tokens, sequences, spaces

growths = st.lists(st.tuples(spaces, sequences), max_size=12)


def grown(growth) -> PrefixTree:
    tree = PrefixTree(need_snapshots=False)
    for space, ids in growth:
        insert(tree, space, ids)
    return tree


def insert(tree: PrefixTree, space: str, ids: tuple[int, ...]) -> None:
    tree.insert(space, ids, lambda start, stop: Tokens(ids[start:stop]))


@given(growths)
def test_the_whole_tree_is_outlined_where_there_is_room(growth):
    tree = grown(growth)
    found = heaviest(tree.roots, most=1000)
    assert len(found) == tree.entries
    assert sum(one.bytes for one in found) == tree.nbytes
    assert sum(one.subtree for one in found if one.parent < 0) == tree.nbytes


@given(growths, st.integers(1, 6))
def test_a_short_outline_is_the_heaviest_part_with_its_parents(growth, most):
    tree = grown(growth)
    every, found = heaviest(tree.roots, most=1000), heaviest(tree.roots, most)
    assert [one.subtree for one in found] == [one.subtree for one in every][:most]
    for place, one in enumerate(found):
        assert one.parent < place
        above = found[one.parent] if one.parent >= 0 else None
        assert one.start == (above.start + above.tokens if above else 0)


def test_hits_are_prompts_that_began_with_it_and_outlive_a_split():
    tree = grown([("a", (1, 2, 3, 4))])
    tree.find("a", (1, 2, 3, 4, 5), 5)
    insert(tree, "a", (1, 2, 9))
    tree.find("a", (1, 2, 9), 3)
    told = {(one.start, one.tokens): one.hits for one in heaviest(tree.roots)}
    assert told == {(0, 2): 2, (2, 2): 1, (2, 1): 1}


def test_a_busy_tree_is_walked_now_and_then_and_a_resting_one_at_once():
    tree = grown([("a", (1, 2))])
    outline = Outline(tree)
    assert len(outline.look(busy=False)) == 1
    insert(tree, "a", (3, 4))
    assert [len(outline.look(busy=True)) for _ in range(AGAIN)] == [1] * AGAIN
    assert len(outline.look(busy=True)) == 2
    insert(tree, "a", (5, 6))
    assert len(outline.look(busy=False)) == 3
