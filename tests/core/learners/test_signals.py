"""Ctrl-C in the middle of a batch: at once, and the model is that of the rows before."""

import pickle
import signal
import threading
import time
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from support.estimators import as_batch, cases, targets_of
from support.streams import blobs

from streamtree import LOMTreeClassifier, ModelTreeClassifier, NonGreedyTreeMultiTargetRegressor

# of a loop that nobody else disturbs; a busy machine may need some more
SECONDS = 2.0


@contextmanager
def interrupted_after(seconds):
    """Like Ctrl-C, so many seconds from now."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def rows_until_interrupted(call, after=0.05):
    """Run a call that takes long; returns how many rows it says that it learned."""
    start = time.perf_counter()
    with interrupted_after(after), pytest.raises(KeyboardInterrupt) as caught:
        call()
    assert time.perf_counter() - start < after + SECONDS
    return caught.value.rows_learned


def frames(X):
    """The same rows as an array, a sparse matrix, and a frame that goes row by row."""
    sparse = np.where(np.abs(X) < 1.0, 0.0, X)
    mixed = pd.DataFrame(X, columns=list("abcde"))
    mixed["late"] = np.where(np.arange(len(X)) < len(X) - 10, None, "text")
    return {"dense": X, "sparse": sp.csr_array(sparse), "mixed": mixed}


def part(X, n):
    return X.iloc[:n] if isinstance(X, pd.DataFrame) else X[:n]


@cases
@pytest.mark.parametrize("kind", ["dense", "sparse", "mixed"])
def test_a_batch_ends_between_two_rows(estimator, params, kind):
    X, classes = blobs(3000, 4, features=5, spread=2.0)
    y = targets_of(estimator, classes, X)
    # a column and a label that only the last rows have
    X[:-10, 4] = np.nan
    if isinstance(y[0], str):
        y[-1] = "new"
    X = frames(np.tile(X, (100, 1)))[kind]
    y = as_batch(y * 100)
    model, plain = estimator(**params), estimator(**params)
    n = rows_until_interrupted(lambda: model.learn_many(X, y), 0.9 if kind == "mixed" else 0.03)
    assert 0 <= n < X.shape[0]
    plain.learn_many(part(X, n), y[:n])
    assert pickle.dumps(model) == pickle.dumps(plain)


def test_an_interruption_before_the_first_row_leaves_nothing():
    X = pd.DataFrame({"a": np.arange(300_000.0), "b": "text"})
    y = pd.DataFrame({"t": np.arange(300_000.0)})
    model = NonGreedyTreeMultiTargetRegressor()
    before = pickle.dumps(model)
    assert rows_until_interrupted(lambda: model.learn_many(X, y), 0.02) == 0
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("says", [{}, {"proba": True}])
def test_test_then_learn_ends_between_two_rows(says):
    X, y = blobs(500_000, 4, features=5, spread=2.0)
    for after in (0.1, 0.3, 0.9, 2.7):
        model, plain = ModelTreeClassifier(), ModelTreeClassifier()
        n = rows_until_interrupted(
            lambda model=model: model.test_then_learn_many(X, y, **says), after
        )
        if n:  # a busy machine has not begun with the first row yet
            break
    assert 0 < n < len(X)
    plain.learn_many(X[:n], y[:n])
    assert pickle.dumps(model) == pickle.dumps(plain)
    model.learn_many(X[n:2000], y[n:2000])  # nobody is inside any more


def test_predictions_end_too():
    X, y = blobs(300_000, 4, features=5, spread=2.0)
    model = ModelTreeClassifier()
    model.learn_many(X[:3000], y[:3000])
    before = pickle.dumps(model)
    for call in (model.predict_many, model.predict_proba_many):
        many = np.tile(X, (10, 1))
        start = time.perf_counter()
        with interrupted_after(0.03), pytest.raises(KeyboardInterrupt):
            call(many)
        assert time.perf_counter() - start < SECONDS
    assert pickle.dumps(model) == before


def test_an_error_says_how_many_rows_were_learned():
    model = LOMTreeClassifier()
    for bad in (
        lambda: model.learn_many(np.full((2, 2), np.inf), [0, 1]),
        lambda: model.learn_many(np.zeros((2, 2)), [0]),
        lambda: model.learn_many("text", [0]),
        lambda: model.test_then_learn_many(np.zeros((2, 2)), [0, None]),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            bad()
        assert caught.value.rows_learned == 0


def test_a_thread_of_its_own_is_not_interrupted():
    """Python handles signals in the main thread: another one learns on."""
    X, y = blobs(200_000, 4, features=5, spread=2.0)
    model, done = ModelTreeClassifier(), threading.Event()

    def work():
        model.learn_many(X, y)
        done.set()

    threading.Thread(target=work).start()
    with interrupted_after(0.02), pytest.raises(KeyboardInterrupt):
        done.wait()
    assert done.wait(timeout=60)
    assert model.snapshot()["scaler"]["rows"] == len(X)
