"""What must hold of the state of mixtures of contexts."""

import numpy as np

from streamtree._core.store.checks import check_counts, require
from streamtree._core.trees.contexts.counts import (
    FIRST_SLOTS,
    LEAST_SLOTS,
    MOST_BYTES,
    MOST_LABELS,
    SPEEDS,
    SUMS,
    size_of,
)
from streamtree._core.trees.contexts.fields import (
    BLOCK,
    FEW_PAIRS,
    LAST,
    MOST_CONTEXTS,
    MOST_FIELDS,
    MOST_NAMED,
    MOST_PAIRS,
    ROOM,
)


def check_fields(state, n_columns, n_labels):
    """Raise StateError unless `ContextFields.take_state` can trust a state."""
    fields, cuts, sample, seen = (state[name] for name in ("fields", "cuts", "sample", "seen"))
    n = len(fields)
    require(state["most_pairs"] in (0, FEW_PAIRS, MOST_PAIRS), "the number of contexts")
    require(state["last"].shape == (LAST,), "the last labels")
    require(((state["last"] >= -1) & (state["last"] < n_labels)).all(), "the last labels")
    require(state["most_pairs"] or n == 0, "the number of contexts")
    columns = fields["column"]
    require(n <= MOST_FIELDS, "the fields of contexts")
    require(((columns >= 0) & (columns < n_columns)).all(), "a field of contexts")
    for name in ("is_feature", "has_many", "has_fractions", "is_named"):
        require(np.isin(fields[name], (0, 1)).all(), "a field of contexts")
    require(fields["is_named"].sum() <= MOST_NAMED, "the fields of contexts")
    for name in ("has_many", "is_named"):
        require(not (fields["is_feature"] & fields[name]).any(), "a field of contexts")
    require(((fields["n_cuts"] >= 0) & (fields["n_cuts"] < ROOM)).all(), "the cuts of a column")
    require(cuts.shape == (n, ROOM) and np.isfinite(cuts).all(), "the cuts of a column")
    check_counts(seen)
    require(sample.shape == (n, min(seen, BLOCK)), "the rows of a block")
    require(not np.isinf(sample).any(), "the rows of a block")


def check_counts_of_contexts(state, n_labels):
    """Raise StateError unless `ContextCounts.take_state` can trust a state.

    What is counted is for the tree to check: numbers, of which all are finite.
    """
    records, counts, slots, places = (
        state[name] for name in ("records", "counts", "slots", "places")
    )
    for number in (slots, places):
        require(type(number) is int and number >= 0, "the size of a table of contexts")
    require(len(records) == len(counts) <= slots, "the contexts")
    if slots == 0:
        require(places == 0, "the labels of contexts")
        return
    require(slots >= LEAST_SLOTS and slots & (slots - 1) == 0, "slots of contexts")
    require(0 < places <= MOST_LABELS, "the labels of contexts")
    require(slots <= FIRST_SLOTS or slots * size_of(places) <= MOST_BYTES, "slots of contexts")
    require(counts.shape[1:] == (places, SUMS), "the counts of contexts")
    taken = records["slot"].astype(np.int64)
    require(((taken >= 0) & (taken < slots)).all() and (np.diff(taken) > 0).all(), "a slot")
    require((records["key"] > 0).all(), "the hash of a context")
    require((records["labels"].astype(np.int64) < 1 << min(places, n_labels)).all(), "a label")
    require(np.isfinite(counts).all(), "the counts of contexts")


def check_contexts(state, n_columns, n_labels, n_places, most_weight):
    """Raise StateError unless `Contexts.take_state` can trust a state."""
    weights = state["weights"]
    check_counts(state["rows"])
    check_fields(state["fields"], n_columns, n_labels)
    check_counts_of_contexts(state["counts"], n_places)
    require(weights.shape == (MOST_CONTEXTS, 2, SPEEDS), "the weights of contexts")
    require((np.abs(weights[:, 0]) <= most_weight).all(), "the weights of contexts")
    require((np.isfinite(weights) & (weights[:, 1:] >= 0)).all(), "the weights of contexts")


def check_contexts_of_labels(state, n_columns, n_labels, most_weight, most_count):
    """Raise StateError unless `ContextTree.take_state` can trust a state."""
    check_contexts(state, n_columns, n_labels, n_labels, most_weight)
    counts = state["counts"]["counts"]
    # false for NaN
    require(((counts >= 0) & (counts <= most_count)).all(), "the counts of contexts")


def check_contexts_of_numbers(state, n_columns, most_weight, most_deviations):
    """Raise StateError unless `ContextMeans.take_state` can trust a state, but for its targets."""
    check_contexts(state, n_columns, 0, 1, most_weight)
    require(state["counts"]["places"] in (0, 1), "the sums of contexts")
    sums = state["counts"]["counts"].reshape(-1, 2, SPEEDS).astype(np.float64)
    # false for negative weights, too
    most = 1.001 * most_deviations * sums[:, 0]
    require((np.abs(sums[:, 1]) <= most).all(), "the sums of contexts")
