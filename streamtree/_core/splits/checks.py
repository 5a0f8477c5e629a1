"""What must hold of the states of searches for splits."""

import numpy as np

from streamtree._core.splits.histograms import MOST_BINS
from streamtree._core.splits.scoretest import BLANK, BUCKETS, CANDIDATES, PAIRS
from streamtree._core.store.checks import check_counts, check_finite, check_same_kind, require

# what the statistics of a leaf are made of: dtype and number of dimensions
PARTS = {
    "columns": (np.int64, 2), "ranges": (np.float64, 2), "sums": (np.float64, 2),
    "totals": (np.float64, 2), "numbers": (np.float64, 1),
}


def check_statistics(state, of_labels, n_nodes, n_columns, n_labels):
    """Raise StateError unless `take_state` can trust a state; returns the nodes that are in it."""
    nodes = set()
    for part in state:
        check_same_kind(part, {"node": 0, "rows": 0, "looks": 0})
        require(0 <= part["node"] < n_nodes and part["node"] not in nodes, "the node of a leaf")
        nodes.add(part["node"])
        check_leaf(part, of_labels, n_columns, n_labels)
    return nodes


def check_leaf(part, of_labels, n_columns, n_labels):
    """Check the statistics of one leaf."""
    for name, (kind, n_dims) in PARTS.items():
        array = part.get(name)
        is_same = isinstance(array, np.ndarray) and (array.dtype, array.ndim) == (kind, n_dims)
        require(is_same, f"the {name} of a leaf")
    labels, width = part.get("labels"), 2
    if of_labels:
        is_same = isinstance(labels, np.ndarray) and (labels.dtype, labels.ndim) == (np.int32, 1)
        require(is_same, "the labels of a leaf")
        width = len(labels)
        require(len(np.unique(labels)) == width, "a label of a leaf that is there twice")
        require(((labels >= 0) & (labels < n_labels)).all(), "a label of a leaf")
    else:
        require(labels is None, "the labels of a leaf")
    columns, ranges = part["columns"], part["ranges"]
    require(columns.shape[1] == 3 and ranges.shape[1] == 2, "the columns of a leaf")
    numbers, n_bins, rows = columns.T
    require((np.diff(numbers) > 0).all(), "the order of a leaf's columns")
    require(((numbers >= 0) & (numbers < n_columns)).all(), "a column of a leaf")
    require(((n_bins > 0) & (n_bins <= MOST_BINS)).all(), "the bins of a column")
    require((rows >= 0).all(), "the rows of a column")
    require(int(n_bins.sum()) == len(ranges), "the bins of a leaf")
    require(part["sums"].shape == (len(ranges), width), "the sums of a leaf")
    require(part["totals"].shape == (2, width), "the totals of a leaf")
    require(part["numbers"].shape == (5,), "the numbers of a leaf")
    for array in (ranges, part["sums"], part["totals"]):
        check_finite(array)
    check_finite(part["numbers"][:4], at_least=0.0)
    require((ranges[:, 0] <= ranges[:, 1]).all(), "the range of a bin")
    ascends = ranges[1:, 0] > ranges[:-1, 1]
    borders = np.cumsum(n_bins)
    ascends[borders[(borders > 0) & (borders < len(ranges))] - 1] = True
    require(ascends.all(), "the order of the bins")
    check_counts(part["rows"], part["looks"])


def check_searches(searches, nodes, n_columns):
    """Raise StateError unless exactly these nodes search, and `import_search` can trust them."""
    kind = {"node": 0, **BLANK}
    for search in searches:
        check_same_kind(search, kind)
        check_search(search, n_columns)
    searched = [search["node"] for search in searches]
    require(len(searched) == len(nodes) and set(searched) == nodes, "the searches of the leaves")


def check_search(search, n_columns):
    """Raise StateError unless the values of a search of the right kind can be trusted."""
    for name in ("rows", "watched", "next_look"):
        check_finite(np.array([search[name]]), at_least=0.0)
    require(0 <= search["looks"] < 2**31, "the looks of a leaf")
    columns = search["columns"]
    require(len(columns) <= CANDIDATES, "the candidates of a leaf")
    require(((columns >= 0) & (columns < n_columns)).all(), "a column of a candidate")
    for name, length in (("sums", BUCKETS), ("squares", BUCKETS), ("products", PAIRS)):
        require(len(search[name]) == length, f"the {name} of a leaf")
        check_finite(search[name])
    require(search["candidates"].shape == (len(columns), 2 + 2 * BUCKETS), "the candidates")
    check_finite(search["candidates"])
