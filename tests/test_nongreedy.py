"""Non-greedy oblique trees against a plain reference, step by step, and what they promise."""

import copy
import itertools
import math
import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import settings as run
from hypothesis import strategies as st
from reference.nongreedy import BIAS, ReferenceNonGreedyTree
from river import datasets
from river.datasets import synth
from strategies import streams
from strategies import values as any_values
from streams import as_dicts, blobs, changing_rows, prequential_accuracy_many

from streamtree import (
    NonGreedyTreeClassifier,
    NonGreedyTreeMultiTargetRegressor,
    NonGreedyTreeRegressor,
)

ESTIMATORS = {
    "classes": NonGreedyTreeClassifier,
    "number": NonGreedyTreeRegressor,
    "numbers": NonGreedyTreeMultiTargetRegressor,
}
tasks = pytest.mark.parametrize("task", ESTIMATORS)
# Relative: both sides add the same numbers in another order, and a few hundred steps carry the
# rounding of one sum into the next.
CLOSE = 1e-9


def full(task, params):
    """All parameters, the defaults included."""
    return {**ESTIMATORS[task]()._get_params(), **params}


def targets_of(task, labels, rows):
    """Targets of a kind that the labels and the rows explain."""
    if task == "classes":
        return [f"class {label}" for label in labels]
    noise = np.random.default_rng(2).normal(size=len(labels))
    numbers = [
        3.0 * math.sin(5 * label) + 0.1 * e for label, e in zip(labels, noise, strict=True)
    ]
    if task == "number":
        return numbers
    return [
        {"near": number, "far": 1e3 + 50.0 * len(x), "fixed": 7.5}
        for number, x in zip(numbers, rows, strict=True)
    ]


def stream_of(task, kind="dense", n=300, seed=0):
    if kind == "dense":
        X, y = blobs(n, classes=5, features=4, spread=1.5, seed=seed)
        rows, labels = as_dicts(X), y.tolist()
    else:
        rows, labels = changing_rows(n, classes=5, seed=seed)
        labels = [label if i > n // 3 else label % 3 for i, label in enumerate(labels)]
        rows[::29] = [{}] * len(rows[::29])
    return rows, targets_of(task, labels, rows)


def raw_scale(rows):
    """Rows about 1 in size, for the algorithm that has no scaling of its own."""
    return [
        {name: math.atan(v) if isinstance(v, float) else v for name, v in x.items()} for x in rows
    ]


def learned(model, rows, targets, weights=None):
    for i, (x, y) in enumerate(zip(rows, targets, strict=True)):
        model.learn_one(x, y, w=1.0 if weights is None else weights[i])
    return model


# ------------------------------------------------------------------- against the reference


def close(compiled, expected, scale=1.0):
    return math.isclose(compiled, expected, rel_tol=CLOSE, abs_tol=CLOSE * scale)


def tables(state):
    """[{key: record}] by node, from the flat arrays of a snapshot."""
    return [
        dict(zip(state["keys"][a:b].tolist(), state["records"][a:b].tolist(), strict=True))
        for a, b in itertools.pairwise(state["starts"])
    ]


def splits_of(state):
    """[{feature: weight}] by node, the offset under BIAS."""
    names = [tuple(name) if isinstance(name, tuple) else name for name in state["features"]]
    return [
        {
            BIAS: stats["bias"] * stats["scale"],
            **{names[key]: record[0] * stats["scale"] for key, record in table.items()},
        }
        for stats, table in zip(state["nodes"], tables(state["weights"]), strict=True)
    ]


def assert_same_numbers(compiled, expected, what):
    for key in set(compiled) | set(expected):
        a, b = compiled.get(key, 0.0), expected.get(key, 0.0)
        assert close(a, b), (*what, key, a, b)


def assert_same_tree(model, reference):
    """The compiled model's snapshot holds what the reference holds, node by node."""
    state = model.snapshot()
    names = [tuple(name) if isinstance(name, tuple) else name for name in state["features"]]
    assert model.n_nodes == len(reference.nodes)
    assert state["in_batch"] == reference.in_batch
    assert sorted(state["touched"]) == sorted(node.number for node in reference.touched)
    assert state["warm_up"]["n"] == len(reference.buffer)
    weights, moving = tables(state["weights"]), tables(state["moving"])
    splits = splits_of(state)
    at = moving_at = 0
    for number, node in enumerate(reference.nodes):
        links, stats = state["links"][number], state["nodes"][number]
        for link, other in (
            ("parent", node.parent), ("left", node.left), ("right", node.right),
        ):  # fmt: skip
            assert links[link] == (-1 if other is None else other.number)
        assert_same_numbers(splits[number], node.weights, (number, "weight"))
        norm = sum(weight**2 for weight in node.weights.values())
        assert close(stats["norm"] * stats["scale"] ** 2, norm)
        if not reference.is_paper:
            squares = {names[key]: record[1] for key, record in weights[number].items()}
            squares[BIAS] = stats["bias_squares"]
            assert_same_numbers(squares, node.squares, (number, "squares"))
        for part, i, expected in (("velocity", 0, node.velocity), ("pending", 1, node.pending)):
            numbers = {names[key]: record[i] for key, record in moving[number].items()}
            numbers[BIAS] = stats[f"bias_{part}"]
            assert_same_numbers(numbers, expected, (number, part))
        size = stats["n_outputs"]
        assert size == len(node.outputs)
        records = state["outputs"][at : at + 2 * size].reshape(-1, 2)
        at += 2 * size
        assert np.allclose(records[:, 0], node.outputs, rtol=CLOSE, atol=CLOSE)
        if reference.learns_classes and not reference.is_paper:
            assert np.allclose(records[:, 1], node.output_squares, rtol=CLOSE, atol=CLOSE)
        if reference.waits:
            records = state["moving_outputs"][moving_at : moving_at + 2 * size].reshape(-1, 2)
            moving_at += 2 * size
            assert np.allclose(records[:, 0], node.output_velocity, rtol=CLOSE, atol=CLOSE)
            assert np.allclose(records[:, 1], node.output_pending, rtol=CLOSE, atol=CLOSE)
        assert close(stats["visits"], node.visits)
        assert stats["place"] == node.place


def assert_same_answer(model, reference, x):
    said, expected = model.predict_one(x), reference.predict_one(x)
    if reference.learns_classes:
        said, expected = model.predict_proba_one(x), reference.predict_proba_one(x)
    elif reference.task == "number":
        said, expected = {"y": said}, {"y": expected}
    assert list(said) == list(expected)
    assert all(close(said[name], expected[name]) for name in expected), (said, expected)


def follow(task, params, rows, targets, weights=None, every=1):
    """Run both side by side, compare as they go, return the compiled model."""
    params = full(task, params)
    model, reference = ESTIMATORS[task](**params), ReferenceNonGreedyTree(task, **params)
    assert_same_tree(model, reference)
    for i, (x, y) in enumerate(zip(rows, targets, strict=True)):
        w = 1.0 if weights is None else weights[i]
        if i:
            assert_same_answer(model, reference, x)
        model.learn_one(x, y, w=w)
        reference.learn_one(x, y, w=w)
        if i % every == 0 or i == len(rows) - 1:
            assert_same_tree(model, reference)
    assert model.n_nodes > 1
    return model


def moved_splits(model):
    """How many splits are not zero."""
    state = model.snapshot()
    return int(((state["nodes"]["norm"] > 0) & (state["links"]["left"] >= 0)).sum())


ZEROS = {"start": "zeros", "depth": 3}
RATES = {"paper": 0.1, "stream": 1.0}


@tasks
@pytest.mark.parametrize("inference", ["fast", "exact"])
@pytest.mark.parametrize("objective", ["hope_and_fear", "surrogate"])
@pytest.mark.parametrize("algorithm", ["stream", "paper"])
def test_every_step_equals_the_reference(task, algorithm, objective, inference):
    params = {
        "start": "axis", "warm_up": 32, "depth": 3, "algorithm": algorithm,
        "objective": objective, "inference": inference, "learning_rate": RATES[algorithm],
        "max_norm": 20.0,
    }  # fmt: skip
    rows, targets = stream_of(task, "dense")
    model = follow(task, params, rows, targets)
    assert moved_splits(model) > 1


@tasks
@pytest.mark.parametrize(
    "params",
    [
        {"max_norm": 0.05},
        {"max_norm": 1e6, "fear": 0.0},
        {"fear": 1.0, "forgetting": 0.0},
        {"fear": 3.0, "forgetting": 0.5},
        {"learning_rate": 0.01},
        {"learning_rate": 20.0},
        {"momentum": 0.9, "learning_rate": 0.2},
        {"batch_size": 7},
        {"batch_size": 5, "momentum": 0.5},
        {"objective": "surrogate", "hold": 10, **ZEROS, "start": "axis", "warm_up": 40},
        {"objective": "surrogate", "hold": 7, "batch_size": 3, "momentum": 0.3, "start": "axis",
         "warm_up": 40},
        {"depth": 1},
        {"depth": 5, "inference": "exact"},
        {"algorithm": "paper", "learning_rate": 0.05, "max_norm": 0.5},
        {"algorithm": "paper", "learning_rate": 0.05, "batch_size": 4, "momentum": 0.5},
        {"algorithm": "paper", "learning_rate": 0.05, "hold": 9, "objective": "surrogate",
         "start": "axis", "warm_up": 40, "inference": "exact"},
        {"algorithm": "paper", "learning_rate": 0.02, "fear": 0.5, "batch_size": 2,
         "hold": 3, "momentum": 0.2, "start": "axis", "warm_up": 40},
    ],
    ids=lambda params: ",".join(f"{k}={v}" for k, v in params.items()),
)  # fmt: skip
def test_every_setting_means_what_it_means_in_the_reference(task, params):
    rows, targets = stream_of(task, "dense", n=220)
    model = follow(task, {**ZEROS, **params}, rows, targets)
    if "axis" in params.values() or task == "classes" or params.get("algorithm") != "paper":
        assert moved_splits(model) >= 1


@tasks
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"batch_size": 3, "momentum": 0.5, "learning_rate": 0.3},
        {"objective": "surrogate", "hold": 8, "start": "axis", "warm_up": 40},
        {"algorithm": "paper", "learning_rate": 0.05, "inference": "exact"},
        {"algorithm": "paper", "learning_rate": 0.05, "batch_size": 3, "momentum": 0.5},
    ],
    ids=lambda params: ",".join(f"{k}={v}" for k, v in params.items()),
)
def test_new_columns_new_classes_and_weights_as_in_the_reference(task, params):
    rows, targets = stream_of(task, "changing", n=250)
    if params.get("algorithm") == "paper":
        rows = raw_scale(rows)
    weights = np.random.default_rng(5).choice([0.0, 0.25, 0.5, 1.0, 3.0], size=len(rows))
    weights[0] = 1.0
    model = follow(task, {**ZEROS, **params}, rows, targets, weights.tolist())
    assert {"late", ("kind", "a")} <= {
        tuple(name) if isinstance(name, tuple) else name for name in model.snapshot()["features"]
    }


@tasks
@pytest.mark.parametrize("kind", ["dense", "changing"])
@pytest.mark.parametrize("objective", ["hope_and_fear", "surrogate"])
@pytest.mark.parametrize("start", ["axis", "co2"])
@pytest.mark.parametrize("algorithm", ["stream", "paper"])
def test_the_warm_up_equals_the_reference(task, algorithm, start, objective, kind):
    """Builds at 32, 64 and 100 rows, and what is learned between and after them."""
    params = {
        "start": start, "warm_up": 100, "depth": 3, "algorithm": algorithm,
        "objective": objective, "learning_rate": RATES[algorithm],
        "max_norm": 50.0 if algorithm == "paper" else 1000.0,
    }  # fmt: skip
    rows, targets = stream_of(task, kind, n=140, seed=1)
    if algorithm == "paper":
        rows = raw_scale(rows)
    weights = np.random.default_rng(6).choice([0.5, 1.0, 2.0], size=len(rows)).tolist()
    model = follow(task, params, rows, targets, weights, every=5)
    assert model.snapshot()["warm_up"] == {"n_rows": 0, "due_at": 100, "n": 0}
    assert model.height == 3


@pytest.mark.parametrize(
    "params",
    [
        {"batch_size": 4, "momentum": 0.5},
        {"objective": "surrogate", "hold": 30},
        {"depth": 6, "inference": "exact"},
        {"warm_up": 2},
        {"warm_up": 33},
    ],
    ids=lambda params: ",".join(f"{k}={v}" for k, v in params.items()),
)
@tasks
def test_the_warm_up_equals_the_reference_for_other_settings(task, params):
    rows, targets = stream_of(task, "dense", n=110, seed=2)
    params = {"start": "co2", "warm_up": 80, "depth": 3, **params}
    follow(task, params, rows, targets, every=3)
