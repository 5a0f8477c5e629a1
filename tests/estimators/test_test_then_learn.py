"""Predicting every row of a batch just before it is learned: a loop of both, bit for bit."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import settings as run
from hypothesis import strategies as st
from river import base
from support.estimators import (
    CASES,
    answers,
    as_batch,
    cases,
    defaults,
    learned,
    stream_of,
    targets_of,
)
from support.marks import first_quick
from support.strategies import arrays, chunkings
from support.streams import as_dicts, changing_rows


def is_classifier(estimator):
    return issubclass(estimator, base.Classifier)


def loop(model, rows, targets, weights, proba):
    """What the model says of every row before it learns it."""
    said = []
    for x, target, w in zip(rows, targets, weights, strict=True):
        said.append(model.predict_proba_one(x) if proba else model.predict_one(x))
        model.learn_one(x, target, w=w)
    return said


def batches(model, parts, proba):
    """The same from (X, y, w) by (X, y, w), as a loop says it."""
    said = []
    for X, y, w in parts:
        kwargs = {"proba": True} if proba else {}
        found = model.test_then_learn_many(X, as_batch(y), w, **kwargs)
        names = model.labels if proba else getattr(model, "targets", None)
        found = found.to_numpy() if hasattr(found, "to_numpy") else np.asarray(found)
        # a pandas series of texts has its own None
        found = [None if label != label else label for label in found.tolist()]
        said += found if names is None else [dict(zip(names, row, strict=True)) for row in found]
    return said


def assert_same(found, expected):
    assert len(found) == len(expected)
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if isinstance(b, dict):
            # what was not known yet has no share, or no number
            b = {name: b.get(name, 0.0) for name in a}
        assert a == b, i


def check(estimator, params, rows, parts):
    targets = [target for _, y, _ in parts for target in y]
    weights = [w for _, y, ws in parts for w in (ws if ws is not None else np.ones(len(y)))]
    for proba in (False, True) if is_classifier(estimator) else (False,):
        one, many, only = estimator(**params), estimator(**params), estimator(**params)
        expected = loop(one, rows, targets, weights, proba)
        assert_same(batches(many, parts, proba), expected)
        for X, y, w in parts:
            only.learn_many(X, as_batch(y), w)
        assert pickle.dumps(many) == pickle.dumps(one) == pickle.dumps(only)
    return one


def staged(estimator, n=400):
    """Columns, gaps and labels that begin in the middle, and weights of which some are zero."""
    X, y = stream_of(estimator, n, classes=4)
    rng = np.random.default_rng(0)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[: n // 3, 1] = np.nan
    X[: n // 2, 4] = np.nan
    if is_classifier(estimator):
        y = [f"{label} late" if i > n // 2 and i % 3 == 0 else label for i, label in enumerate(y)]
    w = rng.choice([0.0, 0.5, 1.0, 1.0, 3.0], size=n)
    return X, y, w


FORMS = {"array": np.asarray, "sparse": sp.csr_array, "frame": pd.DataFrame}


@cases
@pytest.mark.parametrize("form", first_quick(FORMS))
def test_a_batch_says_what_a_loop_says(estimator, params, form):
    X, y, w = staged(estimator)
    make = FORMS[form]
    check(estimator, params, as_dicts(X), [(make(X), y, w)])
    X = np.nan_to_num(X)  # all columns from the first row on, and zeros
    check(estimator, params, as_dicts(X), [(make(X), y, None)])


@cases
def test_chunks_say_what_a_loop_says(estimator, params):
    X, y, w = staged(estimator)
    parts = [slice(0, 1), slice(1, 2), slice(2, 190), slice(190, 211), slice(211, 400)]
    w[0] = 0.0  # a first row that is not learned
    check(estimator, params, as_dicts(X), [(X[part], y[part], w[part]) for part in parts])


@cases
def test_columns_may_be_new_in_a_batch(estimator, params):
    X, y, w = staged(estimator)
    rows = as_dicts(X[:200, :3]) + as_dicts(X[200:])
    check(estimator, params, rows, [(X[:200, :3], y[:200], w[:200]), (X[200:], y[200:], w[200:])])


@cases
def test_a_change_of_unit_makes_no_difference(estimator, params):
    X, y, w = staged(estimator, 1000)
    X[400:, 3] *= 1000.0
    model = check(estimator, params, as_dicts(X), [(X, y, w)])
    columns = model.snapshot()["scaler"]["columns"]
    # the forms of the papers take values as they come, and have no scales
    assert columns["n_units"].tolist().count(1) == int(columns["counted"].max() > 0)


@cases
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_with_text_say_what_a_loop_says(estimator, params, kind):
    rows, classes = changing_rows(200, 4)
    names = ["number 1", "number 3", "kind", "late", "count"]
    rows = [{name: x.get(name) for name in names} for x in rows]
    y = targets_of(estimator, classes)
    w = np.random.default_rng(0).choice([0.0, 1.0, 2.0], size=200)
    check(estimator, params, rows, [(kind(rows[:90]), y[:90], w[:90]),
                                    (kind(rows[90:]), y[90:], w[90:])])


@cases
@run(max_examples=10)
@given(data=st.data())
def test_any_chunks_say_what_a_loop_says(estimator, params, data):
    X = data.draw(arrays(cells=st.sampled_from([0.0, 0.0, 1.0, -2.5, 3.0, 250.0, float("nan")])))
    X = np.tile(X, (data.draw(st.integers(1, 6)), 1))
    y = targets_of(estimator, data.draw(
        st.lists(st.integers(0, 3), min_size=len(X), max_size=len(X))))
    w = np.array(data.draw(st.lists(
        st.sampled_from([0.0, 1.0, 1.0, 2.5]), min_size=len(X), max_size=len(X))))
    form = data.draw(st.sampled_from(list(FORMS.values())))
    parts = [part for part in data.draw(chunkings(len(X))) if len(X[part])]
    check(estimator, params, as_dicts(X), [(form(X[part]), y[part], w[part]) for part in parts])


@cases
def test_what_is_said_comes_back_in_kind(estimator, params):
    X, y = stream_of(estimator, 60)
    model = estimator(**params)
    frame = pd.DataFrame(X, index=range(7, 67))
    said = model.test_then_learn_many(frame, as_batch(y))
    assert list(said.index) == list(range(7, 67))
    assert isinstance(said, type(model.predict_many(frame)))
    if is_classifier(estimator):
        proba = model.test_then_learn_many(frame, y, proba=True)
        assert list(proba.columns) == model.labels
    empty = model.test_then_learn_many(X[:0], as_batch(y)[:0])
    assert len(empty) == 0


@defaults
def test_a_refused_batch_says_and_learns_nothing(estimator, params):
    X, y = stream_of(estimator, 60)
    model = learned(estimator, params, as_dicts(X), y)
    before = pickle.dumps(model)
    X[40, 2] = np.inf
    with pytest.raises(ValueError, match="feature 2"):
        model.test_then_learn_many(X, as_batch(y))
    with pytest.raises(ValueError, match="rows"):
        model.test_then_learn_many(X[:3], as_batch(y[:2]))
    with pytest.raises(ValueError, match="w must be"):
        model.test_then_learn_many(X[:3], as_batch(y[:3]), [1.0, 1.0, -1.0])
    assert pickle.dumps(model) == before


@cases
def test_rows_of_a_batch_are_not_those_of_a_dict(estimator, params):
    """What was made of the row of a dict is not taken for that of an array, nor the reverse."""
    X, y = stream_of(estimator, 200)
    model = estimator(**params)
    model.learn_many(X, as_batch(y))
    x = as_dicts(X[:1])[0]
    expected = answers(model, [x])
    model.test_then_learn_many(-5.0 * np.ones((1, 5)), as_batch(y[:1]), [0.0])
    assert answers(model, [x]) == expected
    model.learn_one({}, y[0], w=0.0)
    model.predict_one({})
    model.learn_one(x, y[0], w=0.0)
    assert answers(model, [x]) == expected
    model.test_then_learn_many(pd.DataFrame({"text": ["a"]}), as_batch(y[:1]), [0.0])
    assert answers(model, [x]) == expected


@pytest.mark.parametrize(
    ("estimator", "params"), [case for case in CASES if is_classifier(case.values[0])]
)
def test_no_probability_is_above_one(estimator, params):
    """Rounding included: scikit-learn's losses refuse what is. Nearly all rows have one label."""
    X = np.random.default_rng(0).normal(size=(300, 4))
    y = (np.arange(300) == 150).tolist()
    model, one = estimator(**params), estimator(**params)
    assert model.test_then_learn_many(X, y, proba=True).max() <= 1.0
    for x, label in zip(as_dicts(X), y, strict=True):
        assert max(one.predict_proba_one(x).values(), default=0.0) <= 1.0
        one.learn_one(x, label)
