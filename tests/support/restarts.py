"""Streams in which all changes, and small models for them."""

import numpy as np

from streamtree import ForestClassifier, ForestRegressor
from streamtree.base import StreamClassifier


def small(estimator, **params):
    if estimator in (ForestClassifier, ForestRegressor):
        params = {"n_trees": 3, "members": ("extra", "soft", "neighbors"), "window": 1000} | params
    return estimator(**params)


def rows_of(estimator, n, concept, seed=0):
    """Rows of four columns; which of them tell the target, and how, depends on the concept."""
    rng = np.random.default_rng([seed, concept])
    X = rng.normal(size=(n, 4))
    a, b, c = (X[:, (concept + k) % 4] for k in range(3))
    told = (1 - 2 * (concept % 2)) * np.where(a > 0, b, 2.0 * c)
    if issubclass(estimator, StreamClassifier):
        return X, np.digitize(told, [-2.0, -1.0, 0.0, 1.0, 2.0])
    return X, told + 0.1 * rng.normal(size=n)


def joined(*parts):
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])
