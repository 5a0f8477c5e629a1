"""A stream of rows of several keys."""

import numpy as np


def stream(n=3000, n_keys=40, seed=0):
    rng = np.random.default_rng(seed)
    keys = np.minimum(rng.zipf(1.4, size=n), n_keys) - 1
    X = rng.normal(size=(n, 4))
    return keys, X, (X[:, 0] > keys / n_keys - 0.5).astype(int)


def batches(keys, X, y, size=250):
    return [(keys[i : i + size], X[i : i + size], y[i : i + size]) for i in range(0, len(y), size)]
