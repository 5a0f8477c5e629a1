"""That something is learned: prequential accuracy above what simpler models get, and shape."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from river import datasets
from support.lomtrees import majority_tree
from support.streams import as_dicts, blobs, prequential_accuracy, prequential_accuracy_many

from streamtree import LOMTreeClassifier, ModelTreeClassifier


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("classes", "at_least"),
    [(2, 0.95), (5, 0.9), (20, 0.75)],  # measured: .98 to .99, .95 to .97, .80 to .88
)
def test_blobs(classes, at_least, seed):
    X, y = blobs(4000, classes, features=8, spread=2.5, seed=seed)
    assert prequential_accuracy_many(ModelTreeClassifier(), X, y) > at_least


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared", "absolute"])
def test_every_loss_learns(loss):
    X, y = blobs(4000, classes=10, features=8, spread=2.5, seed=1)
    assert prequential_accuracy_many(LOMTreeClassifier(loss=loss), X, y) > 0.75


@pytest.mark.parametrize("loss", ["hinge", "logistic", "absolute"])
def test_the_literal_algorithm_learns(loss):
    X, y = blobs(6000, classes=10, features=8, spread=2.5, seed=1)
    model = LOMTreeClassifier(algorithm="paper", learning_rate=0.05, max_splits=200, loss=loss)
    model.learn_many(X[:4000], y[:4000])
    # on raw values, with majority leaves that split at once: far from the best, far from chance
    assert np.mean(model.predict_many(X[4000:]) == y[4000:]) > 0.4


def test_image_segments():
    rows, labels = zip(*datasets.ImageSegments(), strict=True)
    assert prequential_accuracy(ModelTreeClassifier(), rows, labels) > 0.8


def test_phishing():
    rows, labels = zip(*datasets.Phishing(), strict=True)
    assert prequential_accuracy(ModelTreeClassifier(), rows, labels) > 0.86


@pytest.mark.parametrize("make", [LOMTreeClassifier, ModelTreeClassifier])
def test_a_hundred_classes(make):
    X, y = blobs(20_000, classes=100, features=16, spread=3.0, seed=1)
    model = make()
    assert prequential_accuracy_many(model, X, y) > 0.75  # guessing gives 0.01
    assert np.mean(model.predict_many(X[-2000:]) == y[-2000:]) > 0.9
    tree = model.snapshot()["tree"]
    tree = tree["whole"][0] if "whole" in tree else tree
    depths, votes = model._core.depths(), tree["nodes"]["votes"]
    assert np.average(depths, weights=votes) <= 2 * math.log2(100) + 4


@pytest.mark.parametrize("classes", [500, 1000])
def test_depth_is_logarithmic_in_the_classes(classes):
    """Chains of a hundred levels are what a tree without a reason to split ends in."""
    X, y = blobs(30_000, classes, features=16, spread=3.0, seed=2)
    model = LOMTreeClassifier(leaf_model="majority")
    model.learn_many(X, y)
    assert model.n_splits > classes / 4
    assert model.summary["mean_depth"] <= 2 * math.log2(classes) + 4
    assert model.height <= 4 * math.log2(classes) + 8
    assert np.mean(model.predict_many(X) == y) > 0.2  # guessing gives 0.002


def test_sparse_words_of_many_classes():
    rng = np.random.default_rng(3)
    classes, words, n = 60, 3000, 12_000
    y = rng.integers(classes, size=n)
    preferred = rng.integers(words, size=(classes, 30))
    columns = np.hstack([
        np.take_along_axis(preferred[y], rng.integers(30, size=(n, 8)), axis=1),
        rng.integers(words, size=(n, 8)),
    ])
    X = sp.csr_array((np.ones(n * 16), columns.ravel(), np.arange(0, n * 16 + 1, 16)), (n, words))
    assert prequential_accuracy_many(ModelTreeClassifier(), X, y) > 0.4  # guessing gives 0.017


def test_on_random_labels_it_says_the_majority():
    lost = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(8000, 6))
        y = rng.choice(4, size=8000, p=[0.55, 0.2, 0.15, 0.1])
        model = ModelTreeClassifier()
        accuracy = prequential_accuracy_many(model, X, y)
        lost.append(np.bincount(y).max() / 8000 - accuracy)
        assert model.n_splits < 160  # 8000 rows are 400 grace periods, tested at a level of 0.3
    # a split by chance leaves leaves of few votes for a while
    assert np.mean(lost) < 0.025
    assert max(lost) < 0.08


@pytest.mark.parametrize(
    ("make", "least"),
    [(majority_tree, 0.88), (LOMTreeClassifier, 0.875), (ModelTreeClassifier, 0.875)],
)
@pytest.mark.parametrize("seed", range(4))
def test_it_never_falls_below_the_majority_by_much(seed, make, least):
    """Unbalanced and overlapping: nine of ten examples are of one class."""
    rng = np.random.default_rng(seed)
    y = (rng.random(6000) < 0.1).astype(int)
    X = rng.normal(size=(6000, 4)) + y[:, None] * 0.5
    assert prequential_accuracy_many(make(), X, y) > least


def test_a_stream_that_changes_is_followed():
    """All labels change places half way: what the leaves say must turn over."""
    X, y = blobs(8000, classes=4, features=5, spread=3.0, seed=4)
    y = np.where(np.arange(8000) < 3000, y, (y + 1) % 4)
    model = ModelTreeClassifier()
    model.learn_many(X[:6000], y[:6000])
    late = prequential_accuracy_many(model, X[6000:], y[6000:])
    assert late > 0.5  # a model that stopped at 3000 rows gets them all wrong


def test_sorted_by_class_it_degrades_gracefully():
    X, y = blobs(4000, classes=5, features=5, spread=4.0, seed=5)
    order = np.argsort(y, kind="stable")
    model = ModelTreeClassifier()
    model.learn_many(X[order], y[order])
    assert np.isfinite(model.predict_proba_many(X)).all()
    # the rule starves, says the paper; at the least, the class seen last is known
    assert np.mean(model.predict_many(X[y == 4]) == 4) > 0.5


def test_probabilities_mean_something():
    """Log loss below that of the class shares, and calibrated to a few points."""
    X, y = blobs(12_000, classes=4, features=4, spread=0.8, seed=6)
    model = ModelTreeClassifier()
    model.learn_many(X[:8000], y[:8000])
    proba = model.predict_proba_many(X[8000:])[:, np.argsort(model.labels)]
    truth = y[8000:]
    of_truth = proba[np.arange(4000), truth]
    assert -np.log(of_truth).mean() < 0.9 * math.log(4)
    confident = proba.max(axis=1)
    right = proba.argmax(axis=1) == truth
    # votes are of the whole past, in which the tree was worse: too modest rather than too sure
    assert confident.mean() == pytest.approx(right.mean(), abs=0.1)


def test_order_of_the_columns_does_not_matter():
    X, y = blobs(1500, classes=16, features=6, spread=2.5, seed=7)
    names = list("abcdef")
    models = [LOMTreeClassifier(seed=3, max_leaf_classes=3) for _ in range(2)]
    shuffled = np.random.default_rng(0)
    for x, label in zip(as_dicts(X, names), y.tolist(), strict=True):
        other = {name: x[name] for name in shuffled.permutation(names).tolist()}
        a, b = models[0].predict_proba_one(x), models[1].predict_proba_one(other)
        assert a == pytest.approx(b, rel=1e-6)  # sums in another order; river's own bound
        models[0].learn_one(x, label)
        models[1].learn_one(other, label)
    assert models[0].n_splits == models[1].n_splits > 5


def test_votes_go_on_to_the_children_of_a_leaf():
    X, y = blobs(3000, classes=4, features=4, spread=1.0)
    model = ModelTreeClassifier(grace_period=5)
    model.learn_many(X, y)
    tree = model.snapshot()["tree"]
    leaves = tree["links"]["left"] < 0
    assert leaves.sum() > 5
    assert tree["nodes"]["votes"][leaves].sum() == pytest.approx(len(X))


def test_weights_shift_what_is_learned():
    """Examples of weight 10 outvote ten times as many."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(3000, 2))
    y = rng.integers(2, size=3000)
    model = ModelTreeClassifier()
    model.learn_many(X, y, np.where(y == 1, 3.0, 1.0))
    assert np.mean(model.predict_many(X) == 1) > 0.9
    assert model.predict_proba_one({0: 0.0, 1: 0.0})[1] == pytest.approx(0.75, abs=0.15)
