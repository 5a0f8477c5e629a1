"""A row that is ready from the call before is taken for the same row only."""

import numpy as np
import pytest
from river import base
from support.estimators import as_batch, defaults, stream_of
from support.streams import as_dicts

from streamtree import ModelTreeClassifier, SelfTerminatingTreeClassifier


def trained(estimator, params):
    X, y = stream_of(estimator, 120)
    model = estimator(**params)
    model.learn_many(X, as_batch(y))
    return model, X, y


def answer(model, x):
    if isinstance(model, base.Classifier):
        return model.predict_proba_one(x)
    return model.predict_one(x)


@defaults
def test_a_dict_is_read_anew_after_a_batch_that_is_not_learned(estimator, params):
    model, X, y = trained(estimator, params)
    row = as_dicts(X)[0]
    before = answer(model, row)
    model.test_then_learn_many(-X[1:4], as_batch(y[1:4]), np.zeros(3))
    assert answer(model, row) == before


@defaults
def test_an_empty_dict_is_read_after_a_batch(estimator, params):
    X, y = stream_of(estimator, 120)
    model = estimator(**params)
    model.test_then_learn_many(X, as_batch(y), np.append(np.ones(119), 0.0))
    first = answer(model, {})
    answer(model, as_dicts(X)[0])
    assert answer(model, {}) == first


def test_an_empty_dict_is_read_after_a_tree_was_grown():
    X, y = stream_of(SelfTerminatingTreeClassifier, 300)
    model = SelfTerminatingTreeClassifier()
    model.grow(X, y)
    first = model.predict_proba_one({})
    model.predict_proba_one(as_dicts(X)[0])
    assert model.predict_proba_one({}) == first


class Interrupting:
    """A name that, once, lets other code run when it is looked up."""

    def __init__(self):
        self.code = None

    def __hash__(self):
        code, self.code = self.code, None
        if code is not None:
            code()
        return 7


@pytest.mark.parametrize("inner", [{"a": 2.0}, {}])
def test_a_dict_read_within_another_is_read_anew(inner):
    rng = np.random.default_rng(0)
    model = ModelTreeClassifier()
    for _ in range(80):
        a, b = rng.normal(size=2)
        model.learn_one({"a": a, "b": b}, bool(a > 0))
    expected = model.predict_proba_one(inner)
    name = Interrupting()
    outer = {"a": -2.0, name: 0.5}
    model.predict_proba_one({"b": 1.0})
    name.code = lambda: model.predict_proba_one(inner)
    model.predict_proba_one(outer)
    assert model.predict_proba_one(inner) == expected
