"""Input that changes or fails while it is read, and calls that meet each other there."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import streamtree
from streamtree import (
    LOMTreeClassifier,
    ModelTreeClassifier,
    NonGreedyTreeMultiTargetRegressor,
    SelfTerminatingTreeClassifier,
)


class Number(float):
    """A number whose own code runs when it is read."""

    def __new__(cls, value, code):
        self = super().__new__(cls, value)
        self.code = code
        return self

    def __float__(self):
        self.code()
        return 1.0


def test_targets_that_a_value_adds_are_not_learned():
    model = NonGreedyTreeMultiTargetRegressor()
    y = {"a": 1.0}
    model.learn_one({"x": Number(1.0, lambda: y.update(b=2.0))}, y)
    assert model.targets == ["a"]
    assert list(model.predict_one({"x": 1.0})) == ["a"]


@pytest.mark.parametrize("estimator", [LOMTreeClassifier, ModelTreeClassifier])
@pytest.mark.parametrize("n_readable", [1, 2])
def test_a_batch_that_stops_in_the_middle_leaves_no_labels_of_other_rows(
    estimator, n_readable, tmp_path
):
    reads = []

    def read():
        reads.append(None)
        if len(reads) == n_readable:
            raise KeyboardInterrupt

    numbers = pd.Series([0.0, 1.0, Number(2.0, read), 3.0], dtype=object)
    frame = pd.DataFrame({"a": numbers, "b": ["x", "y", "x", "y"]})
    model = estimator()
    with pytest.raises(KeyboardInterrupt):
        model.learn_many(frame, ["first", "second", "third", "fourth"])
    assert model.labels == [[], ["first", "second"]][n_readable - 1]
    model.save(tmp_path / "some.model")
    loaded = streamtree.load(tmp_path / "some.model")
    for one in (model, loaded):
        one.learn_one({"a": 1.0, "b": "x"}, "fifth")
    assert loaded.predict_proba_one({"a": 1.0}) == model.predict_proba_one({"a": 1.0})


class Asking:
    """A name that asks a model something while it is looked up."""

    def __init__(self, question):
        self.question = question

    def __hash__(self):
        self.question()
        return 7


@pytest.mark.parametrize(
    ("model", "question"),
    [
        (SelfTerminatingTreeClassifier(), lambda model: model.n_leaves),
        (SelfTerminatingTreeClassifier(), lambda model: model.summary),
        (LOMTreeClassifier(), lambda model: model._core.measure("mean_depth")),
    ],
)
def test_nodes_are_not_counted_while_a_model_learns(model, question):
    name = Asking(lambda: None)
    row = {name: 1.0}
    name.question = lambda: question(model)
    with pytest.raises(RuntimeError, match="learning in another call"):
        model.learn_one(row, "a")


@pytest.mark.parametrize(
    ("indices", "indptr"),
    [([1, 10**8], [0, 1, 2]), ([1, -(10**8)], [0, 1, 2]), ([0, 1], [0, 2, 1])],
)
@pytest.mark.parametrize("call", ["learn", "predict"])
def test_a_sparse_matrix_with_cells_outside_of_it_is_refused(indices, indptr, call):
    matrix = sp.csr_array((2, 3))
    matrix.data, matrix.indices = np.ones(2), np.array(indices, dtype=np.int32)
    matrix.indptr = np.array(indptr, dtype=np.int32)
    model = ModelTreeClassifier()
    model.learn_many(np.eye(3), [0, 1, 2])
    read = {
        "learn": lambda: model.learn_many(matrix, [0, 1]),
        "predict": lambda: model.predict_many(matrix),
    }
    with pytest.raises(ValueError, match=r"ind(ices|ptr)"):
        read[call]()


def test_a_label_learned_since_has_no_column(monkeypatch):
    model = ModelTreeClassifier()
    frame = pd.DataFrame(np.eye(3))
    model.learn_many(frame, ["a", "b", "a"])
    later = property(lambda self: [*self._core.labels.labels, "learned in another thread"])
    monkeypatch.setattr(ModelTreeClassifier, "labels", later)
    assert list(model.predict_proba_many(frame).columns) == ["a", "b"]
    assert list(model.test_then_learn_many(frame, ["a"] * 3, proba=True).columns) == ["a", "b"]
