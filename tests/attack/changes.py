"""Models amid sudden changes: another one learns beside them, and they change places.

A batch, by any number of threads, is a loop over dicts, whatever is asked, copied or set amid it.
"""

import pickle
import random
import warnings

from support.estimators import ESTIMATORS, TREES
from support.restarts import rows_of, small

from attack.checks import Broken, check_state, told_of
from streamtree import NonGreedyTreeMultiTargetRegressor
from streamtree.base import StreamClassifier

WEIGHTS = [0.0, 1e-300, 0.5, 1.0, 3.0, 1e100]
BOUNDS = [700_000, 1_500_000, 2**24, None]
KINDS = [kind for kind in ESTIMATORS if kind is not NonGreedyTreeMultiTargetRegressor]


def new_model(rng, estimator, bound):
    if estimator in TREES:
        return estimator(max_bytes=bound)
    members = rng.choice([
        ("extra", "soft", "neighbors", "contexts"), ("extra", "soft", small(estimator)), None,
    ])
    return estimator(
        rng.choice([1, 3]), members, window=700, max_bytes=bound, seed=rng.randrange(2**32)
    )


def part_of(rng, estimator, concept, n):
    """Some rows, their targets and their weights; a few are none of the concept's."""
    X, y = rows_of(estimator, n, concept, seed=rng.randrange(10**6))
    targets = y.tolist()
    if rng.random() < 0.1:
        targets[rng.randrange(n)] = (
            f"new {rng.randrange(4)}" if issubclass(estimator, StreamClassifier)
            else 1e6 * targets[0]
        )
    w = [rng.choice(WEIGHTS) if rng.random() < 0.05 else 1.0 for _ in range(n)]
    return X, targets, w


def learn_apart(rng, model, X, targets, w):
    """Learn rows one by one; some are predicted or explained before."""
    for row, target, weight in zip(X.tolist(), targets, w, strict=True):
        x = dict(enumerate(row))
        if rng.random() < 0.5:
            model.predict_one(x)
        if rng.random() < 0.01:
            model.debug_one(x)
        model.learn_one(x, target, w=weight)


def attack_one(rng, estimator):
    """Returns how many batches were learned amid a trial."""
    bound = rng.choice(BOUNDS)
    one = new_model(rng, estimator, bound)
    one.learn_many(*part_of(rng, estimator, 0, 2200))
    other = pickle.loads(pickle.dumps(one))
    if estimator not in TREES:
        one.n_jobs = rng.choice([1, 2, 3])
    n_amid = 0
    for i in range(60):
        X, targets, w = part_of(rng, estimator, 1 + i // 25, rng.choice([1, 3, 17, 70, 150]))
        one.learn_many(X, targets, w)
        learn_apart(rng, other, X, targets, w)
        n_amid += one._core.challenger is not None
        if rng.random() < 0.1:
            other = pickle.loads(pickle.dumps(other))
        if rng.random() < 0.02 and "max_bytes" in one._mutable_attributes:
            # what is taken goes down to a lower bound in time only
            bound = rng.choice(BOUNDS[BOUNDS.index(bound):])
            one.max_bytes = other.max_bytes = bound
        elif bound is not None and max(one._core.n_bytes, other._core.n_bytes) > bound:
            raise Broken(f"{estimator.__name__} takes more than {bound}")
        if pickle.dumps(one.snapshot()) != pickle.dumps(other.snapshot()):
            raise Broken(f"{estimator.__name__}: a batch is no loop, after {i} of them")
    check_state(one)
    return n_amid


def run(n, seed, only=None):
    """Attack n models."""
    kinds = [kind for kind in KINDS if only in (None, kind.__name__)]
    n_amid = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for each in range(seed, seed + n):
            rng = random.Random(each)
            estimator = rng.choice(kinds)
            with told_of(f"{estimator.__name__}, seed {each}"):
                n_amid += attack_one(rng, estimator)
    return f"{n} models, {n_amid} batches amid a trial"
