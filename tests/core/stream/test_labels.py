"""What a label may be, which labels are one, and which weights count."""

import pickle
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import labels
from support.streams import as_dicts, blobs

from streamtree import LOMTreeClassifier, ModelTreeClassifier


class Colour(Enum):
    RED = 1
    BLUE = 2


def trained():
    model = ModelTreeClassifier(grace_period=5)
    X, y = blobs(200, classes=3, features=3, spread=3.0)
    model.learn_many(X, y)
    return model


@given(st.lists(labels, min_size=1, max_size=8))
def test_any_hashable_is_a_label(seen):
    model = ModelTreeClassifier(grace_period=2)
    for i, y in enumerate(seen * 4):
        model.learn_one({"i": float(i % len(seen))}, y)
    expected = list(dict.fromkeys(seen))  # equal labels are one, under what came first
    assert model.labels == expected
    x = {"i": 0.0}
    assert list(model.predict_proba_one(x)) == expected
    assert model.predict_one(x) in set(expected)  # a list would compare numpy labels with tuples


@given(st.lists(labels, min_size=1, max_size=8))
def test_many_predictions_are_the_labels_themselves(seen):
    """Equal and of the same type: predict_many must not convert what predict_one returns."""
    X = np.arange(4.0 * len(seen)).reshape(-1, 1) % len(seen)
    model = ModelTreeClassifier(grace_period=1, delta=0.9)
    model.learn_many(X, seen * 4)
    one = [model.predict_one(x) for x in as_dicts(X)]
    many = model.predict_many(X)
    assert isinstance(many, np.ndarray)
    assert many.shape == (len(X),)
    # tolist() turns numpy's scalars back into Python's, which is what predict_one gives
    assert [(type(y), y) for y in many.tolist()] == [(type(y), y) for y in one]


@pytest.mark.parametrize(
    "pair",
    [
        ("a", "a\0"),
        ("", "\0"),
        (2**63 + 1, -1),
        (2**100, -(2**100)),
        (1, "1"),
        (1.5, 2),
        (True, 2),
        (b"a", b"a\0"),
        ((1, 2), (1, 3)),
        ((), (1,)),
        (frozenset(), frozenset({1})),
        (Colour.RED, Colour.BLUE),
        (float("inf"), -1.0),
    ],
    ids=repr,
)
def test_many_predictions_keep_awkward_labels(pair):
    X = np.array([[-1.0], [1.0]] * 40)
    model = ModelTreeClassifier(grace_period=5)
    model.learn_many(X, [pair[0], pair[1]] * 40)
    assert [model.predict_one({0: -1.0}), model.predict_one({0: 1.0})] == list(pair)
    many = model.predict_many(X[:2]).tolist()
    assert [(type(y), y) for y in many] == [(type(y), y) for y in pair]


def test_equal_labels_are_one_class_under_the_first():
    model = LOMTreeClassifier(leaf_model="majority")
    for y in (True, 1, 1.0, np.int64(1), np.True_, np.float32(1)):
        model.learn_one({"a": 1.0}, y)
    model.learn_one({"a": 1.0}, 0)
    model.learn_one({"a": 1.0}, -0.0)
    model.learn_one({"a": 1.0}, False)
    assert [(type(y), y) for y in model.labels] == [(bool, True), (int, 0)]
    assert model.predict_one({"a": 1.0}) is True


@pytest.mark.parametrize(
    ("label", "plain"),
    [
        (np.int64(3), 3),
        (np.uint8(3), 3),
        (np.True_, True),
        (np.float64(0.5), 0.5),
        (np.str_("three"), "three"),
        (np.bytes_(b"three"), b"three"),
        (np.datetime64("2025-01-02", "ns"), datetime(2025, 1, 2)),
        (np.timedelta64(3000, "ns"), timedelta(microseconds=3)),
        (np.timedelta64(12, "M"), timedelta(days=365, hours=5, minutes=49, seconds=12)),
    ],
    ids=repr,
)
def test_numpy_labels_become_plain(label, plain):
    model, other = ModelTreeClassifier(), ModelTreeClassifier()
    model.learn_one({"a": 1.0}, label)
    other.learn_one({"a": 1.0}, plain)
    assert type(model.predict_one({})) is type(plain)
    assert pickle.dumps(model) == pickle.dumps(other)


def test_an_array_of_dates_is_one_of_labels():
    days = np.array(["2025-01-02", "2025-01-03"], dtype="datetime64[ns]")
    model = ModelTreeClassifier()
    model.learn_many(np.arange(2.0).reshape(2, 1), days)
    assert model.labels == days.astype("datetime64[us]").tolist()


BAD_LABELS = [
    (None, ValueError),
    (float("nan"), ValueError),
    (np.float32("nan"), ValueError),
    (np.datetime64("NaT"), ValueError),
    (pd.NaT, ValueError),
    (pd.NA, ValueError),
    (Decimal("NaN"), ValueError),
    (np.datetime64(1, "ns"), ValueError),
    (np.datetime64("20000-01-01", "s"), ValueError),
    (np.timedelta64(10**15, "D"), ValueError),
    ([1], TypeError),
    ({1: 2}, TypeError),
    ({1}, TypeError),
    (([1], 2), TypeError),
    (np.array([1]), TypeError),
    (bytearray(b"a"), TypeError),
]


@pytest.mark.parametrize(("label", "error"), BAD_LABELS, ids=[repr(b[0]) for b in BAD_LABELS])
def test_a_missing_or_unhashable_label_changes_nothing(label, error):
    model = trained()
    before = pickle.dumps(model)
    X, good = np.ones((3, 3)), model.labels[0]
    for call in (
        lambda: model.learn_one({"new": 1.0, 0: 2.0}, label),
        lambda: model.learn_one({"new": 1.0, 0: 2.0}, label, w=0.0),
        lambda: model.learn_many(X, [good, label, "new"]),
        lambda: model.learn_many(pd.DataFrame({"new": ["a", "b", "c"]}), [good, "new", label]),
    ):
        with pytest.raises(error, match=r"\by\b"):
            call()
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("values", [["a", None, "b"], [1, None, 2], [True, None, False]], ids=repr)
@pytest.mark.parametrize("nullable", [True, False], ids=["nullable", "plain"])
def test_a_series_with_a_gap_is_refused(values, nullable):
    y = pd.Series(values)
    if nullable:
        y = y.convert_dtypes()
    model = trained()
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=r"\by\b"):
        model.learn_many(np.ones((3, 3)), y)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize(
    "w", [-1, -1e-300, 1e101, float("nan"), float("inf"), np.float32("-inf")], ids=repr
)
def test_a_bad_weight_changes_nothing(w):
    model = trained()
    before = pickle.dumps(model)
    X = np.ones((3, 3))
    for call in (
        lambda: model.learn_one({"new": 1.0}, "new", w=w),
        lambda: model.learn_many(X, [0, "new", 1], w=[1.0, 1.0, w]),
        lambda: model.learn_many(X, [0, "new", 1], w=w),
        lambda: model.learn_many(pd.DataFrame({"new": ["a", "b", "c"]}), [0, 1, 2], w=[0, 1, w]),
    ):
        with pytest.raises(ValueError, match=r"\bw\b.* from 0 to 1e\+100"):
            call()
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("w", ["1", "heavy", None, 1j, [1.0]], ids=repr)
def test_a_weight_that_is_no_number_changes_nothing(w):
    model = trained()
    before = pickle.dumps(model)
    with pytest.raises(TypeError):
        model.learn_one({"new": 1.0}, "new", w=w)
    with pytest.raises((TypeError, ValueError)):
        model.learn_many(np.ones((2, 3)), [0, "new"], w=[1.0, w])
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("w", [0, 0.0, -0.0, np.int64(0), False], ids=repr)
def test_weight_zero_learns_nothing(w):
    model = trained()
    before = pickle.dumps(model)
    model.learn_one({"new": 1.0, 0: 5.0, "text": "new"}, "new", w=w)
    model.learn_many(np.ones((3, 5)), ["new", 0, 1], w=[w, w, w])
    model.learn_many(np.ones((3, 5)), ["new", 0, 1], w=w)
    assert pickle.dumps(model) == before
    model.learn_one({0: 5.0}, 0)  # nothing of what was refused lingers
    assert set(model.snapshot()["features"]) == {0, 1, 2}


@pytest.mark.parametrize("w", [2, np.float32(0.5), np.int8(3), True], ids=repr)
def test_every_kind_of_number_is_a_weight(w):
    models = [trained() for _ in range(3)]
    models[0].learn_one({0: 5.0}, 0, w=w)
    models[1].learn_one({0: 5.0}, 0, w=float(w))
    models[2].learn_many(np.array([[5.0]]), [0], w=w)
    assert len({pickle.dumps(model) for model in models}) == 1


def test_weights_count_as_repetitions_where_they_must():
    """Votes, sizes and probabilities of a leaf: one example of weight 3 is three of weight 1."""
    heavy, thrice = (LOMTreeClassifier(leaf_model="majority") for _ in range(2))
    for y, w in (("a", 3), ("b", 2)):
        heavy.learn_one({"f": 1.0}, y, w=w)
        for _ in range(w):
            thrice.learn_one({"f": 1.0}, y)
    assert heavy.predict_proba_one({"f": 1.0}) == thrice.predict_proba_one({"f": 1.0})
    assert heavy.predict_one({"f": 1.0}) == "a"


@pytest.mark.parametrize("w", [1e-320, 1e-300, 1e-9, 1e9, 1e99, 1e100])
@pytest.mark.parametrize("algorithm", ["stream", "paper"])
def test_any_allowed_weight_gives_probabilities(algorithm, w):
    model = LOMTreeClassifier(algorithm=algorithm, grace_period=5, max_splits=10)
    X, y = blobs(100, classes=3, features=3, spread=3.0)
    model.learn_many(X, y, w=[w] * 100)
    for x in as_dicts(X[:20]):
        proba = model.predict_proba_one(x)
        assert sum(proba.values()) == pytest.approx(1.0, abs=1e-9)  # river's own bound
        assert all(p >= 0.0 for p in proba.values())
        assert model.predict_one(x) in proba


def test_labels_and_features_may_turn_up_at_any_time():
    model = ModelTreeClassifier(grace_period=5)
    for i in range(600):
        stage = i // 150
        y = ("label", i % (stage + 2))
        x = {f"f{stage}": float(i % (stage + 2)), "always": float(i % 7)}
        model.learn_one(x, y)
        assert y in model.labels
        assert set(model.predict_proba_one(x)) == set(model.labels)
    assert model.labels == [("label", i) for i in range(5)]
    assert len(model.snapshot()["features"]) == 5
    late = [{f"f{3}": float(i % 5)} for i in range(5)]
    assert [model.predict_one(x) for x in late] == [("label", i) for i in range(5)]
