"""Links of trees: depths, and what a state must be for the core to follow it."""

import numpy as np
import pytest

from streamtree._core.store.checks import StateError, check_links
from streamtree._core.store.links import TreeLinks

FIELDS = ("parent", "left", "right", "next")


def links_of(*children):
    """Links of a tree, given as the list of the children of every node."""
    links = TreeLinks().state()
    links = np.resize(links, len(children))
    links[:] = (-1, -1, -1, -1)
    for node, below in enumerate(children):
        if below:
            links["left"][node], links["right"][node] = below[0], below[-1]
            links["parent"][below] = node
            links["next"][below] = [*below[1:], -1]
    return links


BINARY = links_of([3, 4], [], [], [2, 1], [])
MANY = links_of([5, 2, 1], [], [3], [4], [], [])


def test_a_new_tree_is_a_root():
    assert TreeLinks().state().tolist() == [(-1, -1, -1, -1)]
    assert TreeLinks().depths().tolist() == [0]


@pytest.mark.parametrize(
    ("links", "depths"), [(BINARY, [0, 2, 2, 1, 1]), (MANY, [0, 1, 1, 2, 3, 1])]
)
def test_depths_with_and_without_a_walk(links, depths):
    tree = TreeLinks()
    tree.take_state(links)
    assert tree.state().tobytes() == links.tobytes()
    assert tree.depths().tolist() == check_links(links, binary=False).tolist() == depths


def test_random_trees_are_accepted():
    rng = np.random.default_rng(0)
    for size in [1, 2, 3, 10, 100, 1000]:
        children = [[] for _ in range(size)]
        depths = np.zeros(size, dtype=int)
        for node in range(1, size):
            parent = int(rng.integers(max(0, node - 5), node))
            children[parent].insert(int(rng.integers(len(children[parent]) + 1)), node)
            depths[node] = depths[parent] + 1
        assert (check_links(links_of(*children), binary=False) == depths).all()


def test_nodes_beside_the_tree_and_numbers_of_children():
    apart = np.append(BINARY, links_of([]))
    assert check_links(apart, spare=True).tolist() == [0, 2, 2, 1, 1, 0]
    with pytest.raises(StateError, match="beside"):
        check_links(apart)
    for links in (MANY, links_of([1], [])):
        with pytest.raises(StateError, match="two children"):
            check_links(links)


def test_cycles_are_found():
    # a chain of two below each other, apart from the root
    cycle = links_of([], [2], [])
    cycle[1], cycle[2] = (2, 2, 2, -1), (1, 1, 1, -1)
    with pytest.raises(StateError, match="a cycle"):
        check_links(cycle, spare=True, binary=False)


@pytest.mark.parametrize("spare", [False, True])
@pytest.mark.parametrize("links", [BINARY, MANY])
def test_no_link_may_be_another(links, spare):
    """With one link changed a tree is none, whatever else is allowed of it."""
    for node in range(len(links)):
        for field in FIELDS:
            for other in range(-2, len(links) + 1):
                wrong = links.copy()
                wrong[field][node] = other
                if other != links[field][node]:
                    with pytest.raises(StateError):
                        check_links(wrong, spare=spare, binary=False)
