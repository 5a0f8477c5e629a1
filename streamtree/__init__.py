"""Compiled decision trees that learn from a stream, one example at a time, at home in river."""

from streamtree.lomtree import LOMTreeClassifier
from streamtree.nongreedy import (
    NonGreedyTreeClassifier,
    NonGreedyTreeMultiTargetRegressor,
    NonGreedyTreeRegressor,
)
from streamtree.selfterminating import (
    SelfTerminatingTreeClassifier,
    SelfTerminatingTreeRegressor,
)
from streamtree.softtree import SoftTreeClassifier, SoftTreeRegressor

__all__ = [
    "LOMTreeClassifier",
    "NonGreedyTreeClassifier",
    "NonGreedyTreeMultiTargetRegressor",
    "NonGreedyTreeRegressor",
    "SelfTerminatingTreeClassifier",
    "SelfTerminatingTreeRegressor",
    "SoftTreeClassifier",
    "SoftTreeRegressor",
    "__version__",
]

__version__ = "0.1.0"
