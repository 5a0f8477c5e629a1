"""Logarithmic-time trees for many classes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from statistics import NormalDist
from typing import Any

from streamtree import inspection
from streamtree._core.kernels.losses import Loss
from streamtree._core.trees.label.tree import LabelTree, label_tree
from streamtree._core.trees.lom import LomTree
from streamtree._core.trees.model import ModelTree
from streamtree.base import (
    DEFAULT_BYTES,
    StreamTreeClassifier,
    check_choice,
    check_integer,
    check_nominal,
    check_number,
    check_seed,
)

__all__ = ["LOMTreeClassifier"]

_LOSSES = {
    "hinge": Loss.HINGE,
    "logistic": Loss.LOGISTIC,
    "squared": Loss.SQUARED,
    "absolute": Loss.ABSOLUTE,
}


class LOMTreeClassifier(StreamTreeClassifier):
    """LOMtree: logarithmic-time online multiclass tree.

    Made for many classes. With at most `max_leaf_classes` of them it is `ModelTreeClassifier`. More
    are divided, and a label lives in at most one group. Inner nodes are logistic regressions
    that say how probable either side is, a group is a softmax model of its labels, both over
    piecewise linear functions of the columns. The probability of a label is the product along its
    path; a beam over the nodes finds the most probable ones. Learning and predicting cost
    O(log(classes)): an example trains the nodes of its label's path and its group.

    Besides, it is counted how often each label came with each sparse column (a word, a category): a
    naive Bayes smoothed by the columns of all rows (Jelinek & Mercer 1980), which knows a label
    from its first example on. Groups and counts are pooled, p(label) ~ p_groups^a * p_counts^b, and
    the exponents follow the log loss. A label with such columns joins a group with its fourth
    example, others with their second.

    A group that has become too large is divided in two halves whose labels' means lie far apart,
    as a linear test can tell them: that is what is left of the paper's objective J(h), of balance
    and purity, where no label is on both sides. Where rows say little of their labels, frequent
    ones stay together instead. Models of both sides go on with what they know. A new label joins
    the group of the label that counts hold most probable, else of the one with the nearest mean, or
    of the most probable one, as long as no side gets more than two thirds of the labels, so the
    depth stays below 2 log2(classes) in any order.

    Where regions have few labels each, as on a map, a tree that splits at thresholds is better than
    groups. So the tree of the first labels goes on beside the groups until 10,000 to 50,000 rows
    have shown which of the two predicts better; then the other is dropped. Without room for both
    in `max_bytes` at the start, groups go on alone; later, as soon as they are ahead.

    With `leaf_model="majority"` it is the LOMtree whose leaves predict their most frequent class: a
    node sends examples, not labels, to either side, a leaf splits once its test separates classes
    beyond chance, and the children inherit the votes.

    With `algorithm="stream"`, the default, features are standardised as they come and tests learn
    by AdaGrad. With `algorithm="paper"` it is Algorithm 1 of the paper to the letter: majority
    leaves, plain gradient steps on the values as they are, a split as soon as a leaf has seen two
    classes. The one departure there is that a child of the root is never recycled, which would lose
    the tree.

    Parameters
    ----------
    max_splits
        The largest number of internal nodes (the paper's T). Once they are used up, others make
        room: the smallest leaf, or a group that is no longer used.
    swap_resistance
        At least 1 (the paper's R_S): a leaf is split at the cost of the smallest leaf s if its
        weight less that of its majority class exceeds `swap_resistance * (weight of s + 1)`. Of
        groups: one is no longer used once none of its labels came in the last
        `swap_resistance` rows for every label of the tree. It is given up where nodes or memory
        run short, and its labels join others when they come again.
    learning_rate
        Above 0. The step size of the linear tests above majority leaves; it is divided by 4 plus
        the mean squared norm of the examples, except by `algorithm="paper"`, which uses it as it
        is (the paper: 0.25 to 8).
    loss
        The loss of the score of such a test against its target of -1 or +1: `"hinge"`,
        `"logistic"`, `"squared"` or `"absolute"`.
    forgetting
        From 0 to below 1: the share of AdaGrad's sum of squared gradients that an update forgets.
        0 is AdaGrad as published, whose steps die out; more keeps following a changing stream.
        For the tests above majority leaves, and not used by `algorithm="paper"`.
    grace_period
        At least 1: the weight that a leaf sees between two tests whether to split; with a model
        seven times as much, and at least 50 and as much as there are columns. Not used by
        `algorithm="paper"`.
    delta
        Between 0 and 1: the significance level of that test. The levels of all thresholds that
        a leaf with a model ever tries are about that together. Early splits pay, hence the high
        default; where there may be nothing to learn, 0.01 keeps the tree small. Not used by
        `algorithm="paper"`.
    algorithm
        `"stream"` or `"paper"`, see above.
    leaf_model
        `"model"`, see above, or `"majority"`, faithful to the paper and the cheapest.
    leaf_learning_rate
        Above 0 and at most 1000: the slower of the leaf models' two step sizes, the other is
        six times as large. It is divided by 4 plus the mean squared norm of the examples. Groups
        and the tests above them take 1.4 times the slower one.
    max_leaf_classes
        From 2 to 256: more classes are divided into groups, and no group has more.
    beam
        From 1 to 64: how many groups are looked at to predict; 1 follows one path.
    max_bytes
        At least 262144, or None for any number: the bytes that the model may take, with names,
        labels and all that it has learned; not with room for the row at hand. When they run short,
        groups forget what hardly learned (majority leaves split only in the place of others, as
        they do beyond `max_splits`), and at last models take in no more columns and labels. New
        names then share a few columns, which `learn_one` warns of long before, and a label that
        finds no room is refused with a ValueError.
    seed
        None compares a class that is new to a node as if its mean score were 0, as the paper does;
        an integer from 0 to 2**64 - 1 draws its first side at random instead. One above 0 tries
        thresholds for two columns of three at a time, which gives the members of an ensemble
        different trees. Either way the model is deterministic.
    nominal_attributes
        Names of columns whose numbers are categories, as strings are anyway; of an array, numbers
        of columns.
    restarts
        Whether a new tree may take the place of this one where it errs far more than it did, as
        `ForestClassifier` describes it; while there are at most 256 labels. It may change while the
        tree learns. `algorithm="paper"` never restarts.

    Notes
    -----
    With groups, learning an example costs O((depth + classes of the group) * non-zero features),
    predicting that times `beam`, and probabilities of all classes, or of the most likely ones,
    O(classes) on top. What is not found by the beam is shared evenly by the labels outside, which
    are never said to be more likely than the best one that was found. Counts of a column are kept
    for at most 256 labels, those that come often, at 8 to 16 bytes for each and 32 for a column,
    and take at most a quarter of what the tree may. A group takes 8 bytes for every class and
    column of which an example was seen, a test 16 for every column, and tables are half full on
    average; a label takes 300 for its mean, of rows that are projected at random to 64 numbers.
    What a column says against labels alone is left out when a group is divided.
    With majority leaves a node takes about 150 bytes, 16 for every feature met there and for every
    class met there 32 while it is a leaf, 16 from then on.
    Weights above a million count as a million in models. Streams sorted by class starve the tests
    of majority leaves (the mean score then is that of the one class at hand): shuffle them if you
    can.

    What changes slowly is followed by the faster of the two rates and the fading losses, what
    changes at once by a new tree (`restarts`).

    References
    ----------
    [^1]: Choromanska, A. and Langford, J., 2015. Logarithmic time online multiclass prediction.
        Advances in Neural Information Processing Systems 28.
    [^2]: Jasinska-Obuchowska, K., Wydmuch, M., Thiruvenkatachari, D. and Dembczynski, K., 2021.
        Online probabilistic label trees. AISTATS.
    [^3]: Choromanska, A., Choromanski, K. and Bojarski, M., 2016. On the boosting ability of
        top-down decision tree learning algorithm for multiclass classification.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamtree import LOMTreeClassifier

    >>> model = LOMTreeClassifier()
    >>> evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    Accuracy: 93.07%

    >>> model = LOMTreeClassifier(leaf_model="majority")
    >>> evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    Accuracy: 83.93%
    >>> model.n_splits, model.height
    (15, 6)

    """

    def __init__(
        self,
        max_splits: int = 10_000,
        swap_resistance: float = 4.0,
        learning_rate: float = 5.0,
        loss: str = "hinge",
        forgetting: float = 0.003,
        grace_period: float = 20.0,
        delta: float = 0.3,
        algorithm: str = "stream",
        leaf_model: str = "model",
        leaf_learning_rate: float = 2.5,
        max_leaf_classes: int = 256,
        beam: int = 4,
        max_bytes: int | None = DEFAULT_BYTES,
        seed: int | None = None,
        nominal_attributes: list[Any] | tuple[Any, ...] | None = None,
        restarts: bool = True,
    ) -> None:
        self.max_splits = max_splits
        self.swap_resistance = swap_resistance
        self.learning_rate = learning_rate
        self.loss = loss
        self.forgetting = forgetting
        self.grace_period = grace_period
        self.delta = delta
        self.algorithm = algorithm
        self.leaf_model = leaf_model
        self.leaf_learning_rate = leaf_learning_rate
        self.max_leaf_classes = max_leaf_classes
        self.beam = beam
        self.max_bytes = max_bytes
        self.seed = seed
        self.nominal_attributes = check_nominal(nominal_attributes)
        self.restarts = restarts
        self._core = self._new_core()

    @property
    def _has_groups(self) -> bool:
        """Whether every label lives in one group, with a model."""
        return self.algorithm == "stream" and self.leaf_model == "model"

    def _settings(self, params: dict[str, Any]) -> dict[str, Any]:
        delta = check_number("delta", params["delta"], above=0, below=1)
        max_splits = check_integer(
            "max_splits", params["max_splits"], at_least=1, at_most=2**30 - 1
        )
        # below 1 a swap could undo the one before it, for ever
        swap_resistance = check_number(
            "swap_resistance", params["swap_resistance"], at_least=1
        )
        learning_rate = check_number("learning_rate", params["learning_rate"], above=0)
        decay = 1.0 - check_number("forgetting", params["forgetting"], at_least=0, below=1)
        grace_period = check_number("grace_period", params["grace_period"], at_least=1)
        leaf_rate = check_number(
            "leaf_learning_rate", params["leaf_learning_rate"], above=0, at_most=1000
        )
        max_classes = check_integer(
            "max_leaf_classes", params["max_leaf_classes"], at_least=2, at_most=256
        )
        beam = check_integer("beam", params["beam"], at_least=1, at_most=64)
        if not self._has_groups:
            return {
                "max_splits": max_splits, "swap_resistance": swap_resistance,
                "learning_rate": learning_rate, "decay": decay, "grace_period": grace_period,
                "split_z": -NormalDist().inv_cdf(delta),
            }
        return {
            "max_splits": max_splits, "swap_resistance": swap_resistance, "beam": beam,
            "leaf_rate": leaf_rate,
            "whole": {
                "max_splits": max_splits, "grace_period": grace_period, "delta": delta,
                "leaves": {"learning_rate": leaf_rate, "max_classes": max_classes},
            },
        }

    def _tree_maker(self) -> Callable[[], LabelTree | LomTree]:
        is_paper = check_choice("algorithm", self.algorithm, ("stream", "paper")) == "paper"
        loss = _LOSSES[check_choice("loss", self.loss, tuple(_LOSSES))]
        check_choice("leaf_model", self.leaf_model, ("majority", "model"))
        check_seed(self.seed)
        settings = self._settings(self.__dict__)
        of_whole = settings.pop("whole", {})
        of_leaves = of_whole.pop("leaves", {})
        if not of_whole:
            return functools.partial(LomTree, paper=is_paper, loss=loss, seed=self.seed, **settings)
        make_whole = functools.partial(ModelTree, seed=self.seed or 0, **of_whole)
        return functools.partial(label_tree, make_whole, of_leaves, **settings)

    @property
    def _mutable_attributes(self) -> set[str]:
        return {
            "max_splits", "swap_resistance", "learning_rate", "forgetting", "grace_period", "delta",
            "leaf_learning_rate", "beam", "max_bytes", "restarts",
        }

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"algorithm": "paper", "learning_rate": 0.25, "max_splits": 20}
        yield {"leaf_model": "majority", "max_splits": 100}
        yield {"leaf_model": "model", "max_leaf_classes": 3, "grace_period": 5.0, "seed": 1}
        yield {"max_leaf_classes": 2, "beam": 1}

    def _views(self) -> list[inspection.NodeView]:
        state = self._outline()
        tree = state["tree"]
        if self._has_groups and not tree["is_whole"]:
            return inspection.binary_views(
                tree["links"], inspection.side_tests(state), inspection.groups(state)
            )
        if self._has_groups:
            tree = tree["whole"][0]
            state = {**state, "tree": tree}
        nodes = tree["nodes"]
        if self._has_groups:
            tests = inspection.threshold_tests(state, nodes["column"], nodes["threshold"])
        else:
            offsets = {
                node: (float(nodes["bias"][node]), 1.0)
                for node in (tree["links"]["left"] >= 0).nonzero()[0]
            }
            tests = inspection.linear_tests(
                state["features"], tree["models"], offsets, ("<= 0", "> 0")
            )
        return inspection.binary_views(
            tree["links"], tests,
            inspection.voting_leaves(state, tree["classes"], nodes["votes"], nodes["majority"]),
        )

    @property
    def n_splits(self) -> int:
        """Number of internal nodes."""
        return self.n_nodes // 2

    @property
    def n_swaps(self) -> int:
        """How often a leaf was recycled to split another one.

        With groups: how often one that was no longer used was given up, or the place of a label.
        """
        return int(self._core.tree.n_swaps)

    def _shape(self) -> dict[str, float]:
        return {
            "mean_depth": self._core.measure("mean_depth"),
            "n_splits": self.n_splits,
            "n_swaps": self.n_swaps,
            "n_labels": len(self._core.labels),
        }
