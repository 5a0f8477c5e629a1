"""Counts of the columns of labels: what they tell, what they forget, and what they take."""

import pickle

import numpy as np
import pytest
from scipy import sparse

from streamtree import LOMTreeClassifier

MOST_POSTED = 256


def postings_of(model):
    return model.snapshot()["tree"]["postings"][0]


def row(*words):
    return dict.fromkeys(words, 1.0)


def with_groups(n_labels=12, **params):
    """A model of labels with two words each, which has begun its groups."""
    model = LOMTreeClassifier(max_leaf_classes=4, **params)
    for _ in range(20):
        for label in range(n_labels):
            model.learn_one(row(f"a{label}", f"b{label}"), label)
    assert not model._core.tree.is_whole
    return model


def test_a_label_that_came_once_is_told_by_its_columns():
    model = with_groups()
    model.learn_one(row("x", "y", "z"), "new")
    assert model.predict_one(row("x", "y")) == "new"
    assert model.predict_one(row("a3", "b3")) == 3
    top = model.predict_topk_one(row("x", "y"), 3)
    shares = model.predict_proba_one(row("x", "y"))
    assert top[0] == ("new", pytest.approx(shares["new"]))
    assert sum(shares.values()) == pytest.approx(1.0)
    assert [share for _, share in top] == sorted(shares.values(), reverse=True)[:3]


def test_its_columns_explain_it():
    model = with_groups()
    model.learn_one(row("x", "y", "z"), "new")
    made_of = model.contributions_one(row("x", "y"), "new")
    parts = made_of["features"]
    share = model.predict_proba_one(row("x", "y"))["new"]
    assert made_of["bias"] + sum(parts.values()) == pytest.approx(share)
    assert min(parts["x"], parts["y"]) > 0.1


def test_columns_that_rows_always_have_are_not_counted():
    rng = np.random.default_rng(0)
    model = LOMTreeClassifier(max_leaf_classes=4)
    model.learn_many(rng.normal(size=(600, 3)), rng.integers(12, size=600).tolist())
    counted = postings_of(model)
    # but for the first rows, when nothing is known of columns
    assert len(counted["postings"]) <= 3 * 12


def test_of_many_labels_of_a_column_the_frequent_ones_stay():
    model = with_groups(400)
    for i in range(1200):
        model.learn_one(row("common"), i % 400 if i % 3 else 7)
    postings = postings_of(model)
    column = model._core.features.names.index("common")
    posted = postings["postings"][slice(*postings["starts"][column:column + 2])]
    assert len(posted) == MOST_POSTED
    assert posted["label"][np.argmax(posted["weight"])] == model.labels.index(7)


def test_lists_keep_to_their_part_of_the_bound():
    rng = np.random.default_rng(1)
    n, n_words, bound = 20_000, 3000, 2_000_000
    columns = rng.integers(n_words, size=(n, 8))
    X = sparse.csr_matrix((np.ones(8 * n), columns.ravel(), np.arange(0, 8 * n + 1, 8)))
    X.sum_duplicates()
    y = rng.integers(300, size=n).tolist()
    model = LOMTreeClassifier(max_leaf_classes=16, max_bytes=bound)
    model.learn_many(X, y)
    lengths = np.diff(postings_of(model)["starts"])
    capacities = 2 ** np.ceil(np.log2(lengths[lengths > 0]))
    assert 8 * capacities.sum() <= bound / 4
    assert lengths.sum() > 3000
    kept = pickle.loads(pickle.dumps(model))
    for other in (model, kept):
        other.learn_many(X[:2000], y[:2000])
    assert pickle.dumps(kept) == pickle.dumps(model)


def test_a_label_joins_a_group_with_its_fourth_example():
    model = with_groups()
    for examples in range(1, 5):
        model.learn_one(row("x", "y", f"z{examples}"), "new")
        number = model.labels.index("new")
        group = model.snapshot()["tree"]["labels"]["group"][number]
        assert (group >= 0) == (examples == 4)
        assert model.predict_one(row("x", "y")) == "new"
    # rows of numbers are not counted: there the second one joins
    model = LOMTreeClassifier(max_leaf_classes=4)
    rng = np.random.default_rng(2)
    model.learn_many(rng.normal(size=(400, 3)), rng.integers(8, size=400).tolist())
    for examples in (1, 2):
        model.learn_one({0: 9.0, 1: 9.0, 2: 9.0}, "new")
        assert (model.snapshot()["tree"]["labels"]["group"][-1] >= 0) == (examples == 2)


def test_of_equal_labels_the_one_learned_first_comes_first():
    model = with_groups()
    for x in ({}, row("a1", "a2"), row("a1", "a2", "a3", "b4", "b5"), row("unknown")):
        shares = model.predict_proba_one(x)
        # a stable sort: labels are in the order in which they were learned
        ordered = sorted(model.labels, key=lambda label: -shares[label])
        for count in (1, 3, 12, 99):
            assert [label for label, _ in model.predict_topk_one(x, count)] == ordered[:count]
        assert model.predict_one(x) == ordered[0]


def test_a_saved_model_goes_on_the_same_where_columns_come_and_go():
    model = LOMTreeClassifier(max_leaf_classes=4, max_bytes=6_000_000)
    rng = np.random.default_rng(3)
    labels = rng.integers(12, size=4000)
    rows = [
        {f"a{label}": 1.0, **{f"w{word}": 1.0 for word in rng.integers(4000, size=12)}}
        for label in labels
    ]
    for x, label in zip(rows, labels.tolist(), strict=True):
        model.learn_one(x, label)
    kept = pickle.loads(pickle.dumps(model))
    for x, label in zip(rows[:200], labels[:200].tolist(), strict=True):
        model.learn_one(x, label)
        kept.learn_one(x, label)
    assert kept._core.learned_bytes == model._core.learned_bytes
    assert pickle.dumps(kept) == pickle.dumps(model)
