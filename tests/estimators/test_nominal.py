"""Columns whose numbers are categories, in every form in which rows come."""

import math
import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn import base
from support.estimators import ESTIMATORS, as_batch, state_of, targets_of

import streamtree
from streamtree import (
    ExtraTreeRegressor,
    ForestClassifier,
    ForestRegressor,
    ModelTreeClassifier,
    SoftTreeClassifier,
)
from streamtree import sklearn as wrapped

NAMES = ["code", "size"]
# the last of them is nobody's neighbour
CODES = [3, 1, 2**60, 0, 2]


def stream(estimator, n=300):
    """Codes and sizes, where the code alone says what the target is."""
    rng = np.random.default_rng(5)
    numbers = rng.integers(0, len(CODES), n)
    codes = np.array(CODES, dtype=np.int64)[numbers]
    return codes, rng.normal(size=n), targets_of(estimator, numbers % 2)



def assert_same(one, other):
    np.testing.assert_equal(state_of(one), state_of(other))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_numbers_are_the_strings_that_they_are_called(estimator):
    codes, sizes, y = stream(estimator)
    named, numbered = estimator(), estimator(nominal_attributes=["code"])
    for code, size, target in zip(codes.tolist(), sizes.tolist(), y, strict=True):
        text, number = {"code": str(code), "size": size}, {"code": code, "size": size}
        assert numbered.predict_one(number) == named.predict_one(text)
        named.learn_one(text, target)
        numbered.learn_one(number, target)
    assert_same(numbered, named)
    frame = pd.DataFrame({"code": codes, "size": sizes})
    for X in (frame, pl.from_pandas(frame)):
        batched = estimator(nominal_attributes=["code"])
        batched.learn_many(X, as_batch(y))
        assert_same(batched, named)
        np.testing.assert_equal(
            np.asarray(batched.predict_many(X)),
            np.asarray(named.predict_many(frame.astype({"code": "string"}))),
        )


@pytest.mark.parametrize("make", [
    np.asarray, sp.csr_array, lambda X: X.astype(np.float32), lambda X: X.astype(np.int16),
    lambda X: sp.csc_array(X), lambda X: np.ma.masked_array(X),
])
def test_columns_of_arrays_go_by_number(make):
    rng = np.random.default_rng(1)
    X = rng.integers(0, 4, (200, 3)).astype(float)
    y = X[:, 1] % 2 == 0
    model, dicts = (ModelTreeClassifier(nominal_attributes=(1,)) for _ in "ab")
    model.learn_many(make(X), y)
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        dicts.learn_one(dict(enumerate(row)), label)
    assert_same(model, dicts)
    assert (model.predict_many(make(X)) == [dicts.predict_one(dict(enumerate(row)))
                                            for row in X.tolist()]).all()
    assert set(model.feature_importances()) == {0, 1, 2}
    assert len(model.snapshot()["features"]) == 2 + 4


def test_wide_sparse_rows_hold_what_they_store():
    X = sp.csr_array((np.array([2.0, 1.0, 5.0]), ([0, 0, 1], [7, 90_000, 7])), shape=(2, 100_000))
    model = ModelTreeClassifier(nominal_attributes=[7])
    model.learn_many(X, ["a", "b"])
    dicts = ModelTreeClassifier(nominal_attributes=[7])
    dicts.learn_one({7: 2.0, 90_000: 1.0}, "a")
    dicts.learn_one({7: 5.0}, "b")
    assert_same(model, dicts)


def test_equal_numbers_are_one_category_and_missing_ones_none():
    model = ModelTreeClassifier(nominal_attributes=["a"])
    for value in (1, 1.0, np.int8(1), np.float32(1), Decimal(1), "1", -0.0, 0, "0", 0.5, True):
        model.learn_one({"a": value}, "x")
    model.learn_many(pd.DataFrame({"a": [np.True_]}), ["x"])
    for value in (None, math.nan):
        model.learn_one({"a": value}, "x")
    assert [tuple(name) for name in model.snapshot()["features"]] == [
        ("a", "1"), ("a", "0"), ("a", "0.5"), ("a", "True")
    ]
    before = state_of(model)
    for value, error in ((math.inf, ValueError), (10**400, ValueError), ((1,), TypeError)):
        with pytest.raises(error, match="feature 'a'"):
            model.learn_one({"a": value}, "x")
    np.testing.assert_equal(state_of(model), before)


def test_a_missing_value_says_nothing_of_the_next_number():
    name = "the postal code of the sender"
    # no name is left but those that columns share
    model = ModelTreeClassifier(max_bytes=2**18, nominal_attributes=[name])
    for i in range(3000):
        model.learn_one({name: i % 5, f"name {i}": 1.0}, i % 5 % 2)
    # and where it was a column of numbers before
    numeric = ModelTreeClassifier()
    for i in range(100):
        numeric.learn_one({name: float(i % 5)}, i % 5 % 2)
    numeric = numeric.clone({"nominal_attributes": [name]}, include_attributes=True)
    for one in (model, numeric):
        before = [one.predict_proba_one({name: value}) for value in (3, "3")]
        assert before[0] == before[1]
        one.predict_one({name: math.nan})
        assert one.predict_proba_one({name: 3}) == before[0]


def test_no_names_are_none():
    model = ModelTreeClassifier(nominal_attributes=[])
    assert model.nominal_attributes is None
    assert model.clone().nominal_attributes is None
    classifier = wrapped.ModelTreeClassifier(nominal_attributes=[])
    for _ in range(2):
        classifier.partial_fit([[1.0], [2.0]], [0, 1], classes=[0, 1])


def test_categories_of_pandas_are_called_alike():
    values = pd.Series([2.0, 1.0, 2.0, None])
    model = ModelTreeClassifier()
    model.learn_many(pd.DataFrame({"a": values.astype("category")}), list("xyxy"))
    plain = ModelTreeClassifier(nominal_attributes=["a"])
    plain.learn_many(pd.DataFrame({"a": values}), list("xyxy"))
    assert_same(model, plain)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_parameter_belongs_to_the_model(estimator, tmp_path):
    names = ["code", ("a", 1)]
    model = estimator(nominal_attributes=names)
    names.append("size")
    assert model._get_params()["nominal_attributes"] == ("code", ("a", 1))
    with pytest.raises(AttributeError, match="'nominal_attributes' is fixed"):
        model.nominal_attributes = ["size"]
    model.learn_one({"code": 7, "size": 1.0}, targets_of(estimator, [1])[0])
    model.save(tmp_path / "m.st")
    for copy in (streamtree.load(tmp_path / "m.st"), model.clone(include_attributes=True)):
        assert copy.nominal_attributes == model.nominal_attributes
        assert_same(copy, model)
        copy.learn_one({"code": 8}, targets_of(estimator, [1])[0])
        assert [tuple(name)[1] for name in copy.snapshot()["features"] if name != "size"] == [
            "7", "8"
        ]
    for wrong, words in (("code", "a list of names, got str"), ([[1]], "is not hashable")):
        with pytest.raises(TypeError, match=words):
            estimator(nominal_attributes=wrong)


def test_forests_read_for_their_members():
    codes, sizes, y = stream(ForestClassifier, 400)
    forest = ForestClassifier(2, nominal_attributes=["code"])
    frame = pd.DataFrame({"code": codes, "size": sizes})
    forest.learn_many(frame, y)
    for name, tree in (("model", None), ("extra", 1)):
        copy = forest.member(name, tree)
        assert copy.nominal_attributes == ("code",)
        assert (copy.predict_many(frame) == y).mean() > 0.95
    with pytest.raises(ValueError, match="give nominal_attributes to the forest"):
        ForestClassifier(members=(SoftTreeClassifier(nominal_attributes=["code"]),))


def test_estimators_of_scikit_learn_pass_it_on():
    codes, sizes, y = stream(ModelTreeClassifier)
    frame = pd.DataFrame({"code": codes, "size": sizes})
    model = base.clone(wrapped.ModelTreeClassifier(nominal_attributes=["code"], shuffle=False))
    assert model.fit(frame, y).score(frame, y) > 0.9
    once = ModelTreeClassifier(nominal_attributes=["code"])
    once.learn_many(frame, y)
    assert_same(model.model_, once)
    parts = base.clone(model)
    for part in (slice(0, 100), slice(100, None)):
        parts.partial_fit(frame[part], y[part])
    assert_same(parts.model_, once)
    assert dict(zip(NAMES, model.feature_importances_, strict=True))["code"] > 0.5


@pytest.mark.parametrize("dtype", ["float64", "Float64", "category"])
def test_missing_and_infinite_numbers_of_frames(dtype):
    """Those that are missing are no category; infinite ones are refused."""
    model, cells = ModelTreeClassifier(nominal_attributes=["code"]), [1.0, math.nan, 2.5, 1.0]
    model.learn_many(pd.DataFrame({"code": pd.Series(cells).astype(dtype)}), [0, 1, 1, 0])
    named = ModelTreeClassifier()
    for cell, y in zip(["1", None, "2.5", "1"], [0, 1, 1, 0], strict=True):
        named.learn_one({"code": cell}, y)
    assert_same(model, named)
    infinite = pd.DataFrame({"code": pd.Series([1.0, -math.inf]).astype(dtype)})
    with pytest.raises(ValueError, match=r"'code'.*infinite"):
        model.learn_many(infinite, [0, 1])
    assert_same(model, named)


class Counted:
    """A name that counts how often its representation is asked for."""

    asked = 0

    def __repr__(self):
        Counted.asked += 1
        return "Counted()"


@pytest.mark.parametrize("kind", [ExtraTreeRegressor, ForestRegressor])
def test_a_copy_knows_the_feature_whose_equal_names_are_spelled_differently(kind):
    rng = np.random.default_rng(2)
    models = [kind(), kind()]
    for i in range(150):
        name, z, y = [1, 1.0][rng.integers(2)], rng.normal(), rng.normal()
        value = "uvw"[rng.integers(3)]
        for model in models:
            model.learn_one({name: value, "z": z}, y)
        if i == 5:
            models[0] = pickle.loads(pickle.dumps(models[0]))
    assert pickle.dumps(models[0]) == pickle.dumps(models[1])


@pytest.mark.parametrize("other", [1.5, Decimal(1)])
def test_a_name_is_not_checked_with_every_row(other):
    """Neither where cells are coded nor where a column has what only dicts may have."""
    name, asked = Counted(), []
    for n in (10, 1000):
        before = Counted.asked
        frame = pd.DataFrame({name: ["text"] * n, "other": [other] * n})
        ModelTreeClassifier().learn_many(frame, np.arange(n) % 2)
        asked.append(Counted.asked - before)
    assert asked[0] == asked[1] > 0


def test_what_a_nominal_column_of_objects_holds():
    """Numbers, strings and truth values side by side, as the loop over dicts reads them."""
    cells = [1, True, "1", 1.0, None, "yes", 2**60, math.nan, False, 0, "0"]
    frame = pd.DataFrame({"a": pd.Series(cells, dtype=object), "b": np.arange(11.0)})
    labels = np.arange(11) % 2
    model, named = (ModelTreeClassifier(nominal_attributes=["a"]) for _ in range(2))
    model.learn_many(frame, labels)
    for i, cell in enumerate(cells):
        named.learn_one({"a": cell, "b": float(i)}, int(labels[i]))
    assert_same(model, named)
    texts = [each.value for each in model.snapshot()["features"] if each != "b"]
    assert texts == ["1", "True", "yes", str(2**60), "False", "0"]
