"""What must hold of the state of oblique trees."""

import numpy as np

from streamtree._core.store.checks import (
    check_counts,
    check_finite,
    check_links,
    check_tables,
    require,
)
from streamtree._core.stream.checks import check_kept
from streamtree._core.trees.oblique.nodes import WIDTH


def check_oblique(
    state, n_columns, n_outputs, *, is_regression, depth, moves, batch_size, most_rows, n_nodes
):
    """Raise StateError unless `ObliqueTree.take_state` can trust a state."""
    check_nodes(state, n_columns, n_outputs, is_regression, depth, moves)
    touched = state["touched"]
    check_counts(state["n_learned"], state["in_batch"], *touched)
    require(state["in_batch"] < batch_size, "the examples of a batch")
    # the nodes whose gradients wait for the end of the mini-batch
    require(len(set(touched)) == len(touched), "the touched nodes")
    if touched:
        require(moves and max(touched) < len(state["nodes"]), "the touched nodes")
        at = np.array(touched)
        is_inner = state["links"]["left"][at] >= 0
        knows = state["nodes"]["n_outputs"][at] > 0
        require((is_inner | knows).all(), "the touched nodes")
    if not most_rows:
        # a tree that starts from zeros is full
        require(len(state["nodes"]) == n_nodes, "the number of nodes")
    n_own = len(state["totals"])
    check_warm_up(
        state["warm_up"], most_rows, n_columns,
        min(n_own, 1) if is_regression else n_own, n_own if is_regression else 0,
    )


def check_nodes(state, n_columns, n_outputs, is_regression, depth, moves):
    """Raise StateError unless `ObliqueNodes.take_state` can trust a state."""
    nodes, totals, known = state["nodes"], state["totals"], state["nodes"]["n_outputs"]
    depths = check_links(state["links"])
    require(len(nodes) == len(depths), "the number of nodes")
    # paths are kept in arrays of this length
    require(depths.max() <= depth, "the depth")
    for part in ("weights", "moving", "held"):
        check_tables(state[part], len(nodes), n_columns, WIDTH)
    require(len(totals) <= n_outputs, "the totals")
    check_finite(totals, "mean")
    check_finite(totals, "weight", at_least=0)
    check_finite(np.array(state["total"]), at_least=0)
    check_finite(nodes, "visits", at_least=0)
    require((nodes["scale"] > 0).all(), "the scale of a node")
    require(((known >= 0) & (known <= len(totals))).all(), "the outputs of a node")
    if is_regression:
        require(len(totals) in (0, n_outputs), "the totals")
        require(((known == 0) | (known == len(totals))).all(), "the outputs of a node")
        require(((nodes["visits"] == 0) | (known > 0)).all(), "a visited node")
    for part, is_kept in (("outputs", True), ("moving_outputs", moves)):
        expected = WIDTH * int(known.sum()) if is_kept else 0
        require(len(state[part]) == expected, f"the {part.replace('_', ' ')}")
        check_finite(state[part])


def check_warm_up(state, most, n_columns, n_labels, n_targets):
    """Raise StateError unless `WarmUp.take_state` can trust a state; `most` rows are kept."""
    n_rows, due_at = state["n_rows"], state["due_at"]
    check_counts(n_rows, due_at)
    require(n_rows <= most, "the length of the warm-up")
    check_kept(state["rows"], n_columns, n_labels, n_targets)
    n = state["rows"]["n"]
    require(n <= n_rows, "the rows of the warm-up")
    require(due_at <= most, "the next growth")
