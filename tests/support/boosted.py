"""Forests of boosted trees alone."""

from streamtree import ForestClassifier, ForestRegressor


def alone(n_labels, **settings):
    """A forest with no other member; a regressor for 0 labels."""
    return (ForestClassifier if n_labels else ForestRegressor)(members=("boosted",), **settings)
