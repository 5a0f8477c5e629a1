"""A long stream that drifts: memory and time stay flat, and the state is valid at the end."""

import time

import numpy as np
import pandas as pd
from river import base
from support.memory import resident_bytes

from attack.checks import check_answers, check_state, estimators, told_of

CHUNK = 10_000
COLUMNS = 4
BUDGET = 10_000_000
PERIOD = 1_000_000  # rows until a concept is back
# parts of the stream that are compared
PARTS = 10
# what a process may take beside its model, and how much longer a row may take in the end
BYTES_ABOVE, SLOWER = 4_000_000, 1.5


def chunks(estimator, n, rng):
    """Rows with targets of a concept that turns, and a few that are wrong."""
    noise = rng.normal(size=(16 * CHUNK, COLUMNS))
    for i in range(n // CHUNK):
        at = rng.integers(len(noise) - CHUNK)
        X = noise[at : at + CHUNK] + rng.normal(size=COLUMNS)
        turn = 2.0 * np.pi * i * CHUNK / PERIOD
        score = np.cos(turn) * X[:, 0] + np.sin(turn) * np.abs(X[:, 1])
        score[rng.random(CHUNK) < 0.05] = rng.normal()
        if issubclass(estimator, base.Classifier):
            yield X, np.digitize(score, [0.0, 1.0])
        elif issubclass(estimator, base.MultiTargetRegressor):
            yield X, pd.DataFrame({"a": score, "b": -3.0 * score})
        else:
            yield X, score


def attack(estimator, n, seed):
    """Rows tested, then learned; returns the least microseconds a row, and bytes, of each part."""
    rng = np.random.default_rng(seed)
    model = estimator(max_bytes=BUDGET)
    times, sizes, fastest, before = [], [], np.inf, None
    for i, (X, y) in enumerate(chunks(estimator, n, rng)):
        start = time.process_time()
        model.test_then_learn_many(X, y)
        fastest = min(fastest, time.process_time() - start)
        before = before or resident_bytes()
        if (i + 1) % (n // CHUNK // PARTS) == 0:
            times.append(fastest / CHUNK * 1e6)
            sizes.append(resident_bytes() - before)
            fastest = np.inf
    check_answers(model, dict(enumerate(X[0].tolist())))
    check_state(model, on_disk=True)
    assert sizes[-1] <= 1.1 * BUDGET + BYTES_ABOVE, f"{sizes} bytes"
    assert times[-1] <= SLOWER * np.median(times), f"{times} microseconds a row"
    return times, sizes


def run(n, seed=0, only=None):
    """A stream of n rows for every estimator."""
    said = []
    for estimator in estimators(only):
        with told_of(estimator.__name__):
            times, sizes = attack(estimator, n, seed)
        said.append(
            f"{estimator.__name__} {np.round(times, 2)} us, {np.round(np.array(sizes) / 1e6, 1)} MB"
        )
    return "\n".join([f"{n} rows", *said])
