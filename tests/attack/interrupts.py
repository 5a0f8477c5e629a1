"""Ctrl-C at any moment of a batch: the model is that of the rows that were learned."""

import pickle
import random

import numpy as np
from support.estimators import as_batch, stream_of
from support.signals import frames, interrupted_after, part

from attack.checks import check_state, divided

ROWS = 20_000


def attack(estimator, seed):
    """Interrupt one call, then go on with the rest."""
    rng = random.Random(seed)
    params = rng.choice(list(estimator._unit_test_params()))
    model, plain = estimator(**params), estimator(**params)
    X, targets = stream_of(estimator, 2000)
    X[:-10, 4] = np.nan
    kind = rng.choice(["dense", "sparse", "mixed", "objects"])
    X = frames(np.tile(X, (ROWS // 2000, 1)))[kind]
    y = as_batch(targets * (ROWS // 2000))
    learn = rng.choice([model.learn_many, model.test_then_learn_many])
    n = ROWS
    try:
        with interrupted_after(rng.uniform(0.0005, 0.3 if kind == "objects" else 0.1)):
            try:
                learn(X, y)
            except KeyboardInterrupt as error:
                n = getattr(error, "rows_learned", 0)
    except KeyboardInterrupt:
        # just before the call or after it
        n = ROWS if model.snapshot()["scaler"]["rows"] else 0
    plain.learn_many(part(X, n), y[:n])
    assert pickle.dumps(model) == pickle.dumps(plain), f"not the model of {n} rows"
    check_state(model)
    return n < ROWS


def run(n, seed=0, only=None):
    """n interruptions, divided among the estimators."""
    in_time = divided(attack, n, seed, only)
    return f"{n} interruptions, of which {in_time} came before the end"
