"""Columns whose scales nobody knows: shifts, powers of ten, constants, zeros, the extremes."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from support.estimators import is_finite
from support.streams import as_dicts, blobs, prequential_accuracy_many

from streamtree import LOMTreeClassifier, ModelTreeClassifier


def mean_accuracy(change, classes):
    accuracies = []
    for seed in range(5):
        X, y = blobs(3000, classes=classes, features=8, spread=2.5, seed=seed)
        accuracies.append(prequential_accuracy_many(ModelTreeClassifier(), change(X), y))
    return float(np.mean(accuracies))


CHANGES = {
    "all shifted by 10^4": lambda X: X + 1e4,
    "each shifted by another 10^4": lambda X: X + 1e4 * np.arange(X.shape[1]) * (-1) ** X.shape[1],
    "one shifted by 10^4": lambda X: X + np.r_[1e4, np.zeros(X.shape[1] - 1)],
    "all times 10^3": lambda X: X * 1e3,
    "one times 10^3": lambda X: X * np.r_[1e3, np.ones(X.shape[1] - 1)],
    "from 10^-6 to 10^8": lambda X: X * 10.0 ** np.arange(-6, 2 * X.shape[1] - 6, 2),
    "both": lambda X: (X + 1e4) * 10.0 ** np.arange(-3, X.shape[1] - 3),
    "with constant columns": lambda X: np.hstack([X, np.full((len(X), 3), -7e5)]),
}


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("change", CHANGES)
def test_units_and_origins_do_not_matter(change, classes):
    plain = mean_accuracy(lambda X: X, classes)
    assert plain > {2: 0.95, 10: 0.8}[classes]
    # A shifted column takes a few rows longer to be called dense and a constant one shortens
    # the steps: in the mean of five streams that may cost some rows, not some points.
    assert mean_accuracy(CHANGES[change], classes) == pytest.approx(plain, abs=0.03)


def test_a_power_of_two_changes_no_prediction():
    """Such a factor rounds nothing, so the scaled rows are the same to the last bit."""
    X, y = blobs(500, classes=5, features=4, spread=2.0)
    factors = np.array([2.0**40, 0.5, 1.0, 2.0**-30])
    plain, scaled = ModelTreeClassifier(), ModelTreeClassifier()
    for part in np.array_split(np.arange(500), 10):
        assert np.array_equal(plain.predict_many(X[part]), scaled.predict_many(X[part] * factors))
        plain.learn_many(X[part], y[part])
        scaled.learn_many(X[part] * factors, y[part])
    assert pickle.dumps(plain.snapshot()["tree"]) == pickle.dumps(scaled.snapshot()["tree"])


def sparse_stream(n=400, seed=0):
    """Whole numbers in 30 columns, of which one half are zero most of the time."""
    X, y = blobs(n, classes=5, features=30, spread=3.0, seed=seed)
    rng = np.random.default_rng(seed)
    X = np.round(X)
    X[:, :15] *= rng.random((n, 15)) < 0.1
    return X, y


@pytest.mark.parametrize("algorithm", ["stream", "paper"])
def test_a_zero_that_is_stored_is_a_zero_that_is_not(algorithm):
    X, y = sparse_stream()
    stored = sp.csr_array(
        (X.ravel(), np.tile(np.arange(30), len(X)), np.arange(0, X.size + 1, 30)), shape=X.shape
    )
    assert stored.nnz == X.size > sp.csr_array(X).nnz
    params = {"algorithm": algorithm, "learning_rate": 0.01, "grace_period": 5}
    params["max_leaf_classes"] = 2
    models = [LOMTreeClassifier(**params) for _ in range(3)]
    models[0].learn_many(stored, y)
    models[1].learn_many(sp.csr_array(X), y)
    models[2].learn_many(X, y)
    assert len({pickle.dumps(model) for model in models}) == 1
    assert models[0].n_splits > 1
    assert np.array_equal(models[0].predict_many(stored), models[0].predict_many(sp.csr_array(X)))


@pytest.mark.parametrize("rows", [1, 30])
def test_a_row_of_weight_0_implies_no_zeros(rows):
    """Nor does it take back those that others implied in columns that its batch does not have."""
    X, y = blobs(60, classes=2, features=3, spread=2.0)
    X, w = sp.csr_array(X), np.r_[np.ones(30), np.arange(30) % 3]
    weighted = ModelTreeClassifier()
    weighted.learn_many(X[:30], y[:30])
    alone = pickle.loads(pickle.dumps(weighted))
    for i in range(30, 60, rows):
        weighted.learn_many(X[i : i + rows, :2], y[i : i + rows], w[i : i + rows])
    alone.learn_many(X[30:, :2][w[30:] > 0], y[30:][w[30:] > 0], w[30:][w[30:] > 0])
    assert pickle.dumps(weighted) == pickle.dumps(alone)


def test_zero_is_a_value_where_a_column_is_dense_and_nothing_where_it_is_sparse():
    rng = np.random.default_rng(2)
    model = ModelTreeClassifier(grace_period=5)
    for _ in range(400):
        y = int(rng.integers(2))
        x = {"dense": 10.0 * y + float(rng.normal()), "noise": float(rng.normal())}
        if rng.random() < 0.1:
            x["word"] = 1.0
        model.learn_one(x, y)
    state = model.snapshot()
    dense = dict(zip(state["features"], state["scaler"]["columns"]["is_dense"], strict=True))
    assert dense == {"dense": 1, "noise": 1, "word": 0}
    assert model.predict_proba_one({"word": 0.0}) == model.predict_proba_one({})
    assert model.predict_one({"dense": 0.0, "noise": 0.0}) == 0
    assert model.predict_one({"dense": 10.0, "noise": 0.0}) == 1


def test_absent_dense_features_count_as_their_mean():
    rng = np.random.default_rng(3)
    model = ModelTreeClassifier(grace_period=5)
    for _ in range(400):
        y = int(rng.integers(2))
        model.learn_one({"a": 50.0 + 4.0 * y + rng.normal(), "b": float(rng.normal())}, y)
    column = model.snapshot()["scaler"]["columns"][model.snapshot()["features"].index("a")]
    at_mean = {"a": float(column["center"]), "b": 0.3}
    assert model.predict_proba_one({"b": 0.3}) == model.predict_proba_one(at_mean)


def test_rare_words_are_learned():
    """Indicators that are always 1 where they stand: centred, they would vanish."""
    rng = np.random.default_rng(4)
    model = ModelTreeClassifier(grace_period=5)
    hits = 0
    for i in range(4000):
        y = int(rng.integers(20))
        x = {("word", 100 * y + int(rng.integers(3))): 1.0, ("word", int(rng.integers(90))): 1.0}
        hits += i >= 2000 and model.predict_one(x) == y
        model.learn_one(x, y)
    assert hits / 2000 > 0.5  # guessing gives 0.05


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, 1e9, 1e-9, 1e300, 1e-300, 5e-324, 1.7e308])
def test_a_constant_column_does_no_harm(value):
    accuracies = []
    for column in (np.empty((2000, 0)), np.full((2000, 1), value)):
        X, y = blobs(2000, classes=5, features=6, spread=2.5, seed=6)
        model = ModelTreeClassifier()
        accuracies.append(prequential_accuracy_many(model, np.hstack([X, column]), y))
        assert np.isfinite(model.predict_proba_many(np.hstack([X, column]))).all()
        assert is_finite(model.snapshot()["tree"])
    # the column is one more offset: other splits, as good
    assert accuracies[1] == pytest.approx(accuracies[0], abs=0.04)


@pytest.mark.parametrize(
    "extreme",
    [1e300, -1e300, 1.7e308, 1e154, 1e-300, -1e-300, 5e-324, 2.2e-308, 1e-154],
)
@pytest.mark.parametrize("share", [0.002, 0.5, 1.0])
@pytest.mark.parametrize("algorithm", ["stream", "paper"])
def test_extreme_magnitudes_never_give_nan(algorithm, share, extreme):
    X, y = blobs(1000, classes=4, features=5, spread=3.0, seed=7)
    rng = np.random.default_rng(7)
    wild = rng.random(1000) < share
    X[wild, 0] = extreme * rng.uniform(-1.0, 1.0, size=wild.sum())
    X[wild, 1] = extreme
    model = LOMTreeClassifier(algorithm=algorithm, max_splits=20)
    for part in np.array_split(np.arange(1000), 4):
        model.learn_many(X[part], y[part])
        proba = model.predict_proba_many(X)
        assert np.isfinite(proba).all()
        assert np.allclose(proba.sum(axis=1), 1.0, rtol=0, atol=1e-9)  # river's own bound
    assert set(model.predict_many(X).tolist()) <= set(model.labels)
    if algorithm == "stream":
        # the other three columns still separate the classes
        assert np.mean(model.predict_many(X) == y) > 0.6
        assert is_finite(model.snapshot()["tree"])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("column", "value"), [(0, 1e4), (0, -1e6), (slice(None), 1e5)], ids=["one", "far", "all"]
)
def test_one_outlier_does_not_spoil_a_stream(column, value, seed):
    X, y = blobs(4000, classes=4, features=5, spread=3.0, seed=seed)
    plain = prequential_accuracy_many(ModelTreeClassifier(), X, y)
    X[300, column] = value
    # a sentinel costs the rows until the spread is measured again, not the column
    assert prequential_accuracy_many(ModelTreeClassifier(), X, y) > plain - 0.05


@pytest.mark.parametrize("value", [99999.0, -1e6, 1e12])
def test_sentinels_in_every_column_do_not_flatten_the_rest(value):
    X, y = blobs(4000, classes=4, features=5, spread=3.0, seed=2)
    plain = prequential_accuracy_many(ModelTreeClassifier(), X, y)
    X[300::400] = value
    # nine of four thousand rows carry nothing: a point for them, one for what they disturb
    assert prequential_accuracy_many(ModelTreeClassifier(), X, y) > plain - 0.02


def test_scales_may_change_later():
    """A column that starts tiny and grows: clipped at first, measured anew as it goes on."""
    X, y = blobs(6000, classes=4, features=5, spread=3.0, seed=10)
    X[:200] *= 1e-3
    model = ModelTreeClassifier()
    model.learn_many(X[:3000], y[:3000])
    assert prequential_accuracy_many(model, X[3000:], y[3000:]) > 0.8


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7, 0.95])
def test_dict_without_a_key_differs_from_zero_only_by_the_key(share):
    """A column that most rows lack is sparse: leaving it out or giving 0 predicts the same."""
    rng = np.random.default_rng(5)
    model = ModelTreeClassifier(grace_period=5)
    rows = []
    for _ in range(300):
        y = int(rng.integers(3))
        x = {"a": float(y + rng.normal())}
        if rng.random() < share:
            x["maybe"] = float(rng.integers(1, 4))
        rows.append(x)
        model.learn_one(x, y)
    column = model.snapshot()["scaler"]["columns"][model.snapshot()["features"].index("maybe")]
    assert column["is_dense"] == (share > 0.5)
    for x in rows:
        if "maybe" not in x and share < 0.5:
            assert model.predict_proba_one({**x, "maybe": 0.0}) == model.predict_proba_one(x)


def test_accuracy_does_not_depend_on_the_route():
    X, y = sparse_stream(2000)
    models = [ModelTreeClassifier() for _ in range(3)]
    accuracy = [
        prequential_accuracy_many(models[0], X, y),
        prequential_accuracy_many(models[1], sp.csr_array(X), y),
        np.mean([
            [models[2].predict_one(x) == label, models[2].learn_one(x, label)][0]
            for x, label in zip(as_dicts(X), y.tolist(), strict=True)
        ]),
    ]
    assert accuracy[0] == accuracy[1]
    assert pickle.dumps(models[0]) == pickle.dumps(models[1]) == pickle.dumps(models[2])
    # the loop asks after every row, the others every fifty
    assert accuracy[2] >= accuracy[0] - 0.02 > 0.6


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_what_the_two_values_of_a_column_are_called_matters_little(share):
    rng = np.random.default_rng(7)
    X = (rng.random((4000, 25)) < share).astype(float)
    score = X @ rng.normal(size=25)
    y = (score > np.median(score)).astype(int)
    by_bits, *others = [
        prequential_accuracy_many(ModelTreeClassifier(), change, y)
        for change in (X, 2 * X - 1, X + 1)
    ]
    assert by_bits > max(others) - 0.06


def test_a_bit_is_centred_where_its_zeros_are_values():
    rng = np.random.default_rng(3)
    bits = (rng.random(400) < 0.4).astype(float)
    y = rng.integers(2, size=400)
    given, absent = ModelTreeClassifier(), ModelTreeClassifier()
    given.learn_many(bits[:, None] * 3.0, y)
    for bit, label in zip(bits, y.tolist(), strict=True):
        absent.learn_one({0: 3.0} if bit else {}, label)
    scales = [model.snapshot()["scaler"]["columns"][0] for model in (given, absent)]
    assert [bool(scale["is_dense"]) for scale in scales] == [True, False]
    assert (scales[0]["center"], scales[0]["factor"]) == (1.5, pytest.approx(2 / 3))
