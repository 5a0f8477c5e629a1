"""Compiled decision trees that learn from a stream, one example at a time, at home in river."""

from streamtree.lomtree import LOMTreeClassifier

__all__ = ["LOMTreeClassifier", "__version__"]

__version__ = "0.1.0"
