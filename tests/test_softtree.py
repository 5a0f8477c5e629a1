"""Soft trees against a plain reference and numerical derivatives, and what they promise."""

import itertools
import math

import numpy as np
import pytest
from reference.softtree import ReferenceSoftTree
from streams import as_dicts, blobs, changing_rows

from streamtree import SoftTreeClassifier, SoftTreeRegressor

# Relative: both sides add the same numbers in another order, and a thousand steps of gates that
# follow each other's slopes carry the rounding of one sum into the next.
CLOSE = 1e-7


def close(compiled, reference):
    return math.isclose(compiled, reference, rel_tol=CLOSE, abs_tol=CLOSE)


def tables(state):
    """[{key: record}] by node, from the flat arrays of a snapshot."""
    starts = state["starts"]
    return [
        dict(zip(state["keys"][a:b].tolist(), state["records"][a:b].tolist(), strict=True))
        for a, b in itertools.pairwise(starts)
    ]


def assert_same_linear(offsets, table, columns, linear):
    """Offsets and records, (weights, squares) each, against a linear model of the reference."""
    expected = [*linear.bias, *linear.bias_squares]
    assert all(map(close, offsets, expected)), (offsets, expected)
    zero = np.zeros(len(linear.bias))
    for feature in {columns[key] for key in table} | set(linear.weights):
        record = table.get(columns.index(feature), [0.0] * 2 * len(zero))
        expected = [*linear.weights.get(feature, zero), *linear.squares.get(feature, zero)]
        assert all(map(close, record, expected)), (feature, record, expected)


def assert_same_tree(model, reference):
    """The compiled model's snapshot holds what the reference holds, node by node."""
    state = model.snapshot()
    assert (model.n_splits, model.n_collapses) == (reference.n_splits, reference.n_collapses)
    assert model.n_nodes == reference.n_nodes
    columns = [tuple(name) if isinstance(name, tuple) else name for name in state["features"]]
    gates, leaves = tables(state["gates"]), tables(state["leaves"])
    assert len(gates) == len(reference.pool)
    for number, node in reference.pool.items():
        stats, link = state["nodes"][number], state["links"][number]
        assert stats["depth"] == node.depth
        if node.depth < 0:
            continue
        first = node.pair[0].number if node.pair else -1
        assert stats["pair"] == first
        assert (link["left"], link["right"]) == ((first, first + 1) if node.is_split else (-1, -1))
        assert (stats["windows"], stats["tries"]) == (node.windows, node.tries)
        assert stats["count"] == len(node.gains)
        assert close(stats["gain_sum"], sum(node.gains))
        assert close(stats["gain_squares"], sum(gain**2 for gain in node.gains))
        assert_same_linear(
            [stats["gate_bias"], stats["gate_squares"]], gates[number], columns, node.gate
        )
        assert_same_linear(state["leaf_offsets"][number], leaves[number], columns, node.leaf)


def close_answers(model, reference, x):
    compiled, expected = model.predict_one(x), reference.predict_one(x)
    if reference.is_number:
        return close(compiled, expected)
    shares, expected_shares = model.predict_proba_one(x), reference.predict_proba_one(x)
    assert list(shares) == list(expected_shares)
    return all(close(shares[label], expected_shares[label]) for label in shares) and (
        compiled == expected or close(shares[compiled], shares[expected])
    )


def follow(estimator, params, rows, targets, weights=None):
    """Run both side by side, compare after every example, return the compiled model."""
    model = estimator(**params)
    reference = ReferenceSoftTree(
        is_number=estimator is SoftTreeRegressor, **model._get_params()
    )
    for i, (x, y) in enumerate(zip(rows, targets, strict=True)):
        w = 1.0 if weights is None else weights[i]
        assert close_answers(model, reference, x)
        model.learn_one(x, y, w=w)
        reference.learn_one(x, y, w=w)
        assert_same_tree(model, reference)
    return model


def bent_plane(n, features=3, seed=0):
    """Rows, and numbers that one linear model cannot give."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, features))
    return X, 3.0 * np.abs(X[:, 0] + 0.5 * X[:, 1]) + X[:, 2] + 0.1 * rng.normal(size=n)


def stream(kind, n=900, seed=0):
    """Rows and targets: a number, or 2 or 4 classes that no plane divides."""
    if kind == "number":
        X, y = bent_plane(n, seed=seed)
        return as_dicts(X), (100.0 * y + 7.0).tolist()
    X, y = blobs(n, classes=8, features=3, spread=2.5, seed=seed)
    return as_dicts(X), [f"class {label % int(kind)}" for label in y.tolist()]


def estimator_of(kind):
    return SoftTreeRegressor if kind == "number" else SoftTreeClassifier


# a tree must grow, and shrink, within the few rows that a reference in plain Python can follow
EAGER = {"delta": 0.95, "window": 40.0, "max_nodes": 9}
PLAIN = {**EAGER, "algorithm": "paper", "learning_rate": 0.1}
KINDS = ["number", "2", "4"]
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
@pytest.mark.parametrize(
    "params",
    [
        EAGER,
        {**EAGER, "leaf": "constant", "seed": 5},
        {**EAGER, "update": "newest", "routing": "hard"},
        {**EAGER, "penalty": "l1", "penalty_share": 0.02, "min_reach": 0.1},
        {**EAGER, "penalty": "l2", "penalty_share": 0.02, "max_depth": 2},
    ],
    ids=["defaults", "constant", "newest", "l1", "l2"],
)
def test_every_step_equals_the_reference(kind, params):
    rows, targets = stream(kind)
    model = follow(estimator_of(kind), params, rows, targets)
    assert model.n_splits >= 1


@kinds
@pytest.mark.parametrize(
    "params",
    [
        PLAIN,
        {**PLAIN, "leaf": "linear", "update": "all"},
        {**PLAIN, "penalty": "l1", "penalty_share": 0.003, "update": "all"},
        {**PLAIN, "penalty": "l2", "penalty_share": 0.01},
    ],
    ids=["paper", "linear", "l1", "l2"],
)
def test_every_literal_step_equals_the_reference(kind, params):
    rows, targets = stream(kind)
    if kind == "number":  # plain steps want targets of the order of 1
        targets = [(y - 7.0) / 300.0 for y in targets]
    model = follow(estimator_of(kind), params, rows, targets)
    assert model.n_splits >= 1


@kinds
def test_every_step_on_changing_weighted_rows_equals_the_reference(kind):
    rows, classes = changing_rows(500, classes=4 if kind == "4" else 1, seed=2)
    targets = classes
    if kind == "number":
        targets = [1e6 * (math.sin(y) + x.get("number 2", 0.3)) for x, y in
                   zip(rows, classes, strict=True)]  # fmt: skip
    weights = np.random.default_rng(5).choice([0.0, 0.5, 1.0, 3.0], size=len(rows)).tolist()
    follow(estimator_of(kind), EAGER, rows, targets, weights)


@pytest.mark.parametrize("window", [40.0, 400.0], ids=["no gain", "sure loss"])
def test_every_step_of_a_collapse_equals_the_reference(window):
    """A bend that straightens: the split is worth its place no more."""
    X, y = bent_plane(1500, seed=4)
    y[500:] = X[500:, 2]
    params = {**EAGER, "window": window, "max_nodes": 3}
    model = follow(SoftTreeRegressor, params, as_dicts(X), y.tolist())
    assert model.n_collapses >= 1
