"""Random streams: values, weights and targets at the bounds, of all types, in all forms."""

import random
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import scipy.sparse as sp
from river import base

from attack.checks import (
    check_answers,
    check_batch_answers,
    check_refused,
    check_state,
    estimators,
    told_of,
)
from streamtree.base import StreamTree

NUMBERS = [
    0.0, -0.0, 1.0, -1.0, 5e-324, -1e-320, 1e-300, 1e-155, 1e150, -1e155, 1e300, -1e300,
    1.7976931348623157e308, -1.7976931348623157e308,
]
OTHERS = [
    True, False, 2**63, -(2**200), 10**300, np.float32(3e38), np.float16(6e4), np.int8(-128),
    np.uint64(2**64 - 1), np.bool_(True), Decimal("1e-300"), "a", "", "yes", np.str_("a"), None,
    float("nan"), np.float32("nan"), Decimal("NaN"),
]
NAMES = [
    "a", "b", "", 0, 1, 2, 2.5, None, b"bytes", ("a", 1), ("a", ("b", None)), 2**80,
    np.int64(7), np.str_("text"), "\ud800", float("inf"),
]
WEIGHTS = [0.0, 5e-324, 1e-300, 1e-100, 1e-10, 0.5, 1.0, 1, True, 2, 1e10, 1e50, 1e100]
TARGETS = [
    0.0, -0.0, 1.0, 5e-324, -1e-300, 1e-100, 1e-5, -1e20, 1e50, 1e100, -1e100, True, 10**99,
    np.float32(-3e38), Decimal("2.5"),
]
LABELS = [
    "q", "p", "", "\0", 0, 1, -5, 2**70, True, 2.5, -0.0, float("inf"), b"x", ("a", 1), (),
    # of one letter: Python does not keep the order of several through a pickle
    np.int64(3), np.str_("q"), np.bool_(False), frozenset("a"),
]
BAD_VALUES = [float("inf"), -np.inf, np.float32("inf"), 2**2000, b"x", [], 1j, object()]
BAD_WEIGHTS = [-1.0, -5e-324, 1.0001e100, float("nan"), float("inf"), 10**400, "w", None]
BAD_TARGETS = [float("nan"), 1.0001e100, -np.inf, None, "y", 10**400, [], 1j]
BAD_LABELS = [None, float("nan"), np.float64("nan"), [], {}, ("a", float("nan"))]
BAD_NAMES = [float("nan"), ("a", float("nan")), object(), frozenset("abc"), lambda: None]


class Stream:
    """Draws the parts of one stream, each from a few of the things that it may be."""

    def __init__(self, rng, estimator):
        self.rng = rng
        self.is_classifier = issubclass(estimator, base.Classifier)
        self.is_multiple = issubclass(estimator, base.MultiTargetRegressor)
        self.names = rng.sample(NAMES, rng.randint(1, 6))
        self.values = self._some([*NUMBERS, *NUMBERS, *OTHERS])
        self.weights = self._some(WEIGHTS) if rng.random() < 0.6 else [1.0]
        self.targets = self._some(LABELS if self.is_classifier else TARGETS)
        self.scale = 10.0 ** rng.choice([0, 0, 0, -200, 100, 150])
        # values that lie close together, far from zero
        self.far = rng.choice([0, 0, 0, 1e9, -1.7e12])
        self.several = rng.sample(NAMES, rng.randint(1, 3))

    def _some(self, things):
        return [self.rng.choice(things) for _ in range(self.rng.randint(1, 8))]

    def number(self):
        if self.rng.random() < 0.4:
            return self.far + self.rng.gauss(0.0, 1.0) * min(self.scale, 1e300)
        if self.far and self.rng.random() < 0.8:
            return self.far
        return self.rng.choice(NUMBERS)

    def value(self):
        return self.rng.choice(self.values) if self.rng.random() < 0.7 else self.number()

    def row(self):
        return {name: self.value() for name in self.names if self.rng.random() < 0.8}

    def target(self):
        if self.is_multiple:
            return {name: self.one_target() for name in self.several}
        return self.one_target()

    def one_target(self):
        if self.is_classifier or self.rng.random() < 0.5:
            return self.rng.choice(self.targets)
        return self.rng.gauss(0.0, 1.0) * min(self.scale, 1e99)

    def weight(self):
        return self.rng.choice(self.weights)


def as_batch(stream, targets):
    """Targets in the form that `learn_many` takes, as numbers."""
    if stream.is_classifier:
        return targets
    if stream.is_multiple:
        columns = pd.Index(list(targets[0]), tupleize_cols=False, dtype=object)
        return pd.DataFrame([list(map(float, y.values())) for y in targets], columns=columns)
    return [float(y) for y in targets]


def batch_of(stream, n):
    """Rows of numbers as an array, a sparse matrix or a frame, or mixed ones as a frame."""
    kind = stream.rng.choice(["dense", "float32", "sparse", "frame", "mixed"])
    columns = pd.Index(stream.names, tupleize_cols=False, dtype=object)
    if kind == "mixed":
        cells = [[stream.value() for _ in stream.names] for _ in range(n)]
        # pandas would make floats of large integers
        return pd.DataFrame(np.array([*cells, None], dtype=object)[:-1].tolist(), columns=columns,
                            dtype=object)
    cells = np.array([[stream.number() for _ in stream.names] for _ in range(n)])
    if kind == "float32":
        return np.clip(cells, -3e38, 3e38).astype(np.float32)
    if kind == "sparse":
        return sp.csr_array(np.where(np.abs(cells) == 1.0, 0.0, cells))
    cells[stream.rng.randrange(n), 0] = np.nan
    return cells if kind == "dense" else pd.DataFrame(cells, columns=columns)


def learn_batch(model, stream):
    n = stream.rng.choice([1, 2, 5, 20])
    X, targets = batch_of(stream, n), [stream.target() for _ in range(n)]
    weights = stream.rng.choice([None, [float(stream.weight()) for _ in range(n)]])
    learn = stream.rng.choice([model.learn_many, model.test_then_learn_many])
    try:
        learn(X, as_batch(stream, targets), weights)
    except ValueError as error:
        # some kinds of trees know two labels only, and the targets of a batch have other names
        if "third label" not in str(error) and "must have the targets" not in str(error):
            raise
    check_batch_answers(model, X)


def learn_bad(model, stream):
    """Something that must be refused, in the middle of a good stream."""
    rng = stream.rng
    kind = rng.choice(["value", "weight", "target", "name"])
    x, y, w = stream.row(), stream.target(), 1.0
    if kind == "value":
        x[rng.choice(["a", "new"])] = rng.choice(BAD_VALUES)
    elif kind == "weight":
        w = rng.choice(BAD_WEIGHTS)
    elif kind == "name":
        x[rng.choice(BAD_NAMES)] = 1.0
    elif stream.is_multiple:
        y = {**y, rng.choice(list(y)): rng.choice(BAD_TARGETS)}
    else:
        y = rng.choice(BAD_LABELS if stream.is_classifier else BAD_TARGETS)
    check_refused(model, lambda: model.learn_one(x, y, w=w))


def learn_row(model, stream, x=None, y=None):
    try:
        model.learn_one(stream.row() if x is None else x, stream.target() if y is None else y,
                        w=stream.weight())
    except ValueError as error:
        if "third label" not in str(error):
            raise


def attack(estimator, seed):
    """One stream of an estimator."""
    rng = random.Random(f"{estimator.__name__} {seed}")
    params = rng.choice(list(estimator._unit_test_params()))
    stream = Stream(rng, estimator)
    if seed % 5 == 2:
        params = {**params, "nominal_attributes": rng.sample(NAMES, 4)}
    model = estimator(**params)
    rows = [(stream.row(), stream.target()) for _ in range(rng.choice([2, 5, 30]))]
    for _ in range(rng.choice([3, 10, 60])):
        act = rng.random()
        if act < 0.05:
            learn_bad(model, stream)
        elif act < 0.15:
            learn_batch(model, stream)
        elif act < 0.7:
            # the same ones over and over, so that trees grow
            learn_row(model, stream, *rng.choice(rows))
        else:
            learn_row(model, stream)
        if act > 0.9:
            check_answers(model, stream.row())
    for x in ({}, *(x for x, _ in rows[:3])):
        check_answers(model, x)
    check_state(model, on_disk=seed % 10 == 0)
    if seed % 10 == 1:
        x = rows[0][0]
        if isinstance(model, StreamTree):
            model.decision_path(x)
        model.debug_one(x)
        model.feature_importances()


def run(n, seed=0, only=None):
    """n streams of every estimator; returns how many there were."""
    count = 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for estimator in estimators(only):
            for each in range(seed, seed + n):
                with told_of(f"{estimator.__name__}, seed {each}"):
                    attack(estimator, each)
                count += 1
    return f"{count} streams"
