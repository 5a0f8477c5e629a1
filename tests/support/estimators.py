"""The estimators of the package, for the tests that hold for all of them."""

import numpy as np
import pandas as pd
import pytest
from river import base

import streamtree
from streamtree.base import StreamModel, StreamTree
from support.marks import VARIANT
from support.streams import blobs, learned_rows

PUBLIC = [getattr(streamtree, name) for name in streamtree.__all__]
ESTIMATORS = [item for item in PUBLIC if isinstance(item, type) and issubclass(item, StreamModel)]
# those of one tree, whose nodes can be looked at; the others are forests
TREES = [estimator for estimator in ESTIMATORS if issubclass(estimator, StreamTree)]
NAMES = [estimator.__name__ for estimator in ESTIMATORS]
CASES = [
    pytest.param(
        estimator, params, id=f"{estimator.__name__}-{number}",
        marks=VARIANT if number else (),
    )
    for estimator in ESTIMATORS
    for number, params in enumerate(estimator._unit_test_params())
]
cases = pytest.mark.parametrize(("estimator", "params"), CASES)
# for what no other parameter could break
defaults = pytest.mark.parametrize(
    ("estimator", "params"), [case for case in CASES if not case.values[1]]
)
tree_cases = pytest.mark.parametrize(
    ("estimator", "params"), [case for case in CASES if case.values[0] in TREES]
)


def targets_of(estimator, classes, X=None):
    """Targets of the kind that the estimator learns, one for each class number."""
    classes = np.asarray(classes)
    if issubclass(estimator, base.Classifier):
        return [f"class {i}" for i in classes.tolist()]
    numbers = 10.0 * np.sin(classes) + (0.0 if X is None else np.asarray(X)[:, 0])
    if issubclass(estimator, base.MultiTargetRegressor):
        return [{"a": number, "b": -3.0 * number} for number in numbers.tolist()]
    return numbers.tolist()


def as_batch(targets):
    """A list of targets in the form that `learn_many` takes."""
    return pd.DataFrame(targets) if isinstance(targets[0], dict) else targets


def stream_of(estimator, n=600, classes=4, seed=0):
    X, y = blobs(n, classes, features=5, spread=2.0, seed=seed)
    return X, targets_of(estimator, y, X)


def learned(estimator, params, rows, targets, weights=None):
    return learned_rows(estimator(**params), rows, targets, weights)


def answers(model, rows):
    """Everything a model says about some rows, as something to compare exactly."""
    said = [model.predict_one(x) for x in rows]
    if isinstance(model, base.Classifier):
        said += [model.predict_proba_one(x) for x in rows]
    return said


def state_of(model):
    """A snapshot with the parts of the tree beside those of the learner."""
    state = model.snapshot()
    return state | state["tree"]


def is_finite(state):
    """Whether all numbers in a part of a snapshot are."""
    if isinstance(state, dict):
        return all(map(is_finite, state.values()))
    if isinstance(state, list):
        return all(map(is_finite, state))
    if isinstance(state, np.ndarray) and state.dtype.names:
        return all(is_finite(state[name]) for name in state.dtype.names)
    return state is None or bool(np.isfinite(state).all())
