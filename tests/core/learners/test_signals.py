"""Ctrl-C in the middle of a batch: at once, and the model is that of the rows before."""

import itertools
import pickle
import threading
import time

import numpy as np
import pandas as pd
import pytest
from support.estimators import as_batch, defaults, targets_of
from support.marks import first_quick
from support.signals import frames, interrupted_after, interrupted_in_function, part
from support.streams import blobs

from streamtree import (
    ExtraTreeClassifier,
    LOMTreeClassifier,
    ModelTreeClassifier,
    NonGreedyTreeMultiTargetRegressor,
    SelfTerminatingTreeClassifier,
    SelfTerminatingTreeRegressor,
)

# milliseconds where nobody else is busy
SECONDS = 10.0


def rows_until_interrupted(call, after=0.05):
    """Run a call that takes long; returns how many rows it says that it learned."""
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt) as caught, interrupted_after(after):
        call()
    assert time.perf_counter() - start < after + SECONDS
    # on a busy machine it may come before the call
    return getattr(caught.value, "rows_learned", 0)


@defaults
@pytest.mark.parametrize("kind", first_quick(["dense", "sparse"]))
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
    n = rows_until_interrupted(lambda: model.learn_many(X, y), 0.03)
    assert 0 <= n < X.shape[0]
    plain.learn_many(part(X, n), y[:n])
    assert pickle.dumps(model) == pickle.dumps(plain)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "sparse", "mixed"])
@pytest.mark.parametrize("estimator", [ModelTreeClassifier, SelfTerminatingTreeRegressor])
def test_a_batch_ends_in_any_function_of_python(estimator, kind):
    """What was made for its rows before the first one was learned goes."""
    X, classes = blobs(20, 4, features=5, spread=2.0)
    y = targets_of(estimator, classes, X)
    X = frames(X)[kind]
    # what is imported at first is so only once
    estimator().learn_many(X, y)
    for number in itertools.count():
        model, plain = estimator(), estimator()
        error = interrupted_in_function(number, lambda: model.learn_many(X, y))  # noqa: B023
        if error is None:
            break
        n = getattr(error, "rows_learned", 0)
        if n:
            plain.learn_many(part(X, n), y[:n])
        assert pickle.dumps(model) == pickle.dumps(plain)
    assert number > 10


@pytest.mark.slow
@defaults
@pytest.mark.parametrize("kind", ["mixed", "objects"])
def test_a_frame_ends_between_two_rows(estimator, params, kind):
    """While it is looked at, while its rows are learned, or after the last of them."""
    X, classes = blobs(3000, 4, features=5, spread=2.0)
    y = targets_of(estimator, classes, X)
    X, y = frames(np.tile(X, (5, 1)))[kind], as_batch(y * 5)
    for after in (0.01, 0.03, 0.1):
        model, plain = estimator(**params), estimator(**params)
        try:
            with interrupted_after(after):
                model.learn_many(X, y)
        except KeyboardInterrupt:
            pass
        n = model.snapshot()["scaler"]["rows"]
        plain.learn_many(part(X, n), y[:n])
        assert pickle.dumps(model) == pickle.dumps(plain)


@pytest.mark.parametrize(
    "estimator", [SelfTerminatingTreeClassifier, SelfTerminatingTreeRegressor]
)
def test_growing_ends_and_leaves_nothing(estimator):
    X, classes = blobs(200_000, 4, features=5, spread=2.0)
    y = targets_of(estimator, classes, X)
    model, plain = estimator(), estimator()
    before = pickle.dumps(model)
    names = list("abcde")
    for after in (0.03, 0.1, 0.3):
        rows_until_interrupted(lambda: model.grow(pd.DataFrame(X, columns=names), y), after)
        assert pickle.dumps(model) == before
        names.reverse()
    for one in (model, plain):
        one.grow(X[:2000], y[:2000])
        one.learn_many(X[2000:4000], y[2000:4000])
    assert pickle.dumps(model) == pickle.dumps(plain)


def test_columns_that_were_not_reached_leave_nothing():
    X, y = blobs(300_000, 4, features=5, spread=2.0)
    X[:-10, 3:] = np.nan
    model, plain = ExtraTreeClassifier(), ExtraTreeClassifier()
    n = rows_until_interrupted(lambda: model.learn_many(X, y), 0.1)
    plain.learn_many(X[:n], y[:n])
    X, y = blobs(1000, 4, features=5, spread=2.0)
    for one in (model, plain):
        one.learn_many(pd.DataFrame(X, columns=[0, 1, 2, "x", "y"]), y)
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
        with pytest.raises(KeyboardInterrupt), interrupted_after(0.03):
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
    with pytest.raises(KeyboardInterrupt), interrupted_after(0.02):
        done.wait()
    assert done.wait(timeout=60)
    assert model.snapshot()["scaler"]["rows"] == len(X)
