"""Logarithmic-time trees for many classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import NormalDist
from typing import Any

from streamtree import inspection
from streamtree._core.kernels.losses import Loss
from streamtree._core.leaves.mixture import MixtureLeaves
from streamtree._core.trees.lom import LomTree
from streamtree.base import (
    DEFAULT_BYTES,
    StreamTreeClassifier,
    check_choice,
    check_integer,
    check_number,
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

    Made for many classes; with up to 256 of them `ModelTreeClassifier` is more accurate. A node
    holds a linear test that learns to send about half of its examples, and whole classes rather
    than parts of them, to either side: it is trained towards +1 on classes whose mean score is at
    least the mean over all classes, else towards -1, which climbs the balance-and-purity objective
    J(h) of the paper. A leaf trains its test first and splits once the test separates classes
    beyond chance; the children inherit the votes. Learning and predicting cost O(depth),
    logarithmic in the number of classes.

    With `leaf_model="model"`, the default, a leaf in which few enough classes are left
    (`max_leaf_classes`) predicts with a model, as leaves of `ModelTreeClassifier` do, and splits at
    thresholds as they do: to divide so few classes by linear tests would gain little. The first
    split of all is a linear one. With `leaf_model="majority"` all leaves predict their most
    frequent class, and all splits are linear tests.

    With `algorithm="stream"`, the default, features are standardised as they come and tests learn
    by AdaGrad whose memory fades. With `algorithm="paper"` it is Algorithm 1 of the paper to the
    letter: majority leaves, plain gradient steps on the values as they are, a split as soon as a
    leaf has seen two classes. The one departure there is that a child of the root is never
    recycled, which would lose the tree. The defaults are what measured best over dozens of real
    streams.

    Parameters
    ----------
    max_splits
        The largest number of internal nodes (the paper's T). Once they are used up, the smallest
        leaf may be recycled to split another one.
    swap_resistance
        At least 1 (the paper's R_S): a leaf is split at the cost of the smallest leaf s if its
        weight less that of its majority class exceeds `swap_resistance * (weight of s + 1)`.
    learning_rate
        Above 0. The step size of the nodes' linear tests; it is divided by 4 plus the mean
        squared norm of the examples, except by `algorithm="paper"`, which uses it as it is (the
        paper: 0.25 to 8).
    loss
        The loss of a node's score against its target of -1 or +1: `"hinge"`, `"logistic"`,
        `"squared"` or `"absolute"`.
    forgetting
        From 0 to below 1: the share of AdaGrad's sum of squared gradients that an update forgets.
        0 is AdaGrad as published, whose steps die out; more keeps following a changing stream.
        For the linear tests, and not used by `algorithm="paper"`; leaf models forget 0.001.
    grace_period
        At least 1: the weight that a leaf sees between two tests whether to split; with a model
        seven times as much, and at least 50 and as much as there are columns. Not used by
        `algorithm="paper"`.
    delta
        Between 0 and 1: the significance level of that test. The levels of all thresholds that
        a leaf with a model ever tries sum up to it. Early splits pay, hence the high default;
        where there may be nothing to learn, 0.01 keeps the tree small. Not used by
        `algorithm="paper"`.
    algorithm
        `"stream"` or `"paper"`, see above.
    leaf_model
        `"model"`, see above, or `"majority"`, faithful to the paper and the cheapest.
    leaf_learning_rate
        Above 0 and at most 1000: the slower of the leaf models' two step sizes, the other is
        six times as large. It is divided by 4 plus the mean squared norm of the examples.
    max_leaf_classes
        From 2 to 256: with more classes a leaf has no model; it predicts their majority until a
        linear test has divided them.
    max_bytes
        At least 262144, or None for any number: the bytes that the model may take, with names,
        labels and all that it has learned; not with room for the row at hand. When they run short,
        leaves split only in the place of others, as they do beyond `max_splits`, and new ones have
        no models; at last models and tests take in no more columns. New names then share a few
        columns, which `learn_one` warns of long before, and a label that finds no room is refused
        with a ValueError.
    seed
        None compares a class that is new to a node as if its mean score were 0, as the paper does;
        an integer from 0 to 2**64 - 1 draws its first side at random instead, and other
        thresholds to try, which gives the members of an ensemble different trees. Either way the
        model is deterministic.

    Notes
    -----
    Learning an example costs O(depth * non-zero features), and with a leaf model O(classes of
    the leaf * non-zero features) on top. A node takes about 150 bytes, 16 for every feature met
    there and for every class met there 32 while it is a leaf, 16 from then on. A leaf model takes
    up to 72 bytes for every pair of feature and class, as much again where the counts of naive
    Bayes are kept, besides 2.5 kB for its search of a split.
    Weights above a million count as a million in leaf models. Streams sorted by class starve the
    linear tests (the mean score then is that of the one class at hand): shuffle them if you can.

    What changes is followed by the faster of the two rates and the fading losses.
    `river.drift.DriftRetrainingClassifier` starts anew when a detector calls a drift, where that
    pays.

    References
    ----------
    [^1]: Choromanska, A. and Langford, J., 2015. Logarithmic time online multiclass prediction.
        Advances in Neural Information Processing Systems 28.
    [^2]: Choromanska, A., Choromanski, K. and Bojarski, M., 2016. On the boosting ability of
        top-down decision tree learning algorithm for multiclass classification.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamtree import LOMTreeClassifier

    >>> model = LOMTreeClassifier()
    >>> evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    Accuracy: 92.42%

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
        max_bytes: int | None = DEFAULT_BYTES,
        seed: int | None = None,
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
        self.max_bytes = max_bytes
        self.seed = seed
        self._core = self._new_core()

    def _settings(self, params: dict[str, Any]) -> dict[str, Any]:
        delta = check_number("delta", params["delta"], above=0, below=1)
        return {
            "max_splits": check_integer(
                "max_splits", params["max_splits"], at_least=1, at_most=2**30 - 1
            ),
            # below 1 a swap could undo the one before it, for ever
            "swap_resistance": check_number(
                "swap_resistance", params["swap_resistance"], at_least=1
            ),
            "learning_rate": check_number("learning_rate", params["learning_rate"], above=0),
            "decay": 1.0 - check_number("forgetting", params["forgetting"], at_least=0, below=1),
            "grace_period": check_number("grace_period", params["grace_period"], at_least=1),
            "delta": delta,
            "split_z": -NormalDist().inv_cdf(delta),
            "leaves": {
                "learning_rate": check_number(
                    "leaf_learning_rate", params["leaf_learning_rate"], above=0, at_most=1000
                ),
                "max_classes": check_integer(
                    "max_leaf_classes", params["max_leaf_classes"], at_least=2, at_most=256
                ),
            },
        }

    def _tree_maker(self) -> Callable[[], LomTree]:
        is_paper = check_choice("algorithm", self.algorithm, ("stream", "paper")) == "paper"
        loss = check_choice("loss", self.loss, tuple(_LOSSES))
        leaf_model = check_choice("leaf_model", self.leaf_model, ("majority", "model"))
        if self.seed is not None:
            check_integer("seed", self.seed, at_least=0, at_most=2**64 - 1)
        settings = self._settings(self._get_params())
        leaf_settings = settings.pop("leaves")

        def make_tree() -> LomTree:
            leaves = None
            if leaf_model == "model" and not is_paper:
                leaves = MixtureLeaves(has_knots=True, has_rest=False, **leaf_settings)
            return LomTree(leaves, paper=is_paper, loss=_LOSSES[loss], seed=self.seed, **settings)

        return make_tree

    @property
    def _mutable_attributes(self) -> set[str]:
        return {
            "max_splits", "swap_resistance", "learning_rate", "forgetting", "grace_period", "delta",
            "leaf_learning_rate", "max_bytes",
        }

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"algorithm": "paper", "learning_rate": 0.25, "max_splits": 20}
        yield {"leaf_model": "majority", "max_splits": 100}
        yield {"leaf_model": "model", "max_leaf_classes": 3, "grace_period": 5.0, "seed": 1}

    def _views(self) -> list[inspection.NodeView]:
        state = self._outline()
        tree = state["tree"]
        nodes = tree["nodes"]
        is_linear = (tree["links"]["left"] >= 0) & (nodes["column"] < 0)
        offsets = {node: (float(nodes["bias"][node]), 1.0) for node in is_linear.nonzero()[0]}
        linear = inspection.linear_tests(
            state["features"], tree["models"], offsets, ("<= 0", "> 0")
        )
        return inspection.binary_views(
            tree["links"],
            linear | inspection.threshold_tests(state, nodes["column"], nodes["threshold"]),
            inspection.voting_leaves(state, tree["classes"], nodes["votes"], nodes["majority"]),
        )

    @property
    def n_splits(self) -> int:
        """Number of internal nodes."""
        return int(self._core.tree.n_splits)

    @property
    def n_swaps(self) -> int:
        """How often a leaf was recycled to split another one."""
        return int(self._core.tree.n_swaps)

    @property
    def summary(self) -> dict[str, float]:
        """The shape of the tree in a few numbers."""
        return {
            "n_nodes": self.n_nodes,
            "n_leaves": self.n_leaves,
            "height": self.height,
            "mean_depth": self._core.measure("mean_depth"),
            "n_splits": self.n_splits,
            "n_swaps": self.n_swaps,
            "n_labels": len(self._core.labels),
            "n_features": len(self._core.features),
        }
