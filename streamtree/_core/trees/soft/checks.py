"""What must hold of the state of soft trees."""

import numpy as np

from streamtree._core.store.checks import (
    check_counts,
    check_finite,
    check_links,
    check_tables,
    require,
)
from streamtree._core.trees.soft.nodes import GATE_WIDTH, MAX_DEPTH


def check_soft(state, n_columns, n_outputs, is_regression):
    """Raise StateError unless `SoftNodes.take_state` can trust a state."""
    nodes, size = state["nodes"], len(state["nodes"])
    n_classes, unit, seen = state["n_classes"], state["target_unit"], state["target_range"]
    width = 2 * (n_classes if n_classes > 2 else 1)
    check_counts(n_classes, unit["n_units"], seen["n"])
    check_finite(np.array([unit["center"], seen["low"], seen["high"]]))
    check_finite(np.array([unit["factor"]]), at_least=0.0)
    require(n_classes <= (0 if is_regression else n_outputs), "the classes")
    check_tables(state["gates"], size, n_columns, GATE_WIDTH)
    check_tables(state["leaves"], size, n_columns, width)
    require(state["leaf_offsets"].shape == (size, width), "the offsets of the leaves")
    check_counts(state["n_nodes"], state["n_splits"], state["n_collapses"])
    for field in ("windows", "tries"):
        require((nodes[field] >= 0).all(), f"the {field} of a node")
    depths = check_links(state["links"], spare=True)
    require(len(depths) == size, "the number of nodes")
    require(depths.max() <= MAX_DEPTH, "the depth")
    require(-1 <= state["newest"] < size, "the newest node")
    _check_pairs(state, depths)


def _check_pairs(state, depths):
    """Every pair of nodes has one owner: an inner node, a leaf, or the list of free pairs."""
    links, pair = state["links"], state["nodes"]["pair"].astype(np.int64)
    size, first = len(pair), state["first_free"]
    is_inner = links["left"] >= 0
    in_tree = links["parent"] >= 0
    in_tree[0] = True
    require(int(in_tree.sum()) == state["n_nodes"], "the number of nodes")
    require(
        (links["left"] == np.where(is_inner, pair, -1)).all()
        and (links["right"] == np.where(is_inner, pair + 1, -1)).all(),
        "the children of a node",
    )
    freed = []
    while first != -1 and len(freed) < size:
        require(type(first) is int and 0 < first < size, "a free pair")
        freed.append(first)
        first = int(pair[first])
    owned = np.concatenate([pair[in_tree & (pair != -1)], np.array(freed, dtype=np.int64)])
    is_whole = np.array_equal(np.sort(owned), np.arange(1, size, 2))
    require(size % 2 == 1 and is_whole, "the pairs of nodes")
    # a leaf grows by the depth that it believes to have
    owners = np.flatnonzero(in_tree & (pair != -1))
    depths[pair[owners]] = depths[pair[owners] + 1] = depths[owners] + 1
    depths[freed] = depths[np.array(freed, dtype=np.int64) + 1] = -1
    require((state["nodes"]["depth"] == depths).all(), "the depth of a node")
    spare = ~in_tree
    spare[freed] = False
    require((pair[spare] == -1).all(), "a pair beside the tree")
