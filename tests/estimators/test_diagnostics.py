"""Models by the theory: nodes against rows sent by hand, leaves, and the recorder."""

import doctest
import math
import pickle
from datetime import date

import numpy as np
import pandas as pd
import pytest
from reference.lomtree import ReferenceLOMTree
from river.preprocessing import StandardScaler
from scipy import sparse
from support.estimators import TREES
from support.lomtrees import majority_tree
from support.streams import as_dicts, blobs, changing_rows

import streamtree
from streamtree import (
    ForestClassifier,
    ModelTreeClassifier,
    NonGreedyTreeClassifier,
    criteria,
    diagnostics,
)
from streamtree.base import StreamTreeMultiTargetRegressor
from streamtree.diagnostics import Recorder, leaf_of, split_counts, split_summary, tree_criteria

CLASSIFIERS = [
    getattr(streamtree, name) for name in streamtree.__all__ if name.endswith("Classifier")
]
SETTINGS = [
    {"learning_rate": 4.0},
    {"learning_rate": 0.05, "algorithm": "paper", "max_splits": 30},
]


def grown(settings, rows, labels, weights=None):
    """A model and its reference after the same examples."""
    model = majority_tree(**settings)
    reference = ReferenceLOMTree(**model._get_params())
    for i, (x, y) in enumerate(zip(rows, labels, strict=True)):
        w = 1.0 if weights is None else weights[i]
        model.learn_one(x, y, w=w)
        reference.learn_one(x, y, w)
    assert model.n_splits >= 5
    return model, reference


@pytest.fixture(scope="module", params=SETTINGS, ids=["stream", "paper"])
def tree(request):
    rows, labels = changing_rows(600, classes=6, seed=1)
    model, reference = grown(request.param, rows, labels)
    return model, reference, rows, labels


def ancestors(node):
    """(node above, whether it is the right side) up to the root."""
    while node.parent is not None:
        yield node.parent, node is node.parent.right
        node = node.parent


def inner(model):
    return np.flatnonzero(model.snapshot()["tree"]["links"]["left"] >= 0).tolist()


# -------------------------------------------------------------------------------- nodes


def test_rows_end_in_the_leaves_to_which_the_reference_sends_them(tree):
    model, reference, rows, _ = tree
    expected = [reference.leaf_of(x).number for x in rows]
    assert len(set(expected)) > 5
    assert leaf_of(model, rows).tolist() == expected
    assert leaf_of(model, tuple(rows[:3])).tolist() == expected[:3]
    assert leaf_of(model, []).tolist() == []


def test_counts_of_a_node_are_those_of_rows_sent_by_hand(tree):
    model, reference, rows, labels = tree
    names = list(dict.fromkeys(labels))
    expected = {node: np.zeros((2, len(names))) for node in inner(model)}
    for x, y in zip(rows, labels, strict=True):
        for node, went_right in ancestors(reference.leaf_of(x)):
            expected[node.number][int(went_right), names.index(y)] += 1
    assert any(table.any() for table in expected.values())
    for node, table in expected.items():
        np.testing.assert_array_equal(split_counts(model, node, rows, labels), table)


def test_counts_of_a_node_are_what_the_leaves_below_it_hold(tree):
    model, reference, _, _ = tree
    names = model.labels
    expected = {node: np.zeros((2, len(names))) for node in inner(model)}
    for leaf in reference.nodes:
        if leaf.is_leaf:
            for node, is_right in ancestors(leaf):
                for y, weight in leaf.votes.items():
                    expected[node.number][int(is_right), names.index(y)] += weight
    for node, table in expected.items():
        # the reference adds the same numbers in another order
        np.testing.assert_allclose(split_counts(model, node), table, rtol=1e-9, atol=1e-9)


def test_criteria_of_rows_and_leaves_are_those_of_their_counts(tree):
    model, reference, rows, labels = tree
    names = model.labels
    of_rows, of_leaves = np.zeros((2, len(reference.nodes), len(names)))
    for x, y in zip(rows, labels, strict=True):
        of_rows[reference.leaf_of(x).number, names.index(y)] += 1
    for leaf in reference.nodes:
        for y, weight in leaf.votes.items() if leaf.is_leaf else ():
            of_leaves[leaf.number, names.index(y)] += weight
    for table, found in (
        (of_rows, tree_criteria(model, rows, labels, constant=3.0)),
        (of_leaves, tree_criteria(model, constant=3.0)),
    ):
        expected = {
            "entropy": criteria.entropy(table),
            "gini": criteria.gini(table),
            "modified_gini": criteria.modified_gini(table, 3.0),
            "heaviest_leaf": table.sum(axis=1).max() / table.sum(),
        }
        assert found == pytest.approx(expected, rel=1e-9)


def test_every_split_of_a_tree_keeps_the_lemmas(tree):
    model, _, rows, labels = tree
    for node in inner(model):
        for given in ((), (rows, labels)):
            if not np.any(split_counts(model, node, *given)):
                with pytest.raises(ValueError, match=f"no weight has passed node {node}"):
                    split_summary(model, node, *given)
                continue
            found = split_summary(model, node, *given)
            assert 0 <= found["objective"] <= 1
            assert found["least_balance"] - 1e-7 <= found["balance"]
            assert found["balance"] <= found["greatest_balance"] + 1e-7
            assert found["purity"] <= found["greatest_purity"] + 1e-12
            assert found["entropy_drop"] >= found["least_entropy_drop"] - 1e-12
            assert found["gini_drop"] == pytest.approx(found["least_gini_drop"], abs=1e-12)
    root = split_summary(model, 0, rows, labels)
    assert root["weight"] == len(rows)
    assert root["objective"] > 0.3


@pytest.mark.parametrize("settings", SETTINGS, ids=["stream", "paper"])
def test_every_form_of_rows_ends_in_the_same_leaves(settings):
    X, y = blobs(500, classes=5, features=6, spread=3.0, seed=2)
    X[np.abs(X) < 0.4] = 0.0  # sparse matrices leave these out
    names = [f"x{j}" for j in range(6)]
    model = majority_tree(**settings)
    model.learn_many(X, y)
    leaves = leaf_of(model, X)
    assert len(set(leaves.tolist())) > 3
    said = [model.labels[i] for i in model.snapshot()["tree"]["nodes"]["majority"][leaves]]
    assert said == model.predict_many(X).tolist()
    for rows in (X, sparse.csr_matrix(X), sparse.coo_array(X), as_dicts(X), X[:, :]):
        np.testing.assert_array_equal(leaf_of(model, rows), leaves)
    # columns that the model does not know, and masked cells, which are missing
    np.testing.assert_array_equal(leaf_of(model, np.hstack([X, X])), leaves)
    masked = np.ma.masked_array(X, mask=np.zeros_like(X, dtype=bool))
    masked[::7, 2] = np.ma.masked
    gaps = [{j: v for j, v in x.items() if j != 2 or i % 7} for i, x in enumerate(as_dicts(X))]
    np.testing.assert_array_equal(leaf_of(model, masked), leaf_of(model, gaps))
    named = majority_tree(**settings)
    frame = pd.DataFrame(X, columns=names).assign(kind=np.where(y > 2, "high", "low"))
    named.learn_many(frame, y)
    np.testing.assert_array_equal(
        leaf_of(named, frame), leaf_of(named, frame.to_dict(orient="records"))
    )


def likely_path(steps):
    """The nodes on the way to where a row ends: in a soft tree by the larger share of each gate."""
    if steps[-1]["node"] is not None:
        return [step["node"] for step in steps]
    leaves = [step for step in steps[:-1] if step["score"] is None]
    return [max(leaves, key=lambda step: step["share"])["node"]]


@pytest.mark.slow
@pytest.mark.parametrize("kind", TREES, ids=lambda kind: kind.__name__)
def test_a_row_ends_where_its_decision_path_ends(kind):
    X, y = blobs(600, classes=3, features=4, spread=3.0, seed=5)
    model = kind()
    if isinstance(model, StreamTreeMultiTargetRegressor):
        model.learn_many(X, X[:, :2] * y[:, None])
    else:
        model.learn_many(X, y)
    rows = as_dicts(X[:100])
    paths = [likely_path(model.decision_path(x)) for x in rows]
    assert leaf_of(model, X[:100]).tolist() == [path[-1] for path in paths]
    if isinstance(model, ModelTreeClassifier):
        assert model.n_splits
        left, right = split_counts(model, 0, rows, y[:100])
        children = model.snapshot()["tree"]["links"]["left"][0]
        goes_left = np.array([path[1] == children for path in paths])
        names = list(dict.fromkeys(y[:100].tolist()))
        assert left.tolist() == [(goes_left & (y[:100] == name)).sum() for name in names]
        assert right.tolist() == [(~goes_left & (y[:100] == name)).sum() for name in names]
        assert sum(map(np.sum, split_counts(model))) == pytest.approx(len(y))
        assert split_summary(model)["weight"] == pytest.approx(len(y))


def test_a_category_is_not_the_feature_of_the_same_pair():
    model = majority_tree(grace_period=1)
    for i in range(200):
        model.learn_one({"a": "xy"[i % 2], ("a", "x"): i % 3}, i % 2)
    rows = [{"a": "x"}, {("a", "x"): 1.0}, {"a": "y", ("a", "x"): 2}, {"a": np.str_("x")}, {}]
    assert model.n_splits
    majority = model.snapshot()["tree"]["nodes"]["majority"]
    for x, leaf in zip(rows, leaf_of(model, rows), strict=True):
        assert model.predict_one(x) == model.labels[majority[leaf]]
    assert leaf_of(model, rows)[0] == leaf_of(model, rows)[3]


def test_bad_questions_are_refused_and_leave_no_trace():
    X, y = blobs(300, classes=4, features=3, spread=3.0)
    model = majority_tree()
    with pytest.raises(ValueError, match="LOMTreeClassifier has learned no weight"):
        tree_criteria(model)
    model.learn_many(X, y)
    before = pickle.dumps(model)
    leaf = int(np.flatnonzero(model.snapshot()["tree"]["links"]["left"] < 0)[0])
    for call, error, message in [
        (lambda: split_counts(model, leaf), ValueError, f"node {leaf} is a leaf"),
        (lambda: split_counts(model, model.n_nodes), ValueError, "node must be from 0"),
        (lambda: split_counts(model, 0, X), ValueError, "X and y go together"),
        (lambda: split_counts(model, 0, X, y[:5]), ValueError, "300 rows, y has 5 labels"),
        (lambda: tree_criteria(model, y=y), ValueError, "X and y go together"),
        (lambda: tree_criteria(model, X[:0], y[:0]), ValueError, "X has no weight"),
        (lambda: leaf_of(model, [{0: math.inf}]), ValueError, "feature 0: .*infinite"),
        (lambda: leaf_of(model, [{0: [1]}]), TypeError, "feature 0: .*list"),
        (lambda: leaf_of(model, X + math.inf), ValueError, "infinite"),
        (lambda: leaf_of(model, 5), TypeError, "X must be"),
        (lambda: leaf_of(5, X), TypeError, "estimator of streamtree, got int"),
        (lambda: split_counts(NonGreedyTreeClassifier()), TypeError, "must be a LOMTreeClassifier"),
        (lambda: split_counts(StandardScaler() | model), TypeError, "must be a .*, got Pipeline"),
        (lambda: tree_criteria(object()), TypeError, "classifier of streamtree, got object"),
        (lambda: tree_criteria(model, constant=1), ValueError, "constant must be"),
    ]:
        with pytest.raises(error, match=message):
            call()
    assert pickle.dumps(model) == before


# ----------------------------------------------------------------------------- recorder


@pytest.mark.parametrize("kind", CLASSIFIERS, ids=lambda kind: kind.__name__)
def test_a_recorder_takes_leaves_with_class_weights_and_refuses_others(kind):
    if kind is ForestClassifier:
        with pytest.raises(TypeError, match=r"a single tree, .* got ForestClassifier"):
            Recorder(kind())
        with pytest.raises(TypeError, match=r"a single tree, .* got ForestClassifier"):
            leaf_of(kind(), [{"a": 1.0}])
        return
    with pytest.raises(TypeError, match=r"a single tree, .* got Pipeline"):
        Recorder(StandardScaler() | kind())
    if kind is NonGreedyTreeClassifier or kind.__name__ == "SoftTreeClassifier":
        with pytest.raises(TypeError, match=f"{kind.__name__} keeps no class weights"):
            Recorder(kind())
        return
    X, y = blobs(800, classes=4, features=3, spread=4.0, seed=6)
    recorder = Recorder(kind())
    recorder.learn_many(X, y)
    record = recorder.record()
    assert record["n_leaves"] == recorder.model.n_leaves > 1
    assert record["height"] == recorder.model.height
    assert 0 <= record["gini"] < criteria.gini(np.bincount(y))


def test_a_recorder_sees_what_a_loop_by_hand_sees():
    X, y = blobs(700, classes=5, features=4, spread=2.0, seed=3)
    rows, labels = as_dicts(X), y.tolist()
    test_rows, test_labels = rows[600:], labels[600:]
    weights = np.random.default_rng(0).integers(0, 3, 600).tolist()
    model = majority_tree()
    recorder = Recorder(majority_tree(), test_rows, test_labels, spacing=1.0, constant=3.0)
    expected, seen, wrong, marked = [], 0.0, 0.0, (0.0, 0.0)
    n_nodes = 1
    for i, (x, label, w) in enumerate(zip(rows[:600], labels, weights, strict=False), start=1):
        wrong += w * (model.predict_one(x) != label)
        seen += w
        model.learn_one(x, label, w=w)
        recorder.learn_one(x, label, w=w)
        if model.n_nodes > n_nodes or i == 600:
            n_nodes = model.n_nodes
            wrong_on_test = sum(
                model.predict_one(x) != label
                for x, label in zip(test_rows, test_labels, strict=True)
            )
            on_test = tree_criteria(model, test_rows, test_labels, constant=3.0)
            expected.append(
                {
                    "n_examples": i,
                    "n_splits": model.n_splits,
                    "n_nodes": model.n_nodes,
                    "n_leaves": model.n_leaves,
                    "height": model.height,
                    "mean_depth": pytest.approx(model.summary["mean_depth"]),
                    **tree_criteria(model, constant=3.0),
                    "error": (wrong - marked[1]) / (seen - marked[0]),
                    "mean_error": wrong / seen,
                    "test_error": wrong_on_test / len(test_labels),
                    **{f"test_{name}": value for name, value in on_test.items()},
                }
            )
            marked = (seen, wrong)
    last = recorder.record()
    assert len(expected) > 5
    assert recorder.records == expected
    assert recorder.record() is last
    assert pickle.dumps(recorder.model) == pickle.dumps(model)


def test_criteria_and_error_fall_as_the_tree_grows():
    X, y = blobs(4_000, classes=20, features=10, spread=1.5, seed=4)
    recorder = Recorder(majority_tree(), X[3_000:], y[3_000:], spacing=1.2)
    for start in range(0, 3_000, 20):
        recorder.learn_many(X[start : start + 20], y[start : start + 20])
    recorder.record()
    first, last = recorder.records[0], recorder.records[-1]
    splits = [record["n_splits"] for record in recorder.records]
    assert splits == sorted(splits)
    assert 5 < len(splits) < 30
    for name in ("entropy", "gini", "modified_gini", "error", "test_error", "test_gini"):
        assert last[name] < 0.6 * first[name], name
    low, high = criteria.criterion_bounds(
        "gini", 20, last["n_splits"], heaviest_leaf=last["heaviest_leaf"]
    )
    assert low <= last["gini"] <= high


def test_a_batch_is_recorded_as_a_loop_over_its_rows():
    X, y = blobs(300, classes=3, features=3, spread=4.0)
    weights = np.random.default_rng(0).integers(0, 3, 300)
    by_row, by_batch = Recorder(majority_tree()), Recorder(majority_tree())
    for x, label, w in zip(as_dicts(X), y.tolist(), weights.tolist(), strict=True):
        by_row.learn_one(x, label, w=w)
    frame = pd.DataFrame(X, columns=[0, 1, 2])
    by_batch.learn_many(frame[:100], pd.Series(y[:100]), weights[:100])
    by_batch.learn_many(X[100:], y[100:].tolist(), weights[100:])
    by_row.record()
    assert by_batch.record()["mean_error"] == by_row.records[-1]["mean_error"]
    assert pickle.dumps(by_batch.model) == pickle.dumps(by_row.model)


def test_labels_that_a_frame_has_no_type_for_are_recorded_as_what_they_are():
    frame = pytest.importorskip("polars").DataFrame({"a": [0.0, 1.0] * 100})
    labels = [date(2025, 1, 1), "x"] * 100
    recorder = Recorder(majority_tree(), frame[:50], labels[:50])
    recorder.learn_many(frame, labels)
    last = recorder.record()
    assert last["mean_error"] < 0.2
    assert last["test_error"] == 0.0


def test_bad_examples_change_neither_model_nor_recorder():
    X, y = blobs(200, classes=3, features=3, spread=4.0)
    recorder = Recorder(majority_tree())
    recorder.learn_many(X, y)
    before = pickle.dumps(recorder)
    with pytest.raises(ValueError, match="infinite"):
        recorder.learn_one({0: math.inf}, 1)
    with pytest.raises(ValueError, match="200 rows, y has 3"):
        recorder.learn_many(X, y[:3])
    with pytest.raises(ValueError, match="w must be"):
        recorder.learn_one({0: 1.0}, 1, w=-1.0)
    assert pickle.dumps(recorder) == before


def test_a_recorder_refuses_bad_settings_and_empty_models():
    X, y = blobs(20, classes=3, features=3, spread=4.0)
    for call, message in [
        (lambda: Recorder(majority_tree(), X), "X_test and y_test go together"),
        (lambda: Recorder(majority_tree(), X[:0], y[:0]), "X_test has no rows"),
        (lambda: Recorder(majority_tree(), X, y[:3]), "20 rows, y has 3"),
        (lambda: Recorder(majority_tree(), spacing=0.5), "spacing must be"),
        (lambda: Recorder(majority_tree(), constant=2), "constant must be"),
        (lambda: Recorder(majority_tree()).record(), "has learned no weight"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="a classifier of streamtree"):
        Recorder(streamtree.NonGreedyTreeRegressor())


def test_all_formulas_are_offered_and_the_examples_run():
    formulas = {name for name in criteria.__all__ if name.islower()} - {"check_constant"}
    assert formulas <= set(diagnostics.__all__)
    result = doctest.testmod(diagnostics)
    assert result.attempted > 0
    assert result.failed == 0
