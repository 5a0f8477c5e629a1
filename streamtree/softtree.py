"""Soft decision trees: every example takes all paths, each to a degree."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from streamtree import inspection
from streamtree._core.trees.soft.tree import SoftTree
from streamtree.base import (
    DEFAULT_BYTES,
    StreamTree,
    StreamTreeClassifier,
    StreamTreeRegressor,
    check_choice,
    check_integer,
    check_nominal,
    check_number,
    check_seed,
)

__all__ = ["SoftTreeClassifier", "SoftTreeRegressor"]

_PENALTIES = {"l1": 1, "l2": 2}
# of plain steps on standardised features
_PLAIN_RATE = 0.1


class _SoftTree(StreamTree):
    """What soft trees of classes and of numbers share: all but the docstring and the target."""

    _counts_examples = False
    _learning_rate: float  # of algorithm="stream"
    _is_regression: bool

    def __init__(
        self,
        learning_rate: float | None = None,
        penalty: str = "l2",
        penalty_share: float = 0.0,
        max_nodes: int = 63,
        max_depth: int = 10,
        delta: float = 0.5,
        window: float = 200.0,
        min_reach: float = 0.01,
        routing: str = "soft",
        leaf: str | None = None,
        update: str | None = None,
        algorithm: str = "stream",
        max_bytes: int | None = DEFAULT_BYTES,
        seed: int | None = None,
        nominal_attributes: list[Any] | tuple[Any, ...] | None = None,
        restarts: bool = True,
    ) -> None:
        self.learning_rate = learning_rate
        self.penalty = penalty
        self.penalty_share = penalty_share
        self.max_nodes = max_nodes
        self.max_depth = max_depth
        self.delta = delta
        self.window = window
        self.min_reach = min_reach
        self.routing = routing
        self.leaf = leaf
        self.update = update
        self.algorithm = algorithm
        self.max_bytes = max_bytes
        self.seed = seed
        self.nominal_attributes = check_nominal(nominal_attributes)
        self.restarts = restarts
        self._core = self._new_core()

    def _settings(self, params: dict[str, Any]) -> dict[str, Any]:
        learning_rate = params["learning_rate"]
        if learning_rate is None:
            learning_rate = _PLAIN_RATE if params["algorithm"] == "paper" else self._learning_rate
        return {
            "learning_rate": check_number("learning_rate", learning_rate, above=0),
            "penalty": _PENALTIES[check_choice("penalty", params["penalty"], tuple(_PENALTIES))],
            "strength": check_number(
                "penalty_share", params["penalty_share"], at_least=0, below=1
            ),
            "max_nodes": check_integer(
                "max_nodes", params["max_nodes"], at_least=1, at_most=2**30
            ),
            "max_depth": check_integer("max_depth", params["max_depth"], at_least=0, at_most=60),
            "delta": check_number("delta", params["delta"], above=0, below=1),
            "window": check_number("window", params["window"], at_least=1),
            "threshold": check_number("min_reach", params["min_reach"], at_least=0, at_most=0.5),
            "is_hard": check_choice("routing", params["routing"], ("soft", "hard")) == "hard",
        }

    def _tree_maker(self) -> Callable[[], SoftTree]:
        is_paper = self._is_paper
        leaf, update = self.leaf, self.update
        if leaf is None:
            leaf = "constant" if is_paper else "linear"
        if update is None:
            update = "newest" if is_paper else "all"
        seed = check_seed(self.seed)
        return functools.partial(
            SoftTree,
            is_regression=self._is_regression,
            is_paper=is_paper,
            is_linear=check_choice("leaf", leaf, ("linear", "constant")) == "linear",
            is_joint=check_choice("update", update, ("all", "newest")) == "all",
            seed=seed,
            **self._settings(self.__dict__),
        )

    @property
    def _is_paper(self) -> bool:
        return check_choice("algorithm", self.algorithm, ("stream", "paper")) == "paper"

    @property
    def _mutable_attributes(self) -> set[str]:
        return {
            "learning_rate", "penalty", "penalty_share", "max_nodes", "max_depth", "delta",
            "window", "min_reach", "routing", "max_bytes", "restarts",
        }

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"algorithm": "paper", "learning_rate": 0.2, "penalty": "l1", "penalty_share": 0.001}
        # a tree must grow within the few rows of a test
        yield {"leaf": "constant", "routing": "hard", "delta": 0.9, "window": 10, "seed": 3}

    def _views(self) -> list[inspection.NodeView]:
        """A leaf is shown with its response to an example without features.

        No node counts its examples: a leaf at depth d weighs 2^-d.
        """
        state = self._outline()
        tree = state["tree"]
        links, depths = tree["links"], tree["nodes"]["depth"]
        in_tree = (links["parent"] >= 0) | (np.arange(len(depths)) == 0)
        is_leaf = in_tree & (links["left"] < 0)
        leaves = {
            node: {"weight": 0.5 ** float(depths[node]), **said}
            for node, said in self._said_by(is_leaf.nonzero()[0].tolist()).items()
        }
        offsets = {
            node: (float(tree["nodes"]["gate_bias"][node]), 1.0)
            for node in (links["left"] >= 0).nonzero()[0].tolist()
        }
        tests = inspection.linear_tests(
            state["features"], tree["gates"], offsets, (">= 0", "< 0")
        )
        return inspection.binary_views(links, tests, leaves)

    @property
    def _note(self) -> str:
        if self.routing == "hard":
            return super()._note
        return "An example goes all ways, each to a degree."

    @property
    def n_splits(self) -> int:
        """How often a leaf was split."""
        return int(self._core.tree.n_splits)

    @property
    def n_collapses(self) -> int:
        """How often a split was taken back."""
        return int(self._core.tree.n_collapses)

    @property
    def zero_share(self) -> float:
        """The share of the weights of the tree's gates, one a feature, that are exactly 0.

        0 for a single leaf.
        """
        state = self._core.snapshot()
        gates, n_features = state["tree"]["gates"], len(state["features"])
        splits = (state["tree"]["links"]["left"] >= 0).nonzero()[0]
        if not len(splits) or not n_features:
            return 0.0
        nonzero = sum(
            int((gates["records"][gates["starts"][i] : gates["starts"][i + 1], 0] != 0.0).sum())
            for i in splits
        )
        return 1.0 - nonzero / (len(splits) * n_features)

    def _shape(self) -> dict[str, float]:
        return {"n_splits": self.n_splits, "n_collapses": self.n_collapses}


class SoftTreeClassifier(_SoftTree, StreamTreeClassifier):
    """Soft decision tree that grows by itself, for two or many classes.

    Every split is a gate: a logistic function of a linear score that sends the share g of an
    example to the left and 1 - g to the right. The tree's response is the sum of its leaves'
    responses, each times the share that reaches the leaf, and gives the classes' probabilities
    by the logistic function (two classes, one logit) or softmax (more). Gates and leaves follow
    the gradient of the log loss, on which an L1 or L2 penalty on the gates' weights may be put:
    `(1 - penalty_share) * loss + penalty_share * penalty`, as the paper has it.

    The tree grows by progressive validation. Each leaf has a candidate, a gate and two copies of
    the leaf, that learns in the background; leaf and candidate predict every example before they
    learn it, and the candidate takes the leaf's place once the sum of their differences in loss
    exceeds Robbins' mixture bound, which holds at all times at once: a leaf whose candidates
    never predict better is split with a probability of at most about `delta`, however long the
    stream. The leaf goes on learning in the background for as long as its children are leaves, and
    takes its place back when the split has stopped paying: when the same test shows that the leaf
    predicts better, or when a whole window of examples brought the split no gain.

    With `algorithm="stream"`, the default, features are standardised as they come, steps are
    those of AdaGrad, leaves are linear models (a tree that has not grown is a logistic or softmax
    regression) and all gates and leaves learn jointly. With `algorithm="paper"` the steps are
    plain gradient steps on the values as they are, leaves are constants, and only the newest split
    learns, as do the candidates. The defaults are what measured best over a dozen data sets.

    Parameters
    ----------
    learning_rate
        Above 0. The step size; it is divided by 4 plus the mean squared norm of the examples,
        except by `algorithm="paper"`, which uses it as it is (0.01 to 0.5 for standardised
        features and targets). None for 5, of a regressor 3, with `algorithm="paper"` 0.1.
    penalty
        `"l2"`, the sum of the gates' squared weights, or `"l1"`, the sum of their absolute
        values, whose proximal steps make many of them exactly 0. Offsets count as weights.
    penalty_share
        From 0, no penalty, to below 1: the paper's lambda. Steps follow single examples, so that L1
        holds a weight at 0 where it outweighs their slopes; with plain steps from about 0.003.
    max_nodes
        At least 1: the largest number of nodes, leaves included.
    max_depth
        From 0 to 60: the largest number of splits on a path.
    delta
        Between 0 and 1: the error rate of the test whether to split or to collapse. The default is
        high because a split by chance costs little and is taken back, and a late one costs much.
    window
        At least 1: how many examples a leaf and its candidate are compared on before the
        comparison starts anew, the first time; every further window is twice as long, up to
        5,000. What a candidate loses while it is new is so forgotten.
    min_reach
        From 0 to 0.5: paths with less than this share of an example are skipped, and their share
        is given to their siblings.
    routing
        How to predict: `"soft"`, by all paths, or `"hard"`, by the more probable child of every
        gate, which costs O(depth) instead of O(nodes). Learning is always soft.
    leaf
        `"linear"` or `"constant"`; None for what the algorithm has, see above.
    update
        What learns beside the candidates: `"all"` gates and leaves jointly, or the `"newest"`
        split only; None for what the algorithm has.
    algorithm
        `"stream"` or `"paper"`, see above.
    max_bytes
        At least 262144, or None for any number: the bytes that the model may take, with names,
        labels and all that it has learned; not with room for the row at hand. When they run short,
        no more splits are tried, and at last gates and leaves take in no more columns; classes that
        the leaves have no room for count as the last one that found some. New names then share a
        few columns, which `learn_one` warns of long before, and a label that finds no room is
        refused with a ValueError.
    seed
        An integer from 0 to 2**64 - 1, where candidates start; it gives the members of an ensemble
        different trees. None is as good as 0: the model is deterministic either way.
    nominal_attributes
        Names of columns whose numbers are categories, as strings are anyway; of an array, numbers
        of columns.
    restarts
        Whether a new tree may take the place of this one where it errs far more than it did, as
        `ForestClassifier` describes it. It may change while the tree learns.
        `algorithm="paper"` never restarts.

    Notes
    -----
    Learning an example costs O(nodes it reaches * non-zero features * classes), and so does a
    soft prediction. A node takes about 170 bytes, and for every feature met there 16 bytes in a
    gate and 16 times the number of classes in a leaf (once for two classes); a leaf that may
    still be split has two more nodes in the background. Thousands of classes are a task for
    LOMTreeClassifier.

    References
    ----------
    [^1]: Irsoy, O., Yildiz, O. T. and Alpaydin, E., 2012. Soft decision trees. International
        Conference on Pattern Recognition.
    [^2]: Yildiz, O. T. and Alpaydin, E., 2013. Regularizing soft decision trees. International
        Symposium on Computer and Information Sciences.
    [^3]: Robbins, H., 1970. Statistical methods related to the law of the iterated logarithm.
        The Annals of Mathematical Statistics 41.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamtree import SoftTreeClassifier

    >>> model = SoftTreeClassifier()
    >>> evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    Accuracy: 90.86%

    >>> x, y = next(iter(datasets.ImageSegments()))
    >>> model.predict_one(x)
    'path'
    >>> model.n_nodes
    11

    """

    _learning_rate = 5.0
    _is_regression = False


class SoftTreeRegressor(_SoftTree, StreamTreeRegressor):
    """Soft decision tree that grows by itself, for a number.

    The regressor of the family, see SoftTreeClassifier for how it is built, learns and grows: the
    tree's response is the predicted number, and the loss half its squared error. Targets are
    standardised as they come, with all leaves rescaled when their mean and deviation are computed
    anew, so that any unit will do; predictions never leave the range of the targets seen, and are
    drawn towards the mean of the targets as far as that would have paid so far: noise is answered
    with its mean. With `algorithm="paper"` targets and predictions are taken as they are.

    The parameters and the costs are those of `SoftTreeClassifier` with a single output.

    References
    ----------
    [^1]: Irsoy, O., Yildiz, O. T. and Alpaydin, E., 2012. Soft decision trees. International
        Conference on Pattern Recognition.
    [^2]: Yildiz, O. T. and Alpaydin, E., 2013. Regularizing soft decision trees. International
        Symposium on Computer and Information Sciences.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamtree import SoftTreeRegressor

    >>> model = SoftTreeRegressor()
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.393575

    >>> x, y = next(iter(datasets.TrumpApproval()))
    >>> round(model.predict_one(x), 1), round(y, 1)
    (44.7, 43.8)

    """

    _learning_rate = 3.0
    _is_regression = True

    @property
    def _is_robust(self) -> bool:
        return not self._is_paper
