"""What is true of every tree after any stream."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from support.estimators import state_of
from support.lomtrees import (
    assert_tables_in_order,
    majority_tree,
    passages,
    tree_of,
)
from support.snapshots import tables
from support.strategies import settings, streams
from support.streams import as_dicts, blobs

from streamtree import LOMTreeClassifier


def assert_sound(model, total_weight):
    """Links, sizes, votes, counts: everything that must hold whatever was learned."""
    state = state_of(model)
    tree, nodes = tree_of(state), state["nodes"]
    records, passed = tables(state["classes"]), passages(state)
    leaves = [node for node, (_, left, _) in tree.items() if left < 0]
    assert model.n_splits == model.n_nodes // 2 == len(tree) - len(leaves)
    assert model.n_leaves == len(leaves)
    assert model.n_splits <= model.max_splits
    assert_tables_in_order(model)
    for node, (_, left, right) in tree.items():
        stats = nodes[node]
        if left >= 0:
            assert stats["size"] == min(nodes[left]["size"], nodes[right]["size"])
            assert not records[node]
            trained = math.fsum(trained for trained, _ in passed[node].values())
            assert stats["trained"] == pytest.approx(trained, rel=1e-9, abs=1e-300)
            continue
        assert not passed[node]
        # relative: votes are divided among children and added up again
        votes = math.fsum(record[0] for record in records[node].values())
        assert stats["votes"] == pytest.approx(votes, rel=1e-9, abs=1e-300)
        trained = math.fsum(record[1] for record in records[node].values())
        assert stats["trained"] == pytest.approx(trained, rel=1e-9, abs=1e-300)
        for vote, trained, _, right_weight in records[node].values():
            assert vote >= 0.0
            assert 0.0 <= right_weight <= trained * (1 + 1e-9)
        if votes > 0.0:
            most = max(record[0] for record in records[node].values())
            assert records[node][int(stats["majority"])][0] == most == stats["majority_votes"]
        elif total_weight > 0.0:
            assert 0 <= stats["majority"] < len(model.labels)
    if model.algorithm == "stream":
        # every vote is in some leaf, but for those that went with recycled leaves; relative:
        # votes are divided among children over and over
        leaf_votes = math.fsum(float(nodes[leaf]["votes"]) for leaf in leaves)
        assert leaf_votes <= total_weight * (1 + 1e-9)
        if model.n_swaps == 0:
            assert leaf_votes == pytest.approx(total_weight, rel=1e-9)
        assert all(nodes[leaf]["size"] == nodes[leaf]["votes"] for leaf in leaves)


def assert_same_shape(model):
    """The properties of the model say what its links say."""
    tree = tree_of(state_of(model))
    depths = {0: 0}
    for node in sorted(tree, key=lambda node: path_length(tree, node)):
        if tree[node][0] >= 0:
            depths[node] = depths[tree[node][0]] + 1
    assert model.height == max(depths.values())
    summary = model.summary
    assert summary["n_nodes"] == model.n_nodes == len(tree)
    assert summary["n_leaves"] == model.n_leaves
    assert summary["height"] == model.height
    assert summary["n_splits"] == model.n_splits
    assert summary["n_swaps"] == model.n_swaps
    assert summary["n_labels"] == len(model.labels)
    assert summary["n_features"] == len(model.snapshot()["features"])
    weights = {n: float(state_of(model)["nodes"][n]["votes"]) for n in tree if tree[n][1] < 0}
    if sum(weights.values()) > 0:
        mean = sum(depths[n] * w for n, w in weights.items()) / sum(weights.values())
        assert summary["mean_depth"] == pytest.approx(mean, rel=1e-9)  # another order of sums


def path_length(tree, node):
    length = 0
    while tree[node][0] >= 0:
        node = tree[node][0]
        length += 1
    return length


@hypothesis_settings(max_examples=60)
@given(stream=streams(), params=settings)
def test_any_stream_gives_a_sound_tree(stream, params):
    model = majority_tree(**params)
    total = 0.0
    for i, (x, y, w) in enumerate(stream):
        model.learn_one(x, y, w=w)
        total += w
        if i % 10 == 0:
            assert_sound(model, total)
    assert_sound(model, total)
    assert_same_shape(model)
    for x, _, _ in stream[:10]:
        proba = model.predict_proba_one(x)
        if total == 0.0:
            assert proba == {}
            assert model.predict_one(x) is None
            continue
        assert list(proba) == model.labels
        assert sum(proba.values()) == pytest.approx(1.0, abs=1e-9)  # river's own bound
        assert min(proba.values()) > 0.0
        assert model.predict_one(x) in model.labels
    again = pickle.loads(pickle.dumps(model))
    assert pickle.dumps(again) == pickle.dumps(model)


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), params=settings, classes=st.integers(2, 12))
def test_any_learnable_stream_gives_a_sound_tree(seed, params, classes):
    """Blobs, of which some fall silent: trees that really grow, and swap."""
    X, y = blobs(300, classes, features=3, spread=3.0, seed=seed)
    rng = np.random.default_rng(seed)
    w = rng.choice([0.25, 1.0, 3.0], size=300)
    y[(np.arange(300) > 100) & (y < classes // 2)] = classes
    model = majority_tree(**params)
    for part in np.array_split(np.arange(300), 6):
        model.learn_many(X[part], y[part], w[part])
        assert_sound(model, w[: part[-1] + 1].sum())
    assert_same_shape(model)


@pytest.mark.parametrize("algorithm", ["stream", "paper"])
def test_trees_that_swap_all_the_time_stay_sound(algorithm):
    """Classes take turns, so that old leaves are recycled over and over."""
    swaps = 0
    for seed in range(4):
        X, y = blobs(6000, classes=24, features=6, spread=4.0, seed=seed)
        order = np.argsort(y // 4, kind="stable")  # four classes at a time, mixed among them
        model = majority_tree(
            algorithm=algorithm, max_splits=6, swap_resistance=1,
            learning_rate=0.05 if algorithm == "paper" else 4.0, grace_period=5, restarts=False,
        )
        for i, part in enumerate(np.array_split(order, 60), start=1):
            model.learn_many(X[part], y[part])
            assert_sound(model, 100.0 * i)
        assert_same_shape(model)
        swaps += model.n_swaps
    assert swaps > 20


@pytest.mark.parametrize("algorithm", ["stream", "paper"])
def test_one_split_is_never_swapped(algorithm):
    """Both leaves are the root's: there is nothing that may be recycled."""
    X, y = blobs(2000, classes=6, features=4, spread=3.0)
    model = majority_tree(
        algorithm=algorithm, max_splits=1, swap_resistance=1, learning_rate=0.05
    )
    for x, label in zip(as_dicts(X), y.tolist(), strict=True):
        model.learn_one(x, label)
    assert (model.n_splits, model.n_swaps, model.n_nodes) == (1, 0, 3)
    assert_sound(model, 2000.0)


@pytest.mark.slow
def test_a_very_deep_tree_needs_no_recursion():
    """Weights so small that no step is felt: everything goes left, and each split is a chain link.

    The algorithm of the paper splits at every second label; every walk over the tree must cope.
    """
    model = LOMTreeClassifier(algorithm="paper")
    n = 5000
    model.learn_many(np.ones((n, 1)), np.arange(n) % 3, w=1e-300)
    assert model.height > 4000
    again = pickle.loads(pickle.dumps(model))
    assert pickle.dumps(again) == pickle.dumps(model)
    assert again.height == model.height
    assert copy.deepcopy(model).summary == model.summary
    assert model.predict_one({0: 1.0}) in (0, 1, 2)
    assert_sound(model, n * 1e-300)
