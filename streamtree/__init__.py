"""Compiled decision trees that learn from a stream, one example at a time: estimators of river."""

from importlib.util import find_spec

if find_spec("streamtree._core.learners.methods") is None:
    raise ImportError(
        f"{__path__[0]!r} is streamtree's source, which is not built there: start Python in "
        "another folder, or build in place by pip install -e ."
    )

from streamtree.extratree import ExtraTreeClassifier, ExtraTreeRegressor
from streamtree.forest import ForestClassifier, ForestRegressor
from streamtree.lomtree import LOMTreeClassifier
from streamtree.merging import merge
from streamtree.modelpool import ModelPool
from streamtree.modeltree import ModelTreeClassifier
from streamtree.nongreedy import (
    NonGreedyTreeClassifier,
    NonGreedyTreeMultiTargetRegressor,
    NonGreedyTreeRegressor,
)
from streamtree.selfterminating import (
    SelfTerminatingTreeClassifier,
    SelfTerminatingTreeRegressor,
)
from streamtree.serialization import ModelFileError, load
from streamtree.softtree import SoftTreeClassifier, SoftTreeRegressor

__all__ = [
    "ExtraTreeClassifier",
    "ExtraTreeRegressor",
    "ForestClassifier",
    "ForestRegressor",
    "LOMTreeClassifier",
    "ModelFileError",
    "ModelPool",
    "ModelTreeClassifier",
    "NonGreedyTreeClassifier",
    "NonGreedyTreeMultiTargetRegressor",
    "NonGreedyTreeRegressor",
    "SelfTerminatingTreeClassifier",
    "SelfTerminatingTreeRegressor",
    "SoftTreeClassifier",
    "SoftTreeRegressor",
    "__version__",
    "load",
    "merge",
]

__version__ = "0.1.0"
