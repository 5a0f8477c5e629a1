"""LOMTreeClassifier against a plain reference, step by step, and what its tree promises."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from reference.lomtree import ReferenceLOMTree
from streams import as_dicts, blobs, changing_rows

from streamtree import LOMTreeClassifier

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
LOSSES = ["hinge", "logistic", "squared", "absolute"]
# The literal algorithm takes plain gradient steps on raw values: a step of the squared loss must
# stay below 2 / |x|^2, the slopes of the others are bounded.
PAPER_RATES = {"hinge": 0.05, "logistic": 0.25, "squared": 0.002, "absolute": 0.05}
# Relative: both sides add the same numbers in another order, and a few hundred steps carry the
# rounding of one sum into the next.
CLOSE = 1e-9


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


def close(compiled, reference):
    return math.isclose(compiled, reference, rel_tol=CLOSE, abs_tol=CLOSE)


def tables(state):
    """[{key: record}] by node, from the flat arrays of a snapshot."""
    starts = state["starts"]
    return [
        dict(zip(state["keys"][a:b].tolist(), state["records"][a:b].tolist(), strict=True))
        for a, b in itertools.pairwise(starts)
    ]


def passages(state):
    """What the classes have left at inner nodes as [{label: (trained, score_sum)}] by node."""
    by_node = [{} for _ in state["nodes"]]
    for label, table in enumerate(tables(state["passages"])):
        for node, record in table.items():
            by_node[node][label] = record
    return by_node


def assert_same_tree(model, reference):
    """The compiled model's snapshot holds what the reference holds, node by node."""
    state = model.snapshot()
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
        ):  # fmt: skip
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
    state = model.snapshot()
    assert close(state["scaler"]["mean_norm"], reference.scaler.mean_norm)
    for name, scale in zip(state["features"], state["scaler"]["columns"], strict=True):
        column = reference.scaler.columns[tuple(name) if isinstance(name, tuple) else name]
        assert scale["nonzeros"] == len(column.nonzeros)
        assert scale["zeros"] == column.zeros
        assert scale["birth"] == column.birth
        assert bool(scale["is_dense"]) == column.is_dense
        assert close(scale["center"], column.center)
        assert close(scale["factor"], column.factor)


def follow(params, rows, labels, weights):
    """Run both side by side, compare after every example, return the compiled model."""
    model, reference = majority_tree(**params), ReferenceLOMTree(**params)
    for x, y, w in zip(rows, labels, weights, strict=True):
        assert model.predict_one(x) == reference.predict_one(x)
        model.learn_one(x, y, w=w)
        reference.learn_one(x, y, w=w)
        assert_same_tree(model, reference)
    for x in rows[::20]:
        compiled, expected = model.predict_proba_one(x), reference.predict_proba_one(x)
        assert list(compiled) == list(expected)
        assert all(close(compiled[label], expected[label]) for label in expected)
    if params["algorithm"] == "stream":
        assert_same_scales(model, reference)
    return model


@pytest.mark.parametrize("seed", [None, 7], ids=["unseeded", "seeded"])
@pytest.mark.parametrize("loss", LOSSES)
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


@pytest.mark.parametrize("loss", LOSSES)
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
    tree_of(model.snapshot())
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
        tree_of(model.snapshot())
        assert np.mean(model.predict_many(X) == y) > np.bincount(y).max() / len(y) + 0.1
        swaps += model.n_swaps
    assert swaps > 0
