"""Many threads at one model: each call does what it does alone, or is refused."""

import pickle
import random
import threading
import time

import numpy as np
import pandas as pd
from support.estimators import as_batch, stream_of
from support.streams import as_dicts

from attack.checks import check_batch_answers, check_state, divided
from streamtree.base import StreamTree

THREADS = 12
SECONDS = 0.5


def calls_of(model, estimator, rng):
    """What a thread may do, with names and labels of its own."""
    X, y = stream_of(estimator, 200, seed=rng.randrange(1000))
    rows, number = as_dicts(X), rng.randrange(10**6)
    mixed = pd.DataFrame(X, columns=[f"column {i}" for i in range(X.shape[1])])
    mixed["word"] = f"word {number}"

    def new():
        return f"label {rng.randrange(40)}" if isinstance(y[0], str) else y[0]

    learn = [
        lambda: model.learn_one(rng.choice(rows), rng.choice(y)),
        lambda: model.learn_one({f"new {rng.randrange(100)}": 1.0, 0: "text"}, new()),
        lambda: model.learn_many(X, as_batch(y)),
        lambda: model.learn_many(mixed[:20], as_batch(y)[:20]),
        lambda: model.test_then_learn_many(X[:50], as_batch(y)[:50]),
    ]
    predict = [
        lambda: model.predict_one(rng.choice(rows)),
        lambda: check_batch_answers(model, X),
        lambda: check_batch_answers(model, mixed[:20]),
        lambda: model.debug_one(rng.choice(rows)),
        lambda: model.snapshot(),
        lambda: pickle.dumps(model),
        lambda: model._raw_memory_usage,
    ]
    if isinstance(model, StreamTree):
        predict += [lambda: model.decision_path(rng.choice(rows)), lambda: model.to_dict()]
    return learn, predict


def attack(estimator, seed):
    """Threads that do all of this at once, for a while; returns how many calls came through."""
    rng = random.Random(seed)
    model = estimator(**rng.choice(list(estimator._unit_test_params())))
    X, y = stream_of(estimator, 300)
    model.learn_many(X, as_batch(y))
    model.lock_timeout = rng.choice([0.0, 0.01, 60.0])
    done, errors = [0] * THREADS, []
    end = time.monotonic() + SECONDS

    def work(i):
        own = random.Random(f"{seed} {i}")
        learn, predict = calls_of(model, estimator, own)
        while time.monotonic() < end and not errors:
            try:
                own.choice(own.choice([learn, predict, predict]))()
                done[i] += 1
            except RuntimeError as error:
                if model.lock_timeout == 60.0 or "the model is" not in str(error):
                    errors.append(error)
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    check_state(model)
    assert np.sum(done) > 0
    return sum(done)


def run(n, seed=0, only=None):
    """n crowds, divided among the estimators."""
    return f"{n} crowds of {THREADS} threads, {divided(attack, n, seed, only)} calls"
