"""What must hold of the state of prediction trees."""

import numpy as np

from streamtree._core.splits.checks import check_statistics
from streamtree._core.splits.predicates import MISSING, Predicate
from streamtree._core.store.checks import check_finite, require
from streamtree._core.trees.prediction.nodes import NodeState


def check_nodes(state, n_columns, n_outputs, of_numbers):
    """Raise StateError unless `PredictionNodes.take_state` can trust a state."""
    nodes, parents = state["nodes"], state["parents"]
    size, width = len(nodes), 3 if of_numbers else n_outputs
    require(0 < size < 2**31 and parents.shape == (size,), "the nodes")
    if not of_numbers and len(state["counts"]):
        # there may be labels that nodes found no room for
        width = min(width, state["counts"].shape[1])
        has_learned = bool(nodes["weight"].any())
        require(width > 0 or n_outputs == 0 or not has_learned, "the labels of the nodes")
        n_outputs = width
    for part in ("counts", "values"):
        require(state[part].shape == (size, width), f"the {part} of the nodes")
        check_finite(state[part])
    check_finite(nodes, "weight", "weight_squares", at_least=0.0)
    # children are made after their parents
    below = np.arange(size) > parents
    require(parents[0] == -1 and below.all() and (parents[1:] >= 0).all(), "a parent")
    above, keys, most = nodes[parents[1:]], nodes["key"][1:], max(n_columns, 2)
    require((keys >= MISSING).all() and (keys < most).all(), "a branch")
    places = np.sort(parents[1:].astype(np.int64) * (most + 1) + keys)
    require((places[1:] > places[:len(places) - 1]).all(), "a branch that is there twice")
    require((above["state"] == NodeState.INNER).all(), "children below a leaf")
    is_threshold = nodes["predicate"] == Predicate.THRESHOLD
    is_nominal = nodes["predicate"] == Predicate.NOMINAL
    require((keys[above["predicate"] == Predicate.THRESHOLD] <= 1).all(), "a branch of a threshold")
    require((keys[above["predicate"] == Predicate.NOMINAL] < n_columns).all(), "a category")
    states = nodes["state"]
    is_inner = states == NodeState.INNER
    require(((states >= 0) & (states <= NodeState.INNER)).all(), "the state of a node")
    require((is_inner == (is_threshold | is_nominal)).all(), "the predicate of a node")
    require((is_inner | (nodes["predicate"] == Predicate.NONE)).all(), "the predicate of a leaf")
    columns = nodes["column"][is_inner]
    require(((columns >= 0) & (columns < n_columns)).all(), "the column of a node")
    majority, most = nodes["majority"], max(n_outputs, 1)
    require(((majority >= -1) & (majority < most)).all(), "a majority")
    require((nodes["looks"] >= 0).all(), "the looks of a node")


def check_prediction(state, n_columns, n_outputs, of_numbers, leaves):
    """Raise StateError unless `PredictionTree.take_state` can trust a state."""
    check_nodes(state, n_columns, n_outputs, of_numbers)
    states = state["nodes"]["state"]
    size, may_collect = len(states), (NodeState.OPEN, NodeState.NULL_BRANCH)
    collect = check_statistics(state["statistics"], not of_numbers, size, n_columns, n_outputs)
    require(all(states[node] in may_collect for node in collect), "the state of a leaf")
    is_open = set(np.flatnonzero(states == NodeState.OPEN).tolist())
    require(is_open <= collect, "an open leaf without statistics")
    if leaves is not None:
        modelled = leaves.check_state(state["leaves"], size, n_columns, n_outputs)
        require(modelled == collect, "the leaves with models")
