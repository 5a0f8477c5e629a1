"""Compiled decision trees that learn from a stream, one example at a time, at home in river."""

from streamtree.lomtree import LOMTreeClassifier
from streamtree.nongreedy import (
    NonGreedyTreeClassifier,
    NonGreedyTreeMultiTargetRegressor,
    NonGreedyTreeRegressor,
)

__all__ = [
    "LOMTreeClassifier",
    "NonGreedyTreeClassifier",
    "NonGreedyTreeMultiTargetRegressor",
    "NonGreedyTreeRegressor",
    "__version__",
]

__version__ = "0.1.0"
