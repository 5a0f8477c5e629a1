"""Whole models that answer together."""

import numpy as np
import pytest
from river import preprocessing
from support.streams import as_dicts, blobs

from streamtree import (
    LOMTreeClassifier,
    ModelPool,
    ModelTreeClassifier,
    NonGreedyTreeMultiTargetRegressor,
    SelfTerminatingTreeClassifier,
    SoftTreeClassifier,
    SoftTreeRegressor,
)
from streamtree.serialization import to_bytes

MEMORY = 1000


def shards(labels=None):
    X, y = blobs(900, 3, features=4, spread=2.0)
    y = [f"class {i}" for i in y.tolist()] if labels is None else labels(X, y)
    models = [ModelTreeClassifier(), SoftTreeClassifier(), LOMTreeClassifier()]
    for i, model in enumerate(models):
        model.learn_many(X[i:300:3], y[i:300:3])
    return X, y, models


def in_a_loop(models, rows, targets):
    """Answers and weights of a pool in the plainest form: one row after the other."""
    logs, answers, weights = np.zeros(len(models)), [], []
    for x, y in zip(rows, targets, strict=True):
        w = np.exp(logs - logs.max())
        w /= w.sum()
        total, likely = {}, []
        for weight, model in zip(w, models, strict=True):
            said = model.predict_proba_one(x)
            for label, share in said.items():
                total[label] = total.get(label, 0.0) + weight * share
            likely.append(max(said.get(y, 0.0), 1e-3))
            model.learn_one(x, y)
        answers.append(max(total, key=total.get))
        weights.append(w)
        logs = (1 - 1 / MEMORY) * logs + np.log(likely)
        logs -= logs.max()
    w = np.exp(logs - logs.max())
    return answers, w / w.sum()


@pytest.mark.parametrize("size", [600, 70])
def test_a_pool_learns_as_a_loop_does(size):
    X, y, models = shards()
    pool = ModelPool(models)
    np.testing.assert_array_equal(pool.weights, np.full(3, 1 / 3))
    said = [
        pool.test_then_learn_many(X[at : at + size], y[at : at + size])
        for at in range(300, 900, size)
    ]
    before = [to_bytes(model) for model in models]
    expected, weights = in_a_loop(models, as_dicts(X[300:]), y[300:])
    assert np.concatenate(said).tolist() == expected
    np.testing.assert_allclose(pool.weights, weights, rtol=1e-9)
    # the models were copied, and those of the pool are what they would be by themselves
    assert [to_bytes(model) for model in pool.models] == [to_bytes(model) for model in models]
    assert before != [to_bytes(model) for model in pool.models]


def test_probabilities_are_means_by_label():
    X, _, models = shards(lambda X, y: [f"class {i}" for i in y.tolist()])
    models[2] = LOMTreeClassifier()
    models[2].learn_one({0: 1.0}, "another")
    pool = ModelPool(models)
    assert pool.labels == [*dict.fromkeys([*models[0].labels, *models[1].labels]), "another"]
    shares = pool.predict_proba_many(X[:50])
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    x = as_dicts(X[:1])[0]
    said = [model.predict_proba_one(x) for model in models]
    one = {name: sum(part.get(name, 0) for part in said) / 3 for name in pool.labels}
    assert pool.predict_proba_one(x) == pytest.approx(one)
    np.testing.assert_allclose(shares[0], list(one.values()), rtol=1e-12)
    assert pool.predict_many(X[:50]).tolist() == [pool.predict_one(x) for x in as_dicts(X[:50])]


def test_a_model_that_errs_counts_less():
    X = np.random.default_rng(0).normal(size=(1500, 3))
    y = (X[:, 0] > 0).astype(int)
    right, wrong = ModelTreeClassifier(), ModelTreeClassifier()
    right.learn_many(X[:500], y[:500])
    wrong.learn_many(X[:500], 1 - y[:500])
    pool = ModelPool([wrong, right])
    pool.learn_many(X[500:600], y[500:600])
    assert pool.weights[1] > 0.95
    assert np.mean(pool.predict_many(X[600:]) == y[600:]) > 0.9


@pytest.mark.parametrize("offset", [0.0, 1e9, -1e12])
def test_weights_of_numbers_far_from_zero(offset):
    X = np.random.default_rng(0).normal(size=(1000, 3))
    target = offset + X[:, 0]
    good, bad = SoftTreeRegressor(), SoftTreeRegressor()
    good.learn_many(X[:700], target[:700])
    bad.learn_many(X[:700], target[699::-1])
    pool = ModelPool([bad, good])
    pool.learn_many(X[700:], target[700:])
    assert pool.weights[1] > 0.95


def test_a_first_number_far_from_what_is_said_is_no_overflow():
    pool = ModelPool([SoftTreeRegressor(), SoftTreeRegressor()])
    said = pool.test_then_learn_many(np.ones((2, 1)), [1e100, -1e100])
    assert np.isfinite(said).all()
    np.testing.assert_array_equal(pool.weights, [0.5, 0.5])


def test_numbers():
    X, _ = blobs(1200, 3, features=3, spread=1.0)
    target = 4 * X[:, 0] - X[:, 1]
    good, bad = SoftTreeRegressor(), SoftTreeRegressor()
    good.learn_many(X[:600], target[:600])
    bad.learn_many(X[:600], -target[:600])
    pool = ModelPool([good, bad])
    mean = (good.predict_many(X[:9]) + bad.predict_many(X[:9])) / 2
    np.testing.assert_allclose(pool.predict_many(X[:9]), mean, rtol=1e-12)
    said = pool.test_then_learn_many(X[600:], target[600:])
    assert pool.weights[0] > 0.95
    assert np.abs(said[100:] - target[700:]).mean() < 0.2 * np.abs(target).mean()
    x = as_dicts(X[:1])[0]
    assert pool.predict_one(x) == pytest.approx(pool.predict_many(X[:1])[0], rel=1e-12)


def test_labels_that_wait_and_labels_that_can_be_read_once():
    X = np.random.default_rng(0).normal(size=(5000, 2))
    y = [f"label {i}" for i in range(5000)]
    pool = ModelPool([ModelTreeClassifier(), ModelTreeClassifier()])
    said = pool.test_then_learn_many(X, iter(y))
    assert len(said) == 5000
    assert y[-1] not in pool.labels
    assert [model.snapshot()["scaler"]["rows"] for model in pool.models] == [5000, 5000]


def test_a_label_that_one_model_refuses_is_learned_by_none():
    X, y, _ = shards(lambda X, y: (X[:, 0] > 0).tolist())
    pool = ModelPool([ModelTreeClassifier(), SelfTerminatingTreeClassifier(loss="hinge")])
    pool.learn_many(X[:60], y[:60])
    before = [to_bytes(model) for model in pool.models]
    with pytest.raises(ValueError, match="third label"):
        pool.learn_many(X[60:120], [*y[60:119], "third"])
    assert [to_bytes(model) for model in pool.models] == before


def test_what_does_not_fit_is_refused():
    for models in ([], [ModelTreeClassifier(), SoftTreeRegressor()], ["a"],
                   [NonGreedyTreeMultiTargetRegressor()],
                   [preprocessing.StandardScaler() | ModelTreeClassifier()]):
        with pytest.raises(TypeError, match=r"a pool is of (at least one|classifiers)"):
            ModelPool(models)
    X, y, models = shards()
    pool = ModelPool(models)
    before = [to_bytes(model) for model in pool.models]
    for X_bad, y_bad in ((X[:5], y[:4]), (np.full((1, 4), np.inf), y[:1]), (X[:2], ["a", None])):
        with pytest.raises((ValueError, TypeError)):
            pool.test_then_learn_many(X_bad, y_bad)
    assert [to_bytes(model) for model in pool.models] == before
    empty = ModelPool([ModelTreeClassifier(), ModelTreeClassifier()])
    assert empty.predict_one({"a": 1.0}) is None
    assert empty.predict_many(X[:2]).tolist() == [None, None]
    assert empty.test_then_learn_many(X[:2], y[:2]).tolist()[0] is None
