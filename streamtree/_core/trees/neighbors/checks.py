"""What must hold of the state of nearest neighbors."""

import numpy as np

from streamtree._core.store.checks import check_counts, check_finite, require
from streamtree._core.trees.neighbors.rows import (
    FIRST_PLACES,
    LANES,
    MOST_CELLS,
    MOST_FIELDS,
    MOST_ROWS,
    SHOWN_ROWS,
    WEIGHTS,
    WORDS,
)
from streamtree._core.trees.tree import BEYOND_TARGETS


def check_rows_of_neighbors(state, n_columns, n_labels):
    """Raise StateError unless `NeighborRows.take_state` can trust a state.

    `n_labels` bounds the labels, where rows have no targets.
    """
    fields, values, cells = state["fields"], state["values"], state["cells"]
    weights, targets = state["weights"], state["targets"]
    n, size, capacity = len(fields), len(cells), state["capacity"]
    check_counts(capacity, state["next"])
    require(n <= MOST_FIELDS, "the fields of neighbors")
    require(fields.shape == (n, 2) and len(values) == n, "the fields of neighbors")
    require(state["bits"].shape == (n, WORDS), "the values of neighbors")
    columns, is_exact = fields[:, 0], fields[:, 1]
    require(((columns >= 0) & (columns < n_columns)).all(), "a field of neighbors")
    require(((is_exact & ~1) == 0).all(), "a field of neighbors")
    for name in ("has_many", "has_fractions"):
        require(((values[name] & ~1) == 0).all(), "the values of neighbors")
    require(((values["n_rows"] >= 0) & (values["n_rows"] < SHOWN_ROWS)).all(), "their values")
    n_bits = values["n_bits"]
    require(((n_bits >= 0) & (n_bits <= values["n_rows"])).all(), "their values")
    require(capacity % LANES == 0 and capacity <= MOST_ROWS, "the places of neighbors")
    require(capacity * n <= MOST_CELLS and (n or not capacity), "the places of neighbors")
    require(size <= capacity and cells.shape == (size, n), "the rows of neighbors")
    require(capacity <= max(FIRST_PLACES, 2 * size), "the places of neighbors")
    is_next = state["next"] == size if size < capacity else state["next"] < max(capacity, 1)
    require(is_next, "the next place of neighbors")
    require(weights.shape == targets.shape == (size,), "the rows of neighbors")
    require(((weights >= WEIGHTS[0]) & (weights <= WEIGHTS[1])).all(), "the weights of rows")
    if targets.dtype == np.int32:
        n_counted = state["n_counted"]
        require(0 <= n_counted <= n_labels, "the labels of neighbors")
        require(((targets >= 0) & (targets < n_counted)).all(), "the labels of neighbors")
    else:
        require(state["n_counted"] == 0, "the labels of neighbors")
        require((np.abs(targets) < BEYOND_TARGETS).all(), "the targets of neighbors")


def check_neighbors(state, n_columns, n_labels, least_log, most_log):
    """Raise StateError unless `Neighbors.take_state` can trust a state.

    Logarithms of weights are between two bounds.
    """
    check_counts(state["seen"])
    require(state["seen"] < 2**62, "the rows of neighbors")
    check_rows_of_neighbors(state["rows"], n_columns, n_labels)
    scales = state["scales"]
    require(scales.shape == (3 + len(state["rows"]["fields"]), 2), "the weights of columns")
    require(((scales[:, 0] >= least_log) & (scales[:, 0] <= most_log)).all(), "the weights")
    check_finite(scales[:, 1], at_least=0.0)
