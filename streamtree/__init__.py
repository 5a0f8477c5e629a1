"""Compiled decision trees that learn from a stream, one example at a time, at home in river."""

from streamtree.lomtree import LOMTreeClassifier
from streamtree.softtree import SoftTreeClassifier, SoftTreeRegressor

__all__ = ["LOMTreeClassifier", "SoftTreeClassifier", "SoftTreeRegressor", "__version__"]

__version__ = "0.1.0"
