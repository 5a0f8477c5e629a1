"""What must hold of the state of boosted trees."""

import numpy as np

from streamtree._core.store.checks import check_counts, check_finite, require
from streamtree._core.stream.checks import check_window
from streamtree._core.trees.boosted.growth import MOST_LABELS
from streamtree._core.trees.boosted.stages import MOST_SAID
from streamtree._core.trees.tree import BEYOND_TARGETS


def check_stages(state, n_columns, n_labels):
    """Raise StateError unless `Stages.take_state` can trust a state.

    `n_labels` bounds the labels, 0 where rows have numbers.
    """
    nodes, roots, values, base = (state[name] for name in ("nodes", "roots", "values", "base"))
    size, known = len(nodes), state["n_labels"]
    numbers = np.arange(size)
    require(0 < state["unit"] < BEYOND_TARGETS, "the unit of boosted trees")
    require(type(known) is int and 0 <= known <= n_labels, "the labels of boosted trees")
    wanted = 1 if not n_labels or known == 2 else known
    if len(base) == 0:
        require(size == len(roots) == len(values) == known == 0, "boosted trees of nothing")
        return
    require((known > 1 or not n_labels) and len(base) == wanted, "the outputs of boosted trees")
    require((np.abs(base) < BEYOND_TARGETS).all(), "what is said without boosted trees")
    require((np.abs(values) <= MOST_SAID).all(), "the values of boosted trees")
    require(values.shape[1] == len(base), "the outputs of boosted trees")
    check_finite(nodes, "threshold")
    check_finite(nodes, "gain", at_least=0)
    n_rows = nodes["n_rows"].astype(np.int64)
    require((n_rows > 0).all(), "the rows of boosted trees")
    is_inner = nodes["column"] >= 0
    require((nodes["column"] >= -1).all() and (nodes["column"] < n_columns).all(), "a column")
    require(np.isin(nodes["missing_right"], (0, 1)).all(), "a split of a boosted tree")
    require(((nodes["salt"] >= 0) & (nodes["salt"] < 256)).all(), "a split of a boosted tree")
    first = nodes["next"][is_inner].astype(np.int64)
    require(((first > numbers[is_inner]) & (first + 1 < size)).all(), "a child in a boosted tree")
    require((n_rows[first] + n_rows[first + 1] == n_rows[is_inner]).all(), "the rows of a split")
    # every node is the root of a tree, or one of the two children of one node before it
    children = np.sort(np.concatenate([first, first + 1, roots.astype(np.int64)]))
    require(np.array_equal(children, numbers), "a child in a boosted tree")
    require((np.diff(roots) > 0).all(), "the roots of boosted trees")
    leaves = np.sort(nodes["next"][~is_inner])
    require(np.array_equal(leaves, np.arange(len(values))), "the leaves of boosted trees")


def check_boosted_growth(state, window, n_labels):
    """Raise StateError unless `BoostedGrowth.take_state` can trust a state, over a window."""
    n_rows, size = len(window["weights"]), window["size"]
    names = ("first", "rows", "steps", "labels")
    first, rows, steps, labels = (state[name] for name in names)
    for number in (first, rows, steps, labels):
        require(type(number) is int and 0 <= number < 2**62, "the growth of boosted trees")
    require(type(state["credit"]) is int and abs(state["credit"]) < 2**40, "cells of a growth")
    require(type(state["seed"]) is int and 0 <= state["seed"] < 2**64, "random numbers")
    fields = state["fields"]
    if rows == 0:
        require(len(fields) == 0, "trees that do not grow")
        return
    require(size - n_rows <= first and first + rows <= size, "the rows of boosted trees")
    require(len(fields) > 0 and len(set(fields.tolist())) == len(fields), "columns to grow from")
    n_fields = len(window["columns"])
    require(((fields >= 0) & (fields < n_fields)).all(), "columns to grow from")
    require(labels == 0 if n_labels == 0 else 1 < labels <= min(n_labels, MOST_LABELS), "labels")
    here = window["labels"][first - size + n_rows:first - size + n_rows + rows]
    require(n_labels == 0 or int(here.max()) < labels, "the labels of boosted trees")


def check_boosted(state, length, n_columns, n_outputs, has_numbers):
    """Raise StateError unless `BoostedTrees.take_state` can trust a state.

    `length` is that of the window.
    """
    n_labels = 0 if has_numbers else n_outputs
    check_window(state["window"], length, n_columns, n_outputs, n_outputs - n_labels)
    check_stages(state["stages"], n_columns, n_labels)
    check_boosted_growth(state["growth"], state["window"], n_labels)
    require(type(state["random"]) is int and 0 <= state["random"] < 2**64, "random numbers")
    check_counts(state["next_growth"])
    check_finite(np.array([state["mean"], state["weight"]]))
    require(state["weight"] >= 0, "the weight of the targets")
