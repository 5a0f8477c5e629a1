"""Oblique trees whose splits are trained jointly, at all levels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from streamtree import inspection
from streamtree._core.trees.oblique.nodes import MOST_DEPTH
from streamtree._core.trees.oblique.tree import ObliqueTree
from streamtree.base import (
    DEFAULT_BYTES,
    StreamTree,
    StreamTreeClassifier,
    StreamTreeMultiTargetRegressor,
    StreamTreeRegressor,
    check_choice,
    check_integer,
    check_max_bytes,
    check_nominal,
    check_number,
)

__all__ = [
    "NonGreedyTreeClassifier",
    "NonGreedyTreeMultiTargetRegressor",
    "NonGreedyTreeRegressor",
]


# of a full tree, without what its splits and leaves learn
_NODE_BYTES = 256


class _NonGreedyTree(StreamTree):
    """The parameters that classifier and regressors share."""

    # a leaf is taught by examples that end elsewhere, too
    _counts_examples = False
    _is_regression = True

    def __init__(
        self,
        depth: int = 8,
        max_norm: float = 1000.0,
        learning_rate: float = 1.0,
        objective: str = "hope_and_fear",
        fear: float = 0.3,
        forgetting: float = 0.03,
        shrinkage: float = 5.0,
        inference: str = "fast",
        start: str = "co2",
        warm_up: int = 2000,
        momentum: float = 0.0,
        batch_size: int = 1,
        hold: int = 0,
        algorithm: str = "stream",
        max_bytes: int | None = DEFAULT_BYTES,
        nominal_attributes: list[Any] | tuple[Any, ...] | None = None,
        restarts: bool = True,
    ) -> None:
        self.depth = depth
        self.max_norm = max_norm
        self.learning_rate = learning_rate
        self.objective = objective
        self.fear = fear
        self.forgetting = forgetting
        self.shrinkage = shrinkage
        self.inference = inference
        self.start = start
        self.warm_up = warm_up
        self.momentum = momentum
        self.batch_size = batch_size
        self.hold = hold
        self.algorithm = algorithm
        self.max_bytes = max_bytes
        self.nominal_attributes = check_nominal(nominal_attributes)
        self.restarts = restarts
        self._core = self._new_core()

    def _settings(self, params: dict[str, Any]) -> dict[str, Any]:
        strength = check_number("shrinkage", params["shrinkage"], at_least=0.01, at_most=1e6)
        return {
            "max_norm": check_number("max_norm", params["max_norm"], above=0),
            "learning_rate": check_number("learning_rate", params["learning_rate"], above=0),
            "fear": check_number("fear", params["fear"], at_least=0),
            "decay": 1.0 - check_number("forgetting", params["forgetting"], at_least=0, below=1),
            "strength": 0.0 if params["algorithm"] == "paper" else strength,
        }

    def _fixed_settings(self) -> dict[str, Any]:
        objective = check_choice("objective", self.objective, ("hope_and_fear", "surrogate"))
        inference = check_choice("inference", self.inference, ("fast", "exact"))
        algorithm = check_choice("algorithm", self.algorithm, ("stream", "paper"))
        return {
            "depth": check_integer("depth", self.depth, at_least=1, at_most=MOST_DEPTH),
            "hopes": objective == "hope_and_fear",
            "exact": inference == "exact",
            "is_paper": algorithm == "paper",
            "start": check_choice("start", self.start, ("zeros", "axis", "co2")),
            "warm_up": check_integer("warm_up", self.warm_up, at_least=2, at_most=10_000_000),
            "momentum": check_number("momentum", self.momentum, at_least=0, below=1),
            "batch_size": check_integer("batch_size", self.batch_size, at_least=1, at_most=10**6),
            "hold": check_integer("hold", self.hold, at_least=0, at_most=10**9),
        }

    def _tree_maker(self) -> Callable[[], ObliqueTree]:
        most, fixed = check_max_bytes(self.max_bytes), self._fixed_settings()
        least = 4 * _NODE_BYTES << (fixed["depth"] + 1)
        if most is not None and least > most:
            raise ValueError(
                f"depth={self.depth} needs max_bytes of at least {least}, got {most}"
            )
        return functools.partial(
            ObliqueTree, is_regression=self._is_regression, **fixed,
            settings=self._settings(self.__dict__),
        )

    @property
    def _is_robust(self) -> bool:
        return self.algorithm != "paper"

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"max_norm", "learning_rate", "fear", "forgetting", "shrinkage", "restarts"}

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {
            "algorithm": "paper", "objective": "surrogate", "inference": "exact", "depth": 4,
            "learning_rate": 0.05, "momentum": 0.5, "batch_size": 3, "hold": 20,
        }
        yield {"start": "co2", "warm_up": 100, "depth": 5}

    def _views(self) -> list[inspection.NodeView]:
        state = self._outline()
        tree = state["tree"]
        nodes, is_leaf = tree["nodes"], tree["links"]["left"] < 0
        leaves = {
            node: {"weight": float(nodes["visits"][node]), **said}
            for node, said in self._said_by(is_leaf.nonzero()[0].tolist()).items()
        }
        offsets = {
            node: (float(nodes["bias"][node]), float(nodes["scale"][node]))
            for node in (~is_leaf).nonzero()[0].tolist()
        }
        tests = inspection.linear_tests(
            state["features"], tree["weights"], offsets, ("<= 0", "> 0")
        )
        return inspection.binary_views(tree["links"], tests, leaves)

    def _shape(self) -> dict[str, float]:
        tree = self.snapshot()["tree"]
        leaves = tree["links"]["left"] < 0
        return {"n_taught_leaves": int((tree["nodes"]["visits"][leaves] > 0).sum())}


class NonGreedyTreeClassifier(_NonGreedyTree, StreamTreeClassifier):
    """Oblique tree trained by projected SGD on the log loss.

    All splits of the tree, linear ones, learn together: an example moves the splits that stand
    between the leaf it should fear (the largest loss that it could easily fall into) and the one
    it may hope for, and each split stays within a bound on its norm.
    Leaves hold a logit for every class; the shares that a leaf gives are drawn to those of the
    nodes above, the more the fewer examples came.

    Parameters
    ----------
    depth
        From 1 to 24: the number of splits on the way to a leaf.
    max_norm
        Above 0 (the paper's nu): the weights of a split are kept to |w|^2 <= max_norm. A small
        bound asks for large margins and prunes. In units of rows of norm 1; by
        `algorithm="paper"`, of the rows as they are (the paper: 0.1 to 100).
    learning_rate
        Above 0. The step size of the splits, divided by 4 plus the mean squared norm of the rows;
        by `algorithm="paper"` that of splits and leaves, as it is.
    objective
        `"surrogate"`, the convex-concave bound of the paper, only ever pushes an example away from
        worse leaves; `"hope_and_fear"` also pulls it towards better ones (the ramp loss of
        structured prediction). The second is the default, for it is more accurate.
    fear
        At least 0: the size of a push, relative to a pull. Not used by `objective="surrogate"`.
    forgetting
        From 0 to below 1: the share of AdaGrad's sum of squared gradients that an update of a split
        forgets. Not used by `algorithm="paper"`.
    shrinkage
        From 0.01 to 1,000,000: how strongly what a leaf says is drawn to the mean of what came to
        the node above it, and that likewise further up, as if it had been seen so many times there
        (Agarwal et al. 2022). Numbers from `start="zeros"` are drawn to guesses that differ from
        leaf to leaf instead. Not used by `algorithm="paper"`.
    inference
        Where the leaves to push from and pull to are looked for: `"fast"` among those that one
        flipped split leads to, O(depth^2) splits an example; `"exact"` among all, O(2^depth).
    start
        What the tree starts from. `"co2"` and `"axis"` grow it greedily on the first rows, level by
        level, by axis-aligned splits (information gain, or variance), which CO2 turns into
        oblique ones; it is grown anew whenever there are four times as many rows, so that it
        predicts early. `"zeros"` needs no rows: all splits are zero, and the leaves that examples
        prefer give them their directions. Nothing depends on the order of the features.
    warm_up
        From 2 to 10,000,000: how many rows `"co2"` and `"axis"` keep. They are let go when the last
        tree is grown.
    momentum
        From 0 to below 1. Only weights that an update touches move, and a velocity waits until
        its column comes again.
    batch_size
        At least 1: the number of examples whose mean gradient makes a step.
    hold
        Stable SGD for `objective="surrogate"`: examples count as assigned to the leaf to which the
        splits led that were there when a round of `hold` examples began. 0 switches it off.
    algorithm
        `"stream"` standardises features (and targets) as they come, takes AdaGrad steps, and fills
        a warm start up to the full depth. `"paper"` takes plain gradient steps on the values as
        they are.
    max_bytes
        At least 262144, or None for any number: the bytes that the model may take, with names,
        labels and all that it has learned; not with room for the row at hand. When they run short,
        the warm-up ends, and at last splits take in no more columns; classes that the leaves have
        no room for count as the last one that found some. New names then share a few columns, which
        `learn_one` warns of long before, and a label that finds no room is refused with a
        ValueError.
    nominal_attributes
        Names of columns whose numbers are categories, as strings are anyway; of an array, numbers
        of columns.
    restarts
        Whether a new tree may take the place of this one where it errs far more than it did, as
        `ForestClassifier` describes it. It may change while the tree learns.
        `algorithm="paper"` never restarts.

    Notes
    -----
    Learning costs O(depth^2 * non-zero features + depth * classes) with the fast inference,
    predicting O(depth * (non-zero features + classes)). A node takes about 250 bytes and 16 for
    every class, a split 16 more for every feature met there. The rows of the warm-up take 12 bytes
    for every non-zero feature.

    References
    ----------
    [^1]: Norouzi, M., Collins, M.D., Johnson, M., Fleet, D.J. and Kohli, P., 2015. Efficient
        non-greedy optimization of decision trees. Advances in Neural Information Processing
        Systems 28.
    [^2]: Norouzi, M., Collins, M.D., Fleet, D.J. and Kohli, P., 2015. CO2 forest: improved random
        forest by continuous optimization of oblique splits. arXiv:1506.06155.
    [^3]: Agarwal, A., Tan, Y. S., Ronen, O., Singh, C. and Yu, B., 2022. Hierarchical shrinkage.
        ICML.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamtree import NonGreedyTreeClassifier

    >>> model = NonGreedyTreeClassifier()
    >>> evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    Accuracy: 91.99%

    """

    _is_regression = False


class NonGreedyTreeRegressor(_NonGreedyTree, StreamTreeRegressor):
    """Oblique tree of one number, trained by projected SGD on the squared loss.

    All splits of the tree, linear ones, learn together: an example moves the splits that stand
    between the leaf it should fear (the largest loss that it could easily fall into) and the one
    it may hope for, and each split stays within a bound on its norm.
    Leaves hold a number: the mean of the examples that fall into them, in which old ones are
    forgotten, drawn to that of the node above; or by `algorithm="paper"` the result of gradient
    steps. Predictions stay near what was seen; by `algorithm="stream"` they are drawn towards the
    mean of all targets as far as that would have paid so far.

    The parameters and the costs are those of `NonGreedyTreeClassifier`, with targets in the place
    of classes.

    References
    ----------
    [^1]: Norouzi, M., Collins, M.D., Johnson, M., Fleet, D.J. and Kohli, P., 2015. Efficient
        non-greedy optimization of decision trees. Advances in Neural Information Processing
        Systems 28.
    [^2]: Norouzi, M., Collins, M.D., Fleet, D.J. and Kohli, P., 2015. CO2 forest: improved random
        forest by continuous optimization of oblique splits. arXiv:1506.06155.

    Examples
    --------
    >>> from river import evaluate, metrics
    >>> from river.datasets import synth
    >>> from streamtree import NonGreedyTreeRegressor

    >>> model = NonGreedyTreeRegressor()
    >>> evaluate.progressive_val_score(synth.Friedman(seed=1).take(5000), model, metrics.R2())
    R2: 0.763952

    """


class NonGreedyTreeMultiTargetRegressor(_NonGreedyTree, StreamTreeMultiTargetRegressor):
    """Oblique tree of several numbers, trained by projected SGD on the sum of squared losses.

    All splits of the tree, linear ones, learn together: an example moves the splits that stand
    between the leaf it should fear (the largest loss that it could easily fall into) and the one
    it may hope for, and each split stays within a bound on its norm.
    Leaves hold a number for every target; by `algorithm="stream"` the loss of each is measured in
    units of its variance, and its predictions are drawn towards the mean of the target as far as
    that would have paid so far. The first example fixes the names of the targets.

    The parameters and the costs are those of `NonGreedyTreeClassifier`, with targets in the place
    of classes.

    References
    ----------
    [^1]: Norouzi, M., Collins, M.D., Johnson, M., Fleet, D.J. and Kohli, P., 2015. Efficient
        non-greedy optimization of decision trees. Advances in Neural Information Processing
        Systems 28.
    [^2]: Norouzi, M., Collins, M.D., Fleet, D.J. and Kohli, P., 2015. CO2 forest: improved random
        forest by continuous optimization of oblique splits. arXiv:1506.06155.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, stream
    >>> from streamtree import NonGreedyTreeMultiTargetRegressor

    >>> rows = [(x, {"area": x["region-centroid-col"], "line": x["hue-mean"]})
    ...         for x, _ in datasets.ImageSegments()]
    >>> model = NonGreedyTreeMultiTargetRegressor()
    >>> metric = metrics.multioutput.MacroAverage(metrics.R2())
    >>> evaluate.progressive_val_score(rows, model, metric)
    MacroAverage(R2): 0.962392

    """
