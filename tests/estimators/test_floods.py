"""A bound on memory under floods of names, categories and labels, and what is left of accuracy."""

import pickle
import sys
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from support.estimators import ESTIMATORS

from streamtree import ForestClassifier, LOMTreeClassifier, SoftTreeRegressor

pytestmark = pytest.mark.filterwarnings("ignore:.* ha(s|ve) (had|come)")
BOUNDED = [kind for kind in ESTIMATORS if "max_bytes" in kind()._get_params()]
MAX_BYTES, ROWS = 600_000, 3000


def hits_and_size(estimator, floods):
    """How well the second half of a stream was predicted, and what the model takes in the end."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(ROWS, 4))
    classes = np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])
    model, right, largest = estimator(max_bytes=MAX_BYTES), [], 0
    classifies = hasattr(model, "predict_proba_one")
    for i in range(ROWS):
        x = dict(zip("abcd", X[i].tolist(), strict=True))
        if floods:
            x |= {f"column {i}": 1.0, "user": f"user {i}"}
        number = float(classes[i]) + X[i, 2]
        y = int(classes[i]) if classifies else number
        if "MultiTarget" in estimator.__name__:
            y = {"y": number}
        if 2 * i >= ROWS:
            said = model.predict_one(x)
            said = said["y"] if isinstance(said, dict) else said
            right.append(said == y if classifies else (said - number) ** 2)
        model.learn_one(x, y)
        if floods and classifies and i % 2:
            # or it is refused
            with suppress(ValueError):
                model.learn_one(x, f"label {i}")
        if i % 100 == 99:
            largest = max(largest, sys.getsizeof(model))
    if classifies:
        return np.mean(right), largest
    return 1.0 - np.mean(right) / np.var(classes + X[:, 2]), largest


@pytest.mark.parametrize("estimator", BOUNDED, ids=lambda estimator: estimator.__name__)
def test_floods_stay_within_max_bytes_and_leave_most_of_the_accuracy(estimator):
    calm, _ = hits_and_size(estimator, floods=False)
    score, largest = hits_and_size(estimator, floods=True)
    assert largest <= 1.1 * MAX_BYTES
    assert score > calm - 0.1


@pytest.mark.parametrize(("params", "columns", "first_labels", "labels", "rows"), [
    ({"max_bytes": 2**18}, (90, 5), 10, 250, 750),
    ({"max_bytes": MAX_BYTES, "leaf_model": "majority", "delta": 0.9}, (10, 5), 100, 200, ROWS),
])
def test_labels_that_come_late_find_room_within_max_bytes(
    params, columns, first_labels, labels, rows
):
    rng = np.random.default_rng(0)
    n_numbers, n_words = columns
    means = rng.normal(size=(labels, n_numbers))
    model = LOMTreeClassifier(grace_period=1, **params)
    for i in range(rows):
        y = int(rng.integers(labels if 3 * i > rows else first_labels))
        x = {f"number {j}": number for j, number in enumerate(rng.normal(means[y]).tolist())}
        x |= {f"word {word}": 1 for word in rng.integers(20_000, size=n_words).tolist()}
        # or it is refused
        with suppress(ValueError):
            model.learn_one(x, y)
        if i % 25 == 24:
            copied = pickle.loads(pickle.dumps(model))
            assert sys.getsizeof(copied) <= params["max_bytes"]


def test_names_that_share_columns_are_the_same_in_frames_and_dicts():
    """Names begin in any row, find room or do not, and cells are missing, NaN or zero."""
    rng = np.random.default_rng(2)
    n, names = 60, [f"column {i}" for i in range(200)]
    X = rng.normal(size=(n, len(names)))
    X[np.arange(n)[:, None] < rng.integers(20, size=len(names))] = np.nan
    X[rng.random(X.shape) < 0.5] = np.nan
    X[rng.random(X.shape) < 0.1] = 0.0
    y = rng.normal(size=n)
    batch, loop = (SoftTreeRegressor(max_bytes=2**18) for _ in range(2))
    batch.learn_many(pd.DataFrame(X, columns=names), y)
    for i, cells in enumerate(X.tolist()):
        row = dict(zip(names, cells, strict=True))
        some = {name: cell for name, cell in row.items() if cell == cell}
        loop.learn_one(some if i % 2 else row, y[i])
    assert pickle.dumps(batch) == pickle.dumps(loop)
    assert len(batch.snapshot()["features"]) < len(names)


def rows_with_late_names(first_word, n=1800):
    """Four numbers, a word that is new in every other row, and columns that begin late."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    X["word"] = [f"word {i // 2}" if i >= first_word else None for i in range(n)]
    # about the row after which few names lend memory
    for i in (1022, 1023, 1024, 1025, 1400):
        X[f"column {i}"] = np.where(np.arange(n) < i, np.nan, X["a"])
    return X, (X["a"] * X["b"] > 0).to_numpy()


@pytest.mark.parametrize(("first_word", "is_lent"), [(0, False), (1000, True), (1200, True)])
def test_few_names_lend_memory_whatever_the_batches(first_word, is_lent):
    X, y = rows_with_late_names(first_word)
    n, max_bytes, ways = len(X), 2**19, []
    for cuts in (n,), (500, 1024, n), (1023, 1025, n), range(1, n + 1):
        model, first = ForestClassifier(n_trees=2, max_bytes=max_bytes), 0
        for cut in cuts:
            if cut == first + 1:
                model.learn_one(X.iloc[first].dropna().to_dict(), y[first])
            else:
                model.learn_many(X[first:cut], y[first:cut])
            first = cut
            if cut in (1023, 1024):
                has_more = model._core.tree.bytes > max_bytes // 8 * 5
                assert has_more == (is_lent and cut == 1024)
                model = pickle.loads(pickle.dumps(model))
        ways.append(pickle.dumps(model))
        assert sys.getsizeof(pickle.loads(ways[-1])) <= max_bytes
    assert ways[1:] == ways[:1] * 3


def test_randomised_trees_stay_within_their_part_while_the_window_grows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 6))
    y = np.where(rng.random(len(X)) < 0.3, rng.integers(2, size=len(X)), X[:, 0] * X[:, 1] > 0)
    forest = ForestClassifier(members=("extra",), max_bytes=1_000_000)
    for start in range(0, len(X), 50):
        forest.learn_many(X[start : start + 50], y[start : start + 50])
        assert sum(forest._core.tree.taken) <= 1.03 * forest._core.tree.bytes
