"""The tables of weights and class counts, seen from outside: wide, sparse, many classes, late."""

import copy
import pickle
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from reference.lomtree import ReferenceLOMTree
from support.isolated import run_isolated
from support.lomtrees import (
    DEFAULTS,
    assert_same_scales,
    assert_same_tree,
    assert_survives_a_trip,
    assert_tables_in_order,
    majority_tree,
    state_of,
)
from support.streams import as_dicts, blobs

from streamtree import SoftTreeClassifier


def word_rows(n, classes, words, seed=0, length=12):
    """Sparse dicts: `length` words, half of them from the few that the class prefers."""
    rng = np.random.default_rng(seed)
    preferred = rng.integers(words, size=(classes, 20))
    rows, labels = [], []
    for _ in range(n):
        y = int(rng.integers(classes))
        chosen = np.r_[
            rng.choice(preferred[y], size=length // 2), rng.integers(words, size=length // 2)
        ]
        # not whole numbers: ties would be decided by the last bit, which the two sides round apart
        rows.append({f"w{j}": float(rng.uniform(1, 3)) for j in np.unique(chosen).tolist()})
        labels.append(y)
    return rows, labels


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "seed"), [("hinge", None), ("logistic", 5)])
def test_many_words_and_classes_equal_the_reference(loss, seed):
    """Wide enough that tables hash, grow, and turn from one layout into the other."""
    rows, labels = word_rows(600, classes=40, words=800)
    # ten words at first, so that the tables begin dense
    few, few_labels = word_rows(200, classes=3, words=10, length=4)
    rows, labels = few + rows, few_labels + labels
    params = {**DEFAULTS, "loss": loss, "seed": seed, "grace_period": 10.0, "delta": 0.5}
    params |= {"max_splits": 12, "swap_resistance": 1.0}
    model, reference = majority_tree(**params), ReferenceLOMTree(**params)
    # uneven weights: fractions of whole votes tie, and rounding would choose the smallest leaf
    weights = np.random.default_rng(1).uniform(0.5, 1.5, size=len(rows)).tolist()
    for i, (x, y, w) in enumerate(zip(rows, labels, weights, strict=True)):
        assert model.predict_one(x) == reference.predict_one(x)
        model.learn_one(x, y, w=w)
        reference.learn_one(x, y, w=w)
        if i % 25 == 0 or i == len(rows) - 1:
            assert_same_tree(model, reference)
            assert_tables_in_order(model)
    assert_same_scales(model, reference)
    assert model.n_splits > 2
    assert len(model.snapshot()["features"]) > 600


@pytest.mark.parametrize("columns", [1, 7, 8, 9, 64, 3000])
def test_dense_columns(columns):
    X, y = blobs(400, classes=6, features=columns, spread=3.0, seed=columns)
    model = majority_tree(grace_period=5)
    model.learn_many(X, y)
    assert_tables_in_order(model)
    assert_survives_a_trip(model)
    assert len(model.snapshot()["features"]) == columns
    if columns >= 7:
        assert np.mean(model.predict_many(X) == y) > 0.7
    loop = majority_tree(grace_period=5)
    for x, label in zip(as_dicts(X), y.tolist(), strict=True):
        loop.learn_one(x, label)
    assert pickle.dumps(loop) == pickle.dumps(model)


@pytest.mark.parametrize("columns", [300, 20_000])
@pytest.mark.parametrize("classes", [2, 300])
def test_sparse_columns(columns, classes):
    X = sp.random_array(
        (3000, columns), density=10 / columns, rng=np.random.default_rng(3), format="csr"
    )
    rng = np.random.default_rng(3)
    y = rng.integers(classes, size=3000)
    X = sp.hstack([X, sp.csr_array(np.eye(classes)[y])], format="csr")  # what tells the classes
    model = majority_tree(grace_period=10, delta=0.5)
    model.learn_many(X, y)
    assert_tables_in_order(model)
    assert_survives_a_trip(model)
    assert model.n_splits >= (1 if classes == 2 else 20)
    # no node holds a weight for a column that no example of it showed
    assert len(state_of(model)["models"]["keys"]) <= model.height * (X.nnz + 1)
    dense_bytes = model.n_nodes * X.shape[1] * 16
    if columns == 20_000 and classes == 300:
        assert model._core.learned_bytes < dense_bytes / 10
    before = pickle.dumps(model)
    half = majority_tree(grace_period=10, delta=0.5)
    half.learn_many(X[:1000], y[:1000])
    half = pickle.loads(pickle.dumps(half))  # its tables are laid out anew
    half.learn_many(X[1000:], y[1000:])
    assert pickle.dumps(half) == before


def test_many_classes():
    """Thousands of labels, most of them at few nodes; each of them is predicted somewhere."""
    rng = np.random.default_rng(0)
    classes = 3000
    centers = rng.normal(size=(classes, 12)) * 5
    y = np.r_[rng.permutation(classes), rng.integers(classes, size=27_000)]
    X = centers[y] + rng.normal(size=(30_000, 12))
    model = majority_tree(max_bytes=None)
    model.learn_many(X, y)
    assert_tables_in_order(model)
    assert_survives_a_trip(model)
    assert set(model.labels) == set(range(classes))
    assert len(set(model.predict_many(X).tolist())) > 200
    proba = model.predict_proba_one(as_dicts(X[:1])[0])
    assert len(proba) == classes
    assert sum(proba.values()) == pytest.approx(1.0, abs=1e-9)  # river's own bound
    assert min(proba.values()) > 0.0


@pytest.mark.parametrize("extra", [10, 1000, 5000])
def test_columns_that_no_one_uses_change_nothing(extra):
    """The layout follows from the number of columns; what is learned must not."""
    X, y = blobs(600, classes=8, features=6, spread=3.0, seed=4)
    rows = as_dicts(X, "abcdef")
    lean, wide = majority_tree(grace_period=5), majority_tree(grace_period=5)
    for i, (x, label) in enumerate(zip(rows, y.tolist(), strict=True)):
        lean.learn_one(x, label)
        # a given zero makes a column and nothing else; between others, to spread their numbers
        spread = {}
        for name, value in x.items():
            spread[name] = value
            if i == 0:
                spread |= {(name, j): 0.0 for j in range(extra)}
        wide.learn_one(spread, label)
        if i == 300:
            wide = pickle.loads(pickle.dumps(wide))
    a, b = state_of(lean), state_of(wide)
    assert len(b["features"]) == 6 * extra + 6
    assert pickle.dumps(a["nodes"]) == pickle.dumps(b["nodes"])
    assert pickle.dumps(a["classes"]) == pickle.dumps(b["classes"])
    assert pickle.dumps(a["passages"]) == pickle.dumps(b["passages"])
    assert np.array_equal(a["models"]["records"], b["models"]["records"])
    assert np.array_equal(a["models"]["keys"] * (extra + 1), b["models"]["keys"])
    assert lean.n_splits > 3


def test_columns_that_arrive_late():
    X, y = blobs(3000, classes=10, features=8, spread=3.0, seed=2)
    model = majority_tree(grace_period=5)
    model.learn_many(X[:1000, :2], y[:1000])
    before = np.mean(model.predict_many(X[:, :2]) == y)
    nodes = model.n_nodes
    assert nodes > 5
    # thousands of columns at once at nodes that have their tables already
    wide = np.hstack([X[1000:2000], np.zeros((1000, 4000))])
    model.learn_many(sp.csr_array(wide), y[1000:2000])
    for x, label in zip(as_dicts(X[2000:]), y[2000:].tolist(), strict=True):
        x |= {("late", label, j): 1.0 for j in range(3)}
        model.learn_one(x, label)
    assert_tables_in_order(model)
    assert_survives_a_trip(model)
    assert np.mean(model.predict_many(X) == y) > before + 0.1


def test_columns_that_never_come_back():
    """Every row brings a name of its own, as session ids do: memory grows by what was shown."""
    model = majority_tree(grace_period=5)
    rng = np.random.default_rng(1)
    hits = 0
    for i in range(4000):
        y = int(rng.integers(4))
        x = {("session", i): 1.0, "a": float(y + rng.normal() / 3), "b": float(rng.normal())}
        hits += model.predict_one(x) == y
        model.learn_one(x, y)
    assert hits / 4000 > 0.6
    assert len(model.snapshot()["features"]) == 4002
    # each session is known to the nodes of one path
    per_session = len(state_of(model)["models"]["keys"]) / 4000
    assert per_session <= model.height + 1
    assert sys.getsizeof(model) < 4000 * (model.height + 1) * 100
    assert_survives_a_trip(model)


def test_a_dense_table_that_turns_into_a_hash_has_room_for_its_zeros():
    """A row names many columns whose records are zero: they, too, need slots afterwards."""
    run_isolated(
        """
        from streamtree import LOMTreeClassifier

        model = LOMTreeClassifier(algorithm="paper", learning_rate=0.1)
        for i in range(40):
            model.learn_one({"c0": 1.0, **{f"c{j}": 0.0 for j in range(1, 10)}}, i % 2)
        model.learn_one({f"c{j}": float(j == 0) for j in range(60)}, 0)
        for y in (1, 0, 1, 0):
            model.learn_one({**{f"c{j}": -1.0 for j in range(1, 10)}, "c59": 1.0}, y)
        assert model.n_nodes > 1
        """,
        timeout=60,
    )


def test_a_copy_of_a_table_whose_records_became_zero_takes_as_many_bytes():
    X = np.random.default_rng(0).normal(size=(40, 600))
    model = SoftTreeClassifier()
    model.learn_many(X, np.arange(40) % 2)
    # as it is where memory runs out before a gate has learned anything
    state = copy.deepcopy(model.snapshot())
    state["tree"]["gates"]["records"][:] = 0.0
    model = model.clone()
    model._core.restore(state)
    copied = pickle.loads(pickle.dumps(model))
    assert pickle.dumps(copied) == pickle.dumps(model)
    assert sys.getsizeof(copied) == sys.getsizeof(model)
    again = pickle.loads(pickle.dumps(copied))
    assert pickle.dumps(again) == pickle.dumps(model)
    assert sys.getsizeof(again) == sys.getsizeof(model)
