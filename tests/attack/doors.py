"""Two models, one history, many doors: rows come one by one, or as any form of any batch.

One model learns dicts and nothing else. The other one takes batches, is asked, copied and saved in
between, and is given what must be refused. After every step both are the same, byte for byte.
"""

import copy
import pickle
import random
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse as sp
from support.estimators import as_batch

import streamtree
from attack.checks import Broken, check_answers, check_refused, estimators, told_of
from streamtree import NonGreedyTreeMultiTargetRegressor
from streamtree.base import StreamClassifier, StreamTree

# of numbers, by columns 0, 1, ...; what is missing is NaN
ARRAYS = [
    np.asarray, np.asfortranarray, lambda X: np.repeat(X, 2, axis=0)[::2],
    lambda X: X.astype(">f8"), sp.csr_array, sp.csc_array, sp.coo_array, pd.DataFrame,
]
# of numbers and strings, by names; what is missing is None
FRAMES = [
    pd.DataFrame, lambda columns: pd.DataFrame(columns, dtype=object), pl.DataFrame, pa.table,
]


class History:
    """Draws rows and targets; every column has values of one kind, some of them missing."""

    def __init__(self, rng, estimator):
        self.rng = rng
        self.is_classifier = issubclass(estimator, StreamClassifier)
        self.is_multiple = estimator is NonGreedyTreeMultiTargetRegressor
        self.is_mixed = rng.random() < 0.5
        draws = [
            lambda: rng.gauss(0.0, 1.0), lambda: float(rng.random() < 0.4), lambda: 3.0,
            lambda: 1e9 + rng.gauss(0.0, 1.0), lambda: float(rng.choice([0, 0, 0, 0, 1, 2])),
        ]
        if self.is_mixed:
            draws += [lambda: rng.choice("abcd"), lambda: f"word {int(rng.expovariate(0.05))}"]
        self.draws = [rng.choice(draws) for _ in range(rng.choice([1, 3, 8]))]
        self.missing = rng.choice([0.0, 0.1, 0.5])
        self.weights = rng.choice([[1.0], [0.0, 1.0, 2.5], [1e-300, 1.0, 1e100]])

    def rows(self, n):
        return [
            [None if self.rng.random() < self.missing else draw() for draw in self.draws]
            for _ in range(n)
        ]

    def target(self, row):
        told = sum(hash(cell) % 7 if cell.__class__ is float else 1 for cell in row if cell)
        told = told % 5 if self.rng.random() < 0.9 else self.rng.randrange(5)
        if self.is_multiple:
            return {"a": float(told), "b": -2.0 * told}
        return f"label {told}" if self.is_classifier else 1.5 * told

    def as_dict(self, row):
        names = map(str, range(len(row))) if self.is_mixed else range(len(row))
        cells = dict(zip(names, row, strict=True))
        return {name: x for name, x in cells.items() if x is not None or self.rng.random() < 0.5}

    def as_batch(self, rows):
        if self.is_mixed:
            columns = {str(i): list(cells) for i, cells in enumerate(zip(*rows, strict=True))}
            return self.rng.choice(FRAMES)(columns)
        return self.rng.choice(ARRAYS)(np.array(rows, dtype=float))


def learn_many(rng, model, history, rows, targets, weights):
    """The rows in batches of any length."""
    while rows:
        n = rng.randint(1, len(rows))
        learn = rng.choice([model.learn_many, model.test_then_learn_many])
        learn(history.as_batch(rows[:n]), as_batch(targets[:n]), np.array(weights[:n]))
        rows, targets, weights = rows[n:], targets[n:], weights[n:]


def ask(model, x):
    """All that can be asked, twice."""
    check_answers(model, x)
    questions = [model.debug_one, model.contributions_one]
    if isinstance(model, StreamTree):
        questions += [model.decision_path, lambda x: model.draw().source]
    for question in questions:
        if repr(question(x)) != repr(question(x)):
            raise Broken("two calls differ")
    model.feature_importances()


def copy_of(rng, model):
    how = rng.choice(["pickle", "copy", "clone", "file"])
    if how == "file":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "some.model"
            model.save(path)
            return streamtree.load(path)
    if how == "clone":
        return model.clone(include_attributes=True)
    return copy.deepcopy(model) if how == "copy" else pickle.loads(pickle.dumps(model))


def step(rng, one, other, history):
    """Both learn the same rows."""
    rows = history.rows(rng.choice([1, 2, 20, 100]))
    targets = list(map(history.target, rows))
    weights = rng.choices(history.weights, k=len(rows))
    for row, target, weight in zip(rows, targets, weights, strict=True):
        one.learn_one(history.as_dict(row), target, w=weight)
    learn_many(rng, other, history, rows, targets, weights)
    if rng.random() < 0.3:
        ask(other, history.as_dict(rows[0]))
    if rng.random() < 0.3:
        X, y = history.as_batch(rows), as_batch(targets)
        check_refused(other, lambda: other.learn_many(X, y, [*weights[:-1], -1.0]))


def check_same(one, other):
    if pickle.dumps(one) != pickle.dumps(other):
        raise Broken("they are not the same")
    taken = [model._core.learned_bytes for model in (one, other)]
    if taken[0] != taken[1]:
        raise Broken(f"they take {taken} bytes")


def attack(estimator, seed):
    rng = random.Random(f"{estimator.__name__} {seed}")
    params = rng.choice(list(estimator._unit_test_params()))
    one, other = estimator(**params), estimator(**params)
    history = History(rng, estimator)
    for _ in range(rng.choice([3, 12])):
        if hasattr(other, "n_jobs"):
            other.n_jobs = rng.choice([1, 2])
        step(rng, one, other, history)
        check_same(one, other)
        if rng.random() < 0.3:
            other = copy_of(rng, other)
            check_same(one, other)


def run(n, seed, only=None):
    """n histories of every estimator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator in estimators(only):
            for each in range(seed, seed + n):
                with told_of(f"{estimator.__name__}, seed {each}"):
                    attack(estimator, each)
    return f"{n * len(estimators(only))} histories"
