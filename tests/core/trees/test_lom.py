"""LOMTreeClassifier against a plain reference, step by step, and what its tree promises."""

import itertools

import numpy as np
import pytest
from reference.lomtree import ReferenceLOMTree
from support.estimators import state_of
from support.lomtrees import (
    DEFAULTS,
    assert_same_scales,
    assert_same_tree,
    close,
    majority_tree,
    tree_of,
)
from support.marks import first_quick
from support.streams import as_dicts, blobs, changing_rows, is_compared

from streamtree import LOMTreeClassifier

LOSSES = ["hinge", "logistic", "squared", "absolute"]
# The literal algorithm takes plain gradient steps on raw values: a step of the squared loss must
# stay below 2 / |x|^2, the slopes of the others are bounded.
PAPER_RATES = {"hinge": 0.05, "logistic": 0.25, "squared": 0.002, "absolute": 0.05}


def drifting_blobs(n=900, seed=3):
    """Nine classes of which a few are common at a time: leaves fall idle and get recycled."""
    X, y = blobs(6 * n, classes=9, features=5, spread=4.0, seed=seed)
    stages = [{0, 1, 2}, {2, 3, 4, 5}, {5, 6, 7, 8}]
    rng = np.random.default_rng(seed)
    kept = [
        i
        for i, label in enumerate(y.tolist())
        if label in stages[3 * i // len(y)] or rng.random() < 0.03
    ]
    return as_dicts(X[kept[:n]]), y[kept[:n]].tolist()


def rows_of(stream):
    if stream == "dense":
        return drifting_blobs()
    # the literal algorithm has no scaling of its own, the columns here differ by 10^5
    rows, labels = changing_rows(600, classes=6, seed=1)
    rows[400] |= {"number 2": 1e6, "count": 3000}  # outliers
    return rows, labels


def follow(params, rows, labels, weights):
    """Run both side by side, compare as they go, return the compiled model."""
    model, reference = majority_tree(**params), ReferenceLOMTree(**params)
    for i, (x, y, w) in enumerate(zip(rows, labels, weights, strict=True)):
        assert model.predict_one(x) == reference.predict_one(x)
        model.learn_one(x, y, w=w)
        reference.learn_one(x, y, w=w)
        if is_compared(i, len(rows)):
            assert_same_tree(model, reference)
    for x in rows[::20]:
        compiled, expected = model.predict_proba_one(x), reference.predict_proba_one(x)
        assert list(compiled) == list(expected)
        assert all(close(compiled[label], expected[label]) for label in expected)
    if params["algorithm"] == "stream":
        assert_same_scales(model, reference)
    return model


@pytest.mark.parametrize("seed", [None, 7], ids=["unseeded", "seeded"])
@pytest.mark.parametrize("loss", first_quick(LOSSES))
@pytest.mark.parametrize("algorithm", ["stream", "paper"])
def test_every_step_equals_the_reference(algorithm, loss, seed):
    rows, labels = rows_of("dense")
    params = {
        **DEFAULTS,
        "algorithm": algorithm,
        "loss": loss,
        "seed": seed,
        "max_splits": 4,
        "swap_resistance": 1.0,
        "learning_rate": PAPER_RATES[loss] if algorithm == "paper" else 7.0,
    }
    model = follow(params, rows, labels, itertools.repeat(1.0, len(rows)))
    assert model.n_splits == 4
    assert model.n_swaps > 0
    assert model.height >= 3


@pytest.mark.parametrize("loss", first_quick(LOSSES))
@pytest.mark.parametrize("algorithm", ["stream", "paper"])
def test_every_weighted_step_equals_the_reference(algorithm, loss):
    rows, labels = rows_of("dense")
    weights = np.random.default_rng(5).choice([0.0, 0.25, 0.5, 1.0, 3.0], size=len(rows))
    params = {
        **DEFAULTS,
        "algorithm": algorithm,
        "loss": loss,
        "max_splits": 4,
        "swap_resistance": 1.0,
        "learning_rate": PAPER_RATES[loss] / 3 if algorithm == "paper" else 4.0,
    }
    model = follow(params, rows, labels, weights.tolist())
    assert model.n_splits == 4
    assert model.n_swaps > 0


@pytest.mark.parametrize("loss", LOSSES)
def test_every_step_on_changing_features_equals_the_reference(loss):
    rows, labels = rows_of("changing")
    params = {**DEFAULTS, "loss": loss, "max_splits": 6, "swap_resistance": 1.0, "seed": 11}
    model = follow(params, rows, labels, itertools.repeat(1.0, len(rows)))
    assert model.n_splits == 6
    assert {"late", ("kind", "a")} <= set(model.snapshot()["features"])


@pytest.mark.parametrize(
    "settings",
    [
        {"forgetting": 0.0, "delta": 0.5},
        {"forgetting": 0.2, "grace_period": 5.0},
        {"max_splits": 1},
        {"learning_rate": 0.05, "delta": 0.9},
    ],
    ids=lambda settings: ",".join(f"{k}={v}" for k, v in settings.items()),
)
def test_every_setting_means_what_it_means_in_the_reference(settings):
    rows, labels = rows_of("dense")
    model = follow({**DEFAULTS, **settings}, rows, labels, itertools.repeat(1.0, len(rows)))
    assert model.n_splits >= 1


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("algorithm", ["stream", "paper"])
def test_swaps_never_lose_the_root(algorithm, seed):
    """Few splits and a rare class: the smallest leaf keeps turning up below the root."""
    X, y = blobs(4000, classes=4, features=6, spread=3.0, seed=seed, rare=3)
    rows, labels = as_dicts(X), y.tolist()
    model = majority_tree(
        max_splits=3,
        swap_resistance=4.0,
        algorithm=algorithm,
        learning_rate=0.05 if algorithm == "paper" else 4.0,
        seed=seed,
    )
    hits = 0
    for x, label in zip(rows, labels, strict=True):
        hits += model.predict_one(x) == label
        model.learn_one(x, label)
    tree_of(state_of(model))
    assert model.n_splits == 3
    # a tree cut off from its data says one class for ever
    assert hits / len(rows) > np.bincount(labels).max() / len(labels) + 0.1
    assert len({model.predict_one(x) for x in rows[-500:]}) > 1


@pytest.mark.parametrize("algorithm", ["stream", "paper"])
def test_swaps_happen_where_a_rare_class_holds_a_leaf(algorithm):
    swaps = 0
    for seed in range(6):
        X, y = blobs(4000, classes=4, features=6, spread=3.0, seed=seed, rare=3)
        # first as many of the rare class as of any: it gets a leaf, then falls behind
        order = np.argsort(y != 3, kind="stable")
        start = np.concatenate([order[:40], order[-160:]])
        start = np.random.default_rng(seed).permutation(start)
        index = np.concatenate([start, np.arange(4000)])
        model = majority_tree(
            max_splits=3,
            swap_resistance=4.0,
            algorithm=algorithm,
            learning_rate=0.05 if algorithm == "paper" else 4.0,
        )
        model.learn_many(X[index], y[index])
        tree_of(state_of(model))
        assert np.mean(model.predict_many(X) == y) > np.bincount(y).max() / len(y) + 0.1
        swaps += model.n_swaps
    assert swaps > 0


def test_of_labels_with_as_much_weight_the_predicted_one_is_the_first():
    model = LOMTreeClassifier(leaf_model="majority")
    # one more is too little to be seen
    for label, weight in [("a", 1e18), ("b", 1e18), ("a", 1e18), ("b", 1.0)]:
        model.learn_one({}, label, w=weight)
    (first, share), (_, other) = model.predict_topk_one({}, 2)
    assert share == other
    assert first == model.predict_one({})
