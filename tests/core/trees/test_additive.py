"""Additive models by least squares: as the reference says, on every way, whatever comes."""

import copy

import numpy as np
import pytest
from reference.additive import ReferenceAdditive
from support.neighbors import member_said
from support.snapshots import assert_refused, changed, part_of

from streamtree import ForestRegressor
from streamtree._core.stream.features import Category

HALF_LIFE = 8192


def alone(**settings):
    """A forest with no other member."""
    return ForestRegressor(members=("additive",), **settings)


def rows_of(concept, n, seed=0):
    """Dicts and numbers: a line, a wave, bits and categories; and what the concept names."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        x = {name: rng.normal() for name in "abc"}
        number = x["a"] + np.sin(2 * x["b"])
        if "kinds" in concept:
            x |= {"kind": f"k{rng.integers(5)}", "bit": float(rng.integers(2))}
            number += x["bit"] + (x["kind"] == "k3")
        if "wide" in concept:
            x |= {f"other {j}": rng.normal() for j in range(50)}
        if "gaps" in concept:
            x = {name: cell for name, cell in x.items() if rng.random() > 0.15}
        if "late" in concept and i > 100:
            x["late"] = rng.gamma(2.0)
        yield x, 100.0 + 7.0 * number


def as_numbers(x):
    return {
        Category(name, cell) if isinstance(cell, str) else name: 1.0 if isinstance(cell, str)
        else cell for name, cell in x.items()
    }


@pytest.mark.parametrize(("concept", "n"), [
    ("plain", 300), ("kinds gaps late", 400), ("kinds weights", 300), ("wide", 200),
    pytest.param("late", HALF_LIFE + 50, marks=pytest.mark.slow),
])
def test_it_says_what_the_reference_says(concept, n):
    model, reference = alone(), ReferenceAdditive(HALF_LIFE)
    weights = np.random.default_rng(1).gamma(0.5, 6.0, size=n)
    for i, (x, y) in enumerate(rows_of(concept, n)):
        row, weight = as_numbers(x), weights[i] if "weights" in concept else 1.0
        if i:
            close = 1e-4 * reference.deviation
            assert member_said(model, x)[0] == pytest.approx(reference.predict(row), abs=close), i
        model.learn_one(x, y, w=weight)
        reference.learn(row, y, weight)
    state = part_of(model)
    assert len(state["keys"]) == len(reference.parts)
    assert len(state["keys"]) == 128 or "wide" not in concept


def test_least_squares_are_found_where_columns_go_together():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 1)) + 0.2 * rng.normal(size=(3000, 20))
    y = X @ rng.normal(size=20)
    said = np.array(alone().test_then_learn_many(X, y))
    assert np.var((said - y)[1000:]) < 0.01 * np.var(y)


def test_a_column_may_move_a_number_up_and_down():
    x = np.random.default_rng(0).uniform(-1, 1, size=(2000, 1))
    y = np.sin(4 * x[:, 0])
    said = np.array(alone().test_then_learn_many(x, y))
    assert np.var((said - y)[500:]) < 0.05 * np.var(y)


def test_it_says_nothing_beyond_the_targets():
    model = alone()
    for i in range(100):
        model.learn_one({"x": float(i)}, float(i))
    assert model.member_weights == {"additive": 1.0}
    assert 0.0 <= member_said(model, {"x": -1e6})[0] <= member_said(model, {"x": 1e6})[0] <= 99.0


def test_little_room_means_few_parts():
    model, free = ForestRegressor(members=("boosted", "additive"), max_bytes=2**18), alone()
    for x, y in rows_of("wide", 300):
        model.learn_one(x, y)
        free.learn_one(x, y)
    parts = model.snapshot()["tree"]["members"]["1"]["keys"]
    assert 16 <= len(parts) < len(part_of(free)["keys"]) == 128
    assert np.isfinite(model.predict_one(x))


def test_a_copy_goes_on_alike():
    model = alone()
    stream = list(rows_of("kinds gaps late", 400))
    for x, y in stream[:200]:
        model.learn_one(x, y)
    copied = copy.deepcopy(model)
    for x, y in stream[200:]:
        assert copied.predict_one(x) == model.predict_one(x)
        model.learn_one(x, y)
        copied.learn_one(x, y)


def test_columns_explain_what_is_said():
    model = alone()
    for x, y in rows_of("plain", 500):
        model.learn_one(x, y)
    moved = dict.fromkeys("abc", 0.0)
    for x, _ in rows_of("plain", 50, seed=1):
        parts = model.contributions_one(x)
        said = parts["bias"] + sum(parts["features"].values())
        assert said == pytest.approx(model.predict_one(x))
        for name in moved:
            moved[name] += abs(parts["features"].get(name, 0.0))
    assert min(moved["a"], moved["b"]) > 5 * moved["c"]


@pytest.mark.parametrize(("key", "value", "place"), [
    ("keys", -1, 0), ("keys", 10**6, 1), ("keys", 0, 1), ("weights", np.nan, 0),
    ("slopes", np.inf, 0), ("products", -1.0, (0, 0)), ("products", np.nan, (0, 1)),
    ("products", 1e8, (0, 0)), ("products", 1e3, (0, 1)), ("range", np.nan, 0),
    ("range", 1e300, 0), ("range", np.zeros(3), None), ("rows", -1, None),
])
def test_damaged_states_are_refused(key, value, place):
    model = alone()
    for x, y in rows_of("plain", 100):
        model.learn_one(x, y)
    assert_refused(model, changed(None, key, value, place))
