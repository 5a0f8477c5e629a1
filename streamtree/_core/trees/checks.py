"""What must hold of the states of trees that are one module each."""

import numpy as np

from streamtree._core.splits.checks import check_searches
from streamtree._core.store.checks import (
    check_counts,
    check_finite,
    check_links,
    check_tables,
    require,
)
from streamtree._core.trees.tree import BEYOND_TARGETS, check_targets

# of a part of an additive model: of so many rows values of 5 with weights of 10 are summed up
MOST_SQUARES = 1e7


def check_additive(state, n_columns, most_parts, n_knots):
    """Raise StateError unless an AdditiveMeans can trust a state."""
    keys, products, ends = state["keys"], state["products"], state["range"]
    n, (low, high) = len(keys), ends if ends.shape == (2,) else (1.0, 0.0)
    require(keys.shape == (n,) and n <= most_parts, "the parts of an additive model")
    require(len(np.unique(keys)) == n, "the parts of an additive model")
    beyond = np.where(keys % 2, 2 * n_knots * n_columns, 2 * (n_columns + 1))
    require(((keys >= 0) & (keys < beyond)).all(), "a part of an additive model")
    require(state["weights"].shape == state["slopes"].shape == (n,), "the weights of parts")
    check_finite(state["weights"])
    check_finite(state["slopes"])
    require(products.shape == (n, n), "the products of parts")
    check_finite(products)
    # what is no sum of products of these parts might let weights run away
    squares = products.diagonal()
    require(((squares >= 0.0) & (squares < MOST_SQUARES)).all(), "the products of parts")
    largest = np.sqrt(np.outer(squares, squares))
    require((np.abs(products) <= (1.0 + 1e-6) * largest + 1e-9).all(), "the products of parts")
    require(np.allclose(products, products.T, rtol=1e-6), "the products of parts")
    check_targets(state["targets"])
    require(-BEYOND_TARGETS < low <= high < BEYOND_TARGETS, "the range of the targets")
    check_counts(state["rows"])
    require(state["rows"] < 2**62, "the rows of an additive model")


def check_frequencies(state, n_outputs, memory):
    """Raise StateError unless a FrequencyTree can trust a state."""
    counts, weight = state["counts"], state["weight"]
    require(counts.ndim == 1 and len(counts) <= n_outputs, "the frequencies of labels")
    check_finite(counts, at_least=0.0)
    require(0.0 <= weight < 1.001 * memory, "the weight of labels")
    require(abs(counts.sum() - weight) <= 1e-6 * memory, "the weight of labels")


def check_lom_tree(state, n_columns, n_outputs, widths):
    """Raise StateError unless a LOMtree can trust a state; `widths` are those of its records."""
    nodes, left = state["nodes"], state["links"]["left"]
    check_links(state["links"])
    require(len(nodes) == len(left), "the number of nodes")
    check_tables(state["models"], len(nodes), n_columns, widths["models"])
    check_tables(state["classes"], len(nodes), n_outputs, widths["classes"])
    n_known = len(state["passages"]["capacities"])
    require(n_known <= n_outputs, "the labels of passages")
    check_tables(state["passages"], n_known, len(nodes), widths["passages"])
    check_counts(state["n_splits"], state["n_swaps"])
    require(2 * state["n_splits"] + 1 == len(nodes), "the number of splits")
    check_finite(
        nodes, "trained", "right", "size", "votes", "majority_votes", "next_test", at_least=0
    )
    check_majorities(nodes, n_outputs)


def check_model_tree(state, n_columns, n_outputs, models):
    """Raise StateError unless a ModelTree can trust a state; `models` are those of its leaves."""
    nodes, left = state["nodes"], state["links"]["left"]
    check_links(state["links"])
    require(len(nodes) == len(left), "the number of nodes")
    check_finite(nodes, "votes", "majority_votes", at_least=0)
    check_finite(nodes, "threshold")
    columns = nodes["column"]
    is_leaf = left < 0
    require((columns[is_leaf] == -1).all(), "a split of a leaf")
    inner = columns[~is_leaf]
    require(((inner >= 0) & (inner < n_columns)).all(), "a column of a split")
    check_majorities(nodes, n_outputs)
    check_tables(state["classes"], len(nodes), n_outputs, 1)
    leaves = set(is_leaf.nonzero()[0].tolist())
    check_searches(state["searches"], leaves, n_columns)
    modelled = models.check_state(state["leaves"], len(nodes), n_columns, n_outputs)
    require(leaves <= modelled, "a leaf's model")


def check_majorities(nodes, n_outputs):
    """Check the classes of most votes."""
    # a model that has learned something has a majority in every node
    known = nodes["majority"] >= 0 if nodes["votes"].any() else nodes["majority"] == -1
    require((known & (nodes["majority"] < n_outputs)).all(), "the majority of a node")
