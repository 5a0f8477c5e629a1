"""Compiled decision trees that learn from a stream, one example at a time, at home in river."""

from streamtree.lomtree import LOMTreeClassifier
from streamtree.selfterminating import (
    SelfTerminatingTreeClassifier,
    SelfTerminatingTreeRegressor,
)

__all__ = [
    "LOMTreeClassifier", "SelfTerminatingTreeClassifier", "SelfTerminatingTreeRegressor",
    "__version__",
]

__version__ = "0.1.0"
