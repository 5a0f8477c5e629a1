"""What must hold of the state of randomised trees."""

import numpy as np

from streamtree._core.store.checks import check_counts, check_finite, require
from streamtree._core.store.pool import SIZES
from streamtree._core.trees.extra.growth import (
    COUNTING,
    DIVIDING,
    GROWING,
    IDLE,
    REPLAYING,
    SAMPLING,
)
from streamtree._core.trees.extra.nodes import MOST_KEPT
from streamtree._core.trees.extra.search import CHUNK, MOST_GATHERED
from streamtree._core.trees.extra.strength import LEAST_LOG, MOST_LOG
from streamtree._core.trees.tree import check_targets


def check_tree(window, state, n_labels, has_numbers):
    """Raise StateError unless `ExtraTree.take_state` can trust a state, over a window that it can.

    `n_labels` bounds the labels, where rows have no numbers.
    """
    require(type(state["random"]) is int and 0 <= state["random"] < 2**64, "random numbers")
    check_counts(state["next_growth"])
    check_nodes(state["grown"], len(window["field_of"]), n_labels, has_numbers, "the tree")
    check_growth(state["growth"], window, n_labels, has_numbers)


def check_strength(state):
    """Raise StateError unless `Strength.take_state` can trust a state."""
    check_finite(np.array([state["curvature"], state["errors"]]), at_least=0.0)
    # false for NaN
    require(LEAST_LOG - 0.01 < state["log"] < MOST_LOG + 0.01, "the strength of shrinking")
    check_counts(state["rows"])
    require(state["rows"] < 2**62, "rows of which the strength of shrinking was learned")
    check_targets(state["targets"])


def check_nodes(state, n_columns, n_labels, has_numbers, what):
    """Raise StateError unless `ExtraNodes.take_state` can trust a state; `what` names the tree.

    `n_labels` bounds the labels, where rows have no numbers.
    """
    nodes, labels = state["nodes"], state["labels"]
    size = len(nodes)
    require(0 < size < 2**31, f"the nodes of {what}")
    numbers = np.arange(size)
    left, parent = nodes["left"].astype(np.int64), nodes["parent"].astype(np.int64)
    is_inner = left >= 0
    require((left >= -1).all() and parent[0] == -1, f"the root of {what}")
    # every node but the root is one of the two children of one node before it
    first = left[is_inner]
    require(((first > numbers[is_inner]) & (first + 1 < size)).all(), f"a child in {what}")
    children = np.sort(np.concatenate([first, first + 1]))
    require(np.array_equal(children, numbers[1:]), f"a child in {what}")
    require((parent[first] == numbers[is_inner]).all(), f"a parent in {what}")
    require((parent[first + 1] == numbers[is_inner]).all(), f"a parent in {what}")
    columns = nodes["column"]
    require((columns[~is_inner] == -1).all(), f"a split of a leaf of {what}")
    inner = columns[is_inner]
    require(((inner >= 0) & (inner < n_columns)).all(), f"a column of a split of {what}")
    check_finite(nodes, "threshold")
    check_finite(nodes, "weight", at_least=0)
    require(((nodes["since"] >= 0) & (nodes["since"] < 256)).all(), f"a count of {what}")
    require(np.isin(nodes["missing_right"], (0, 1)).all(), f"a split of {what}")
    require(((nodes["salt"] >= 0) & (nodes["salt"] < 256)).all(), f"a split of {what}")
    counts, kept = nodes["n_labels"].astype(np.int64), nodes["n_kept"].astype(np.int64)
    require(((kept >= 0) & (kept <= np.where(is_inner, 0, MOST_KEPT))).all(), f"rows of {what}")
    require(kept.sum() == len(state["kept"]), f"the rows of {what}")
    require((counts >= 0).all() and counts.sum() == len(labels), f"the labels of {what}")
    require(len(state["weights"]) == len(labels), f"the labels of {what}")
    require(((labels >= 0) & (labels < n_labels)).all(), f"a label of {what}")
    check_finite(state["weights"], at_least=0)
    require(len(state["means"]) == (size if has_numbers else 0), f"the means of {what}")
    check_finite(state["means"])
    require(not has_numbers or not len(labels), f"the labels of {what}")
    freed = state["freed"].astype(np.int64)
    require(len(freed) == SIZES and (freed >= 0).all(), f"the memory of {what}")
    # a node has given back its rows, and blocks for fewer labels than it has now
    most = 30 * size + 4 * int(counts.sum())
    require((freed * 2 ** np.arange(1, SIZES + 1)).sum() <= most, f"the memory of {what}")
    owners = np.repeat(numbers, counts)
    pairs = np.sort(owners * max(n_labels, 1) + labels)
    require((pairs[1:] > pairs[:len(pairs) - 1]).all(), f"a label of {what} twice")
    has_weight = nodes["weight"] > 0
    require((has_weight == (counts > 0)).all() if not has_numbers else True, f"weights of {what}")


def check_growth(state, window, n_labels, has_numbers):
    """Raise StateError unless `Growth.take_state` can trust a state, over a window that it can."""
    n_columns, n_rows, size = len(window["field_of"]), len(window["weights"]), window["size"]
    require(len(state["record"]) == 1, "the growth of a tree")
    record, rows, stack = state["record"][0], state["rows"], state["stack"]
    phase, node = int(record["phase"]), int(record["node"])
    require(phase in (IDLE, GROWING, REPLAYING), "the phase of growth")
    check_nodes(state["shadow"], n_columns, n_labels, has_numbers, "the growing tree")
    nodes = state["shadow"]["nodes"]
    first, end, next_row = (int(record[name]) for name in ("first", "end", "next_row"))
    require(0 <= first <= end <= next_row <= size, "the rows of a growing tree")
    require(int(record["spent"]) >= 0, "the cells of a growing tree")
    require(abs(int(record["credit"])) < 2**62, "the cells of a growing tree")
    require(stack.shape[1:] == (3,), "the stack of a growing tree")
    # no two nodes of it have a row in common
    room = int(record["stack_capacity"])
    require(len(stack) <= room <= 2 * (len(rows) + 16), "the stack of a growing tree")
    require(-1 <= int(record["column"]) < n_columns, "a candidate")
    require(0 <= record["appetite"] < np.inf, "what a tree takes")
    require(np.isfinite([record["threshold"], record["score"]]).all(), "a candidate")
    require(record["missing_right"] in (0, 1) and 0 <= record["salt"] < 256, "a candidate")
    if phase != GROWING:
        require(len(rows) == len(stack) == room == 0, "a tree that does not grow")
        require(int(record["n_gathered"]) == 0, "a tree that does not grow")
        require(node == -1, "a tree that does not grow")
        require(phase == IDLE or next_row >= size - n_rows, "the rows of a growing tree")
        require(phase != IDLE or len(nodes) == 1, "a tree that does not grow")
        return
    require(0 < len(rows) == end - first and first >= size - n_rows, "rows of a growing tree")
    require(np.array_equal(np.sort(rows), np.arange(len(rows))), "the rows of a growing tree")
    n_gathered = int(record["n_gathered"])
    most = min(MOST_GATHERED, len(window["columns"]))
    require(0 <= n_gathered <= most, "the fields of a growing tree")
    known = int(record["n_labels"])
    require(0 <= known <= n_labels, "the labels of a growing tree")
    here = window["labels"][first - size + n_rows:end - size + n_rows]
    require(has_numbers or int(here.max()) < known, "the labels of a growing tree")
    spans = [tuple(map(int, span)) for span in stack]
    if node >= 0:
        spans.append((node, int(record["node_begin"]), int(record["node_end"])))
        check_counts(int(record["n_tried"]), int(record["n_drawn"]))
        _check_stage(record)
    for number, begin, stop in spans:
        require(0 <= number < len(nodes) and nodes["left"][number] < 0, "a node to be grown")
        require(0 <= begin < stop <= len(rows), "the rows of a node")
        require(nodes["n_kept"][number] == 0, "the rows of a node")
    require(len({number for number, _, _ in spans}) == len(spans), "a node to be grown twice")
    waiting = np.flatnonzero((nodes["left"] < 0) & (nodes["weight"] == 0.0)).tolist()
    require(set(waiting) - {node} == set(stack[:, 0].tolist()), "the nodes to be grown")


def _check_stage(record):
    """Check what is said of the node that is being split."""
    stage, done, n_left = (int(record[name]) for name in ("stage", "done", "n_left"))
    n = int(record["node_end"]) - int(record["node_begin"])
    require(COUNTING <= stage <= DIVIDING, "the stage of a node")
    # a stage that is through with all rows is over
    require(0 <= done < max(n, 1) and done % CHUNK == 0, "the rows of a stage")
    require(0 <= n_left <= done, "the rows of a stage")
    require(stage != DIVIDING or int(record["column"]) >= 0, "a split without a candidate")
    require(stage != SAMPLING or n > CHUNK, "the stage of a node")
    require(stage in (COUNTING, DIVIDING) or done == 0, "the rows of a stage")
