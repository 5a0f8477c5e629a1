"""Parameters, pickles, copies and clones: what an estimator is besides what it learns."""

import copy
import inspect
import itertools
import math
import pickle
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river.base import MultiTargetRegressor
from support.estimators import ESTIMATORS
from support.isolated import run_isolated
from support.strategies import settings, streams
from support.streams import as_dicts, blobs, changing_rows

import streamtree
from streamtree import ForestClassifier, LOMTreeClassifier, ModelTreeClassifier

estimators = pytest.mark.parametrize("estimator", ESTIMATORS)


def test_every_public_name_is_there():
    assert LOMTreeClassifier in ESTIMATORS
    assert all(isinstance(estimator, type) for estimator in ESTIMATORS)
    assert isinstance(streamtree.__version__, str)


# --------------------------------------------------------------------- parameters

BAD_NAMES = ["a", b"a", 1, {"a": 1}]
NOT_NUMBERS = [True, np.True_, "1", None, [1.0], 1j]
BAD_PARAMETERS = {
    "max_splits": ([0, -1, 2**30, 2**70], [*NOT_NUMBERS, 1.0, 2.5, math.nan]),
    "swap_resistance": ([0, 0.99, -4, math.nan, math.inf], NOT_NUMBERS),
    "learning_rate": ([0, -1.0, math.nan, math.inf], NOT_NUMBERS),
    "forgetting": ([-0.1, 1, 1.0, math.nan], NOT_NUMBERS),
    "grace_period": ([0, 0.5, -3, math.nan, math.inf], NOT_NUMBERS),
    "delta": ([0, 1, 0.0, 1.0, -0.1, math.nan], NOT_NUMBERS),
    "loss": (["", "Hinge", "hinge ", "unknown"], [0, None, b"hinge", ["hinge"]]),
    "algorithm": (["", "Stream", "unknown"], [0, None, b"stream"]),
    "leaf_model": (["", "Model", "softmax"], [0, None, b"model"]),
    "leaf_learning_rate": ([0, -1.0, 1001, math.nan, math.inf], NOT_NUMBERS),
    "max_leaf_classes": ([1, 0, 257, 2**70], [*NOT_NUMBERS, 2.0, math.nan]),
    "beam": ([0, -1, 65, 2**70], [*NOT_NUMBERS, 2.0, math.nan]),
    "max_bytes": (
        [-1, 0, 100, 2**18 - 1, 2**62 + 1], [True, np.True_, "1", [1.0], 1j, 2.0, math.nan],
    ),
    "seed": ([-1, 2**64], [True, 1.0, "1", math.nan]),
    "nominal_attributes": ([], BAD_NAMES),
    "restarts": ([], [1, None, "yes"]),
}
BAD_OF_MODEL_TREES = {
    "leaf_model": (["", "Softmax", "majority"], [0, None, b"softmax"]),
    "learning_rate": ([0, -1.0, 1001, math.nan, math.inf], NOT_NUMBERS),
    **{name: BAD_PARAMETERS[name] for name in (
        "grace_period", "delta", "max_bytes", "seed", "nominal_attributes", "restarts",
    )},
}
BAD = {LOMTreeClassifier: BAD_PARAMETERS, ModelTreeClassifier: BAD_OF_MODEL_TREES}
ALLOWED = {
    "max_splits": ["1", str(2**30 - 1)],
    "swap_resistance": ["at least 1"],
    "learning_rate": ["above 0"],
    "forgetting": ["at least 0", "below 1"],
    "grace_period": ["at least 1"],
    "delta": ["above 0", "below 1"],
    "loss": ["'hinge'", "'logistic'", "'squared'", "'absolute'"],
    "algorithm": ["'stream'", "'paper'"],
    "leaf_model": ["'majority'", "'model'"],
    "leaf_learning_rate": ["above 0", "at most 1000"],
    "max_leaf_classes": ["2", "256"],
    "beam": ["1", "64"],
    "max_bytes": ["262144", str(2**62), "bytes"],
    "seed": ["0", str(2**64 - 1)],
    "nominal_attributes": ["list of names"],
}
ALLOWED_OF_MODEL_TREES = {
    **ALLOWED, "leaf_model": ["'adaptive'", "'softmax'"], "learning_rate": ["above 0", "1000"],
}


@pytest.mark.parametrize(
    ("estimator", "name", "value", "error"),
    [
        pytest.param(estimator, name, value, error, id=f"{estimator.__name__}-{name}-{value!r}")
        for estimator, bad in BAD.items()
        for name, (wrong, mistyped) in bad.items()
        for error, values in ((ValueError, wrong), (TypeError, mistyped))
        for value in values
    ],
)
def test_a_bad_parameter_is_named_with_what_is_allowed(estimator, name, value, error):
    with pytest.raises(error, match=rf"^{name} must be ") as caught:
        estimator(**{name: value})
    if error is ValueError:
        assert repr(value) in str(caught.value)
        of_kind = ALLOWED if estimator is LOMTreeClassifier else ALLOWED_OF_MODEL_TREES
        for allowed in of_kind[name]:
            assert allowed in str(caught.value)
    else:
        assert type(value).__name__ in str(caught.value)
    assert set(BAD[estimator]) == set(estimator()._get_params())


class WithOwn(ModelTreeClassifier):
    def __init__(self, learning_rate=2.5, threshold=0.5):
        super().__init__(learning_rate=learning_rate)
        self.threshold = threshold


def test_a_subclass_may_have_parameters_of_its_own():
    model = WithOwn(threshold=0.4)
    model.threshold, model.learning_rate = 0.3, 1.5
    with pytest.raises(AttributeError, match="'leaf_model' is fixed"):
        model.leaf_model = "majority"
    clone = model.clone({"threshold": 0.2})
    assert (clone.threshold, clone.learning_rate, clone.grace_period) == (0.2, 1.5, 20)
    model.max_bytes = 2**20
    with pytest.raises(ValueError, match="max_bytes"):
        model.max_bytes = 10
    assert model.max_bytes == 2**20
    model.learn_one({"a": 1.0}, "x")
    model.note = "seen"
    whole = model.clone(include_attributes=True)
    assert (whole.threshold, whole.predict_one({}), whole.note) == (0.3, "x", "seen")
    again = pickle.loads(pickle.dumps(model))
    assert (again.threshold, again.predict_one({})) == (0.3, "x")


ABSURD = [
    10**400, -(10**400), 10**5000, Fraction(10**400), Fraction(10**5000), np.uint64(2**64 - 1),
    np.int64(-(2**63)), True, np.True_, math.nan, math.inf, np.float32(math.inf), "1",
]


@estimators
def test_absurd_numbers_are_refused_by_name(estimator):
    """Where bounds allow them they are taken; no other error comes up."""
    names = [
        name for name, each in inspect.signature(estimator).parameters.items()
        if type(each.default) in (int, float) or name in ("seed", "max_bytes")
    ]
    for name, value in itertools.product(names, ABSURD):
        said = ""
        try:
            estimator(**{name: value})
        except (TypeError, ValueError) as error:
            said = str(error)
        assert value == 2**64 - 1 if not said else f"{name} must be " in said
        assert len(said) < 200


@pytest.mark.parametrize(
    "params",
    [
        {"max_splits": 1, "swap_resistance": 1, "grace_period": 1, "forgetting": 0},
        {"max_splits": np.int8(5), "learning_rate": np.float32(0.5), "delta": np.float64(0.5)},
        {"seed": np.uint64(2**64 - 1), "swap_resistance": np.int64(3), "restarts": np.True_},
        {"seed": 0, "forgetting": 0.999, "delta": 1e-300, "learning_rate": 1e-300},
        {"loss": np.str_("logistic"), "max_splits": 2**30 - 1, "learning_rate": 1e300},
    ],
    ids=repr,
)
def test_parameters_at_their_bounds_and_of_numpy_types(params):
    model = LOMTreeClassifier(**params)
    X, y = blobs(100, classes=3, features=3, spread=3.0)
    model.learn_many(X, y)
    assert all(getattr(model, name) is value for name, value in params.items())
    assert np.isfinite(model.predict_proba_many(X)).all()
    assert pickle.dumps(pickle.loads(pickle.dumps(model))) == pickle.dumps(model)


def test_numpy_parameters_mean_what_plain_ones_mean():
    X, y = blobs(300, classes=4, features=3, spread=3.0)
    plain = LOMTreeClassifier(max_splits=5, learning_rate=0.5, seed=7)
    other = LOMTreeClassifier(
        max_splits=np.int16(5), learning_rate=np.float32(0.5), seed=np.int64(7)
    )
    plain.learn_many(X, y)
    other.learn_many(X, y)
    assert pickle.dumps(plain.snapshot()) == pickle.dumps(other.snapshot())
    plain, other = (
        ForestClassifier(2, ("extra",), seed=seed, restarts=restarts, rests=restarts)
        for seed, restarts in ((2**60, False), (np.int64(2**60), np.False_))
    )
    plain.learn_many(X, y)
    other.learn_many(X, y)
    assert pickle.dumps(plain.snapshot()) == pickle.dumps(other.snapshot())


def blob_model(**params):
    X, y = blobs(300, classes=5, features=4, spread=3.0)
    model = LOMTreeClassifier(grace_period=5, **params)
    model.learn_many(X, y)
    return model


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_splits", 3),
        ("swap_resistance", 1.0),
        ("learning_rate", 0.01),
        ("forgetting", 0.5),
        ("grace_period", 200.0),
        ("delta", 1e-12),
    ],
)
@pytest.mark.parametrize("how", ["mutate", "setattr"])
def test_a_mutated_parameter_reaches_the_core(name, value, how):
    """Before any learning a mutated model must be the model made with that value."""
    # few splits, or there is no swap to resist
    base = {
        "grace_period": 5, "max_splits": 5, "swap_resistance": 2.0, "leaf_model": "majority",
    }
    changed, made = LOMTreeClassifier(**base), LOMTreeClassifier(**{**base, name: value})
    untouched = LOMTreeClassifier(**base)
    if how == "mutate":
        changed.mutate({name: value})
    else:
        setattr(changed, name, value)
    assert getattr(changed, name) == value
    X, y = blobs(3000, classes=12, features=4, spread=3.0)
    y = np.where(np.arange(3000) < 500, y % 6, y)  # new classes later: something to swap for
    if name == "grace_period":
        # the root asks for the first time when the grace period that it was born with is over
        changed.learn_many(X[:5], y[:5])
        made.learn_many(X[:5], y[:5])
    for model in (changed, made, untouched):
        model.learn_many(X, y)
    if name != "grace_period":
        assert pickle.dumps(changed) == pickle.dumps(made)
    assert pickle.dumps(changed.snapshot()) != pickle.dumps(untouched.snapshot())


def test_a_parameter_may_change_while_the_tree_grows():
    X = np.random.default_rng(0).normal(size=(6000, 4))
    y = ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int)
    model, frozen = LOMTreeClassifier(), LOMTreeClassifier()
    for each in (model, frozen):
        each.learn_many(X[:3000], y[:3000])
    model.mutate({"max_splits": model.n_splits})
    splits = model.n_splits
    model.learn_many(X[3000:], y[3000:])
    frozen.learn_many(X[3000:], y[3000:])
    assert model.n_splits == splits < frozen.n_splits
    model.max_splits = 1  # below what there is: no more splits, none undone
    model.learn_many(X[:100], y[:100])
    assert model.n_splits == splits
    again = pickle.loads(pickle.dumps(model))
    again.learn_many(X, y)
    model.learn_many(X, y)
    assert pickle.dumps(again) == pickle.dumps(model)


@pytest.mark.parametrize(
    ("name", "value"), [("loss", "squared"), ("algorithm", "paper"), ("seed", 3)]
)
def test_a_fixed_parameter_cannot_change(name, value):
    model = blob_model()
    before = pickle.dumps(model)
    with pytest.raises(AttributeError, match=name):
        setattr(model, name, value)
    with pytest.raises((AttributeError, ValueError), match=name):
        model.mutate({name: value})
    assert getattr(model, name) == getattr(LOMTreeClassifier(), name)
    assert pickle.dumps(model) == before
    assert getattr(model.clone({name: value}), name) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [("learning_rate", -1.0), ("max_splits", 0), ("delta", "low"), ("forgetting", True)],
)
def test_a_parameter_cannot_change_to_a_bad_value(name, value):
    model = blob_model()
    before = pickle.dumps(model)
    with pytest.raises((TypeError, ValueError), match=rf"^{name} must be "):
        setattr(model, name, value)
    with pytest.raises((TypeError, ValueError), match=rf"^{name} must be "):
        model.mutate({name: value})
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("k", [0, -1, True, 1.0, "3", None, 2**70, -(2**70)], ids=repr)
def test_top_k_wants_a_positive_integer(k):
    with pytest.raises((TypeError, ValueError), match=r"\bk\b"):
        blob_model().predict_topk_one({0: 1.0}, k)


@estimators
def test_defaults_are_those_of_the_signature(estimator):
    assert estimator()._get_params() == estimator(**estimator()._get_params())._get_params()
    assert repr(estimator()).startswith(estimator.__name__)


# ----------------------------------------------------------------- pickles and copies

AWKWARD = {
    "keys of the snapshot": (
        ["features", "labels", "nodes", "rows", "keys"], ["links", "records", "seed"]),
    "parameters": (["loss", "stream", "hinge", "seed", "_core"], ["paper", "stream", "loss"]),
    "shared objects": ([("a", "b"), "a", "b", ("b", ("a", "b"))], ["a", ("a", "b"), "b"]),
    "all kinds": ([None, 0, 1.5, b"b", "s", (1,), Fraction(1, 2)], [True, "t", b"u", (2, 3), 4.5]),
    "unicode": (["größe", "🌳", "\0", ""], ["ß", "", "\0\0"]),
}


def awkward_model(kind, texts=False):
    names, labels = AWKWARD[kind]
    model = ModelTreeClassifier(grace_period=5)
    for i in range(120):
        x = {name: float((i * j) % 5) for j, name in enumerate(names, 1) if i % (j + 1)}
        if texts:
            x[names[i % 2]] = names[2] if isinstance(names[2], str) else "text"
        model.learn_one(x, labels[i % len(labels)])
    return model


@pytest.mark.parametrize("texts", [False, True], ids=["numbers", "texts"])
@pytest.mark.parametrize("kind", AWKWARD)
def test_a_pickle_of_a_pickle_is_the_same_pickle(kind, texts):
    model = awkward_model(kind, texts)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        first = pickle.dumps(model, protocol=protocol)
        second = pickle.dumps(pickle.loads(first), protocol=protocol)
        assert first == second
    assert pickle.dumps(pickle.loads(pickle.dumps(model, protocol=2))) == pickle.dumps(model)


@pytest.mark.parametrize("kind", AWKWARD)
def test_equal_objects_give_equal_pickles(kind):
    """Whether two equal names are one object or two is not part of the state."""
    a = awkward_model(kind)
    original = AWKWARD[kind]
    try:
        AWKWARD[kind] = pickle.loads(pickle.dumps(original[0])), copy.deepcopy(original[1])
        b = awkward_model(kind)
        AWKWARD[kind] = [pickle.loads(pickle.dumps(n)) for n in original[0]], original[1]
        c = awkward_model(kind)
    finally:
        AWKWARD[kind] = original
    assert pickle.dumps(a) == pickle.dumps(b) == pickle.dumps(c)


TRIPS = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "clone": lambda model: model.clone(include_attributes=True),
}


@pytest.mark.parametrize("trip", TRIPS)
@pytest.mark.parametrize(
    "params",
    [
        {}, {"leaf_model": "majority"},
        {"algorithm": "paper", "learning_rate": 0.01, "seed": 1},
    ],
)
def test_learning_goes_on_as_if_there_had_been_no_trip(trip, params):
    rows, labels = changing_rows(600, classes=12)
    params = {"grace_period": 5, "max_splits": 8, "swap_resistance": 1, **params}
    params["max_leaf_classes"] = 3
    straight, traveller = LOMTreeClassifier(**params), LOMTreeClassifier(**params)
    for i, (x, y) in enumerate(zip(rows, labels, strict=True)):
        straight.learn_one(x, y)
        traveller.learn_one(x, y)
        if i % 37 == 0:
            left_behind, before = traveller, pickle.dumps(traveller)
            traveller = TRIPS[trip](traveller)
            assert pickle.dumps(traveller) == before
            traveller.learn_one(x, y)  # the copy shares nothing with what it was made of
            assert pickle.dumps(left_behind) == before
            traveller = left_behind if i % 2 else TRIPS[trip](left_behind)
    assert pickle.dumps(traveller) == pickle.dumps(straight)
    assert straight.n_splits > 3


@given(stream=streams(max_rows=15), params=settings, cut=st.integers(0, 15))
def test_a_trip_changes_nothing_on_any_stream(stream, params, cut):
    straight, traveller = LOMTreeClassifier(**params), LOMTreeClassifier(**params)
    for i, (x, y, w) in enumerate(stream):
        if i == cut:
            traveller = pickle.loads(pickle.dumps(traveller))
        straight.learn_one(x, y, w=w)
        traveller.learn_one(x, y, w=w)
    a, b = straight.snapshot(), traveller.snapshot()
    assert repr(a["features"]) == repr(b["features"])
    assert [(type(y), y) for y in a["labels"]] == [(type(y), y) for y in b["labels"]]
    for part in ("scaler", "tree"):
        assert pickle.dumps(a[part]) == pickle.dumps(b[part])
    for x, _, _ in stream[:5]:
        assert straight.predict_proba_one(x) == traveller.predict_proba_one(x)


@estimators
def test_a_clone_is_new(estimator):
    rows, labels = changing_rows(100, classes=3)
    for params in estimator._unit_test_params():
        model = estimator(**params)
        empty = pickle.dumps(model)
        if issubclass(estimator, MultiTargetRegressor):
            labels = [label if isinstance(label, dict) else {"t": label} for label in labels]
        for x, y in zip(rows, labels, strict=True):
            model.learn_one(x, y)
        assert pickle.dumps(model) != empty
        assert pickle.dumps(model.clone()) == empty
        clone = model.clone()
        for x, y in zip(rows, labels, strict=True):
            clone.learn_one(x, y)
        assert pickle.dumps(clone) == pickle.dumps(model)


def test_a_clone_that_knows_what_was_learned_may_differ_in_what_may_change():
    model = blob_model()
    clone = model.clone({"learning_rate": 0.5}, include_attributes=True)
    assert clone.learning_rate == 0.5
    assert clone.snapshot()["labels"] == model.snapshot()["labels"]
    with pytest.raises(ValueError, match=r"what was learned does not fit .'leaf_model"):
        model.clone({"leaf_model": "majority"}, include_attributes=True)


def spoil(part):
    """Change all arrays, and all lists, in some part of a state."""
    if isinstance(part, np.ndarray):
        part[...] = np.zeros((), dtype=part.dtype)
    elif isinstance(part, dict):
        for value in part.values():
            spoil(value)
    elif isinstance(part, list):
        for value in part:
            spoil(value)
        part.append("more")


@pytest.mark.parametrize("params", [{}, {"leaf_model": "majority"}, {"max_leaf_classes": 2}])
def test_a_snapshot_is_a_copy(params):
    model = blob_model(**params)
    before = pickle.dumps(model)
    state = model.snapshot()
    assert len(state["tree"]["nodes"]) > 1 or len(state["tree"]["whole"][0]["nodes"]) > 1
    spoil(state)
    assert pickle.dumps(model) == before
    model.labels.clear()
    assert pickle.dumps(model) == before


def test_a_pickle_loads_in_another_process():
    model = blob_model(leaf_model="majority")
    X, _ = blobs(20, classes=5, features=4, spread=3.0)
    output = run_isolated(
        f"""
        import pickle
        model = pickle.loads({pickle.dumps(model)!r})
        print([model.predict_one(x) for x in {as_dicts(X)!r}])
        assert pickle.dumps(model) == {pickle.dumps(model)!r}
        """
    )
    assert output.strip() == repr([model.predict_one(x) for x in as_dicts(X)])


def test_hashing_is_not_part_of_the_state():
    """The same stream under another PYTHONHASHSEED gives the same bytes."""
    import os
    import subprocess

    code = (
        "import hashlib, pickle; from support.streams import changing_rows;"
        "from streamtree import LOMTreeClassifier as M;"
        "m = M(seed=3, grace_period=5, max_leaf_classes=2);"
        "[m.learn_one(x, str(y)) for x, y in zip(*changing_rows(300, 5))];"
        "print(hashlib.sha256(pickle.dumps(m)).hexdigest(), m.n_splits)"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "012"
    }
    assert len(outputs) == 1
    assert int(outputs.pop().split()[1]) > 1
