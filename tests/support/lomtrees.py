"""The state of a LOMtree as tests read it, and how it is compared with the reference."""

import math
import pickle
from functools import partial

import numpy as np

from streamtree import LOMTreeClassifier
from support.estimators import state_of
from support.snapshots import tables

majority_tree = partial(LOMTreeClassifier, leaf_model="majority")

DEFAULTS = {
    "max_splits": 10_000,
    "swap_resistance": 4.0,
    "learning_rate": 4.0,
    "loss": "hinge",
    "forgetting": 0.003,
    "grace_period": 20.0,
    "delta": 0.1,
    "algorithm": "stream",
    "seed": None,
}
# Relative: both sides add the same numbers in another order, and a few hundred steps carry the
# rounding of one sum into the next.
CLOSE = 1e-9


def close(compiled, reference):
    return math.isclose(compiled, reference, rel_tol=CLOSE, abs_tol=CLOSE)


def passages(state):
    """What the classes have left at inner nodes as [{label: (trained, score_sum)}] by node."""
    by_node = [{} for _ in state["nodes"]]
    for label, table in enumerate(tables(state["passages"])):
        for node, record in table.items():
            # what was forgotten leaves zeros
            if any(record):
                by_node[node][label] = record
    return by_node


def tree_of(state):
    """Links as {node: (parent, left, right)}, after checking that they make one binary tree."""
    links = [tuple(link)[:3] for link in state["links"].tolist()]
    reached, pending = [], [0]
    while pending:
        node = pending.pop()
        reached.append(node)
        _, left, right = links[node]
        assert (left < 0) == (right < 0)
        for child in (left, right):
            if child >= 0:
                assert links[child][0] == node
                pending.append(child)
    assert links[0][0] == -1
    assert sorted(reached) == list(range(len(links)))  # each once, none out of reach
    return dict(enumerate(links))


def assert_same_tree(model, reference):
    """The compiled model's snapshot holds what the reference holds, node by node."""
    state = state_of(model)
    assert state["labels"] == reference.labels
    assert (model.n_splits, model.n_swaps) == (reference.n_splits, reference.n_swaps)
    assert model.n_nodes == len(reference.nodes)
    columns = [tuple(name) if isinstance(name, tuple) else name for name in state["features"]]
    models, classes = tables(state["models"]), tables(state["classes"])
    passed = passages(state)
    for number, node in enumerate(reference.nodes):
        links, stats = state["links"][number], state["nodes"][number]
        for link, other in (
            ("parent", node.parent), ("left", node.left), ("right", node.right),
        ):
            assert links[link] == (-1 if other is None else other.number)
        for field, expected in (
            ("bias", node.bias),
            ("trained", sum(node.trained.values())),
            ("score_sum", sum(node.score_sum.values())),
            ("size", node.size),
            ("votes", sum(node.votes.values())),
        ):
            assert close(stats[field], expected), (number, field, stats[field], expected)
        majority = -1 if node.majority is None else reference.labels.index(node.majority)
        assert stats["majority"] == majority
        if not reference.is_paper:
            assert close(stats["bias_squares"], node.bias_squares)
            assert close(stats["next_test"], node.next_test)
        # votes and sides matter at leaves, and only they keep them
        kept = (
            (node.votes, node.trained, node.score_sum, node.went_right)
            if node.is_leaf
            else (node.trained, node.score_sum)
        )
        found, other = (classes, passed) if node.is_leaf else (passed, classes)
        assert not other[number]
        for label in {reference.labels[key] for key in found[number]} | set().union(*kept):
            record = found[number].get(reference.labels.index(label), [0.0] * len(kept))
            expected = [of.get(label, 0.0) for of in kept]
            same = [close(a, b) for a, b in zip(record, expected, strict=True)]
            assert all(same), (number, label, record, expected)
        for feature in {columns[key] for key in models[number]} | set(node.weights):
            record = models[number].get(columns.index(feature), [0.0, 0.0])
            assert close(record[0], node.weights.get(feature, 0.0)), (number, feature)
            assert close(record[1], node.squares.get(feature, 0.0)), (number, feature)


def assert_same_scales(model, reference):
    state = state_of(model)
    assert close(state["scaler"]["mean_norm"], reference.scaler.mean_norm)
    for name, scale in zip(state["features"], state["scaler"]["columns"], strict=True):
        column = reference.scaler.columns[tuple(name) if isinstance(name, tuple) else name]
        assert scale["counted"] == len(column.nonzeros)
        assert scale["n_units"] == scale["forgotten"] == 0
        assert scale["zeros"] == column.zeros
        assert scale["birth"] == column.birth
        assert bool(scale["is_dense"]) == column.is_dense
        assert close(scale["center"], column.center)
        assert close(scale["factor"], column.factor)


def assert_survives_a_trip(model):
    """snapshot -> restore -> snapshot is the identity, part by part."""
    core = model._new_core()
    core.restore(model.snapshot())
    before, after = state_of(model), state_of(core)
    assert before.keys() == after.keys()
    for part in before.keys() - {"tree"}:
        assert pickle.dumps(after[part]) == pickle.dumps(before[part]), part


def assert_tables_in_order(model):
    """Keys ascend in every table, records are not all zero, and every key exists."""
    state = state_of(model)
    n_columns, n_labels = len(state["features"]), len(state["labels"])
    for part, n_tables, universe in (
        ("models", model.n_nodes, n_columns),
        ("classes", model.n_nodes, n_labels),
        ("passages", n_labels, model.n_nodes),
    ):
        starts, keys, records = (state[part][name] for name in ("starts", "keys", "records"))
        assert starts[0] == 0
        assert len(starts) == n_tables + 1
        assert starts[-1] == len(keys) == len(records)
        assert ((keys >= 0) & (keys < universe)).all()
        new_table = np.zeros(len(keys) + 1, dtype=bool)
        new_table[starts] = True
        assert ((np.diff(keys) > 0) | new_table[1:-1]).all()
        # what a class left at a node is forgotten when that is recycled
        assert part == "passages" or records.any(axis=1).all()
