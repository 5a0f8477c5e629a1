"""Logarithmic-time trees for many classes."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import NormalDist
from typing import Any

import numpy as np

from streamtree import inspection, states
from streamtree._core.additive import KNOTS, MOST_CLASSES, RATES
from streamtree._core.features import Category
from streamtree._core.lomtree import LomTreeCore
from streamtree._core.losses import Loss
from streamtree._core.modelleaves import EXPERTS
from streamtree._core.splitsearch import BUCKETS, CANDIDATES
from streamtree.base import StreamTreeClassifier, check_choice, check_integer, check_number

__all__ = ["LOMTreeClassifier"]

_LOSSES = {
    "hinge": Loss.HINGE,
    "logistic": Loss.LOGISTIC,
    "squared": Loss.SQUARED,
    "absolute": Loss.ABSOLUTE,
}
_LEAF_MODELS = ("majority", "softmax", "adaptive")
# the kind of everything that a snapshot keeps of a model, and of a leaf's search for a split
_NUMBERS = np.empty(0, dtype=np.float32)
_INTEGERS = np.empty(0, dtype=np.int32)
_TABLE = {"keys": _INTEGERS, "records": np.empty((0, 0), dtype=np.float32)}
_ADDITIVE = {"stride": 0, "linear": _TABLE, "knots": _TABLE}
_PART = {
    "node": 0, "is_crowded": False, "classes": _INTEGERS, "losses": _NUMBERS, "shares": _NUMBERS,
    **_ADDITIVE,
}  # fmt: skip
_BAYES = {**_ADDITIVE, "trust": 0.0, "squares": 0.0, "rows": 0.0, "weight": 0.0}
_SEARCH = {
    "rows": 0.0, "watched": 0.0, "next_look": 0.0, "looks": 0, "sums": _NUMBERS,
    "squares": _NUMBERS, "columns": _INTEGERS, "candidates": np.empty((0, 0), dtype=np.float32),
}  # fmt: skip


class LOMTreeClassifier(StreamTreeClassifier):
    """Logarithmic-time online multiclass tree.

    Where there are many classes, a node holds a linear test that learns to send about half of its
    examples, and whole classes rather than parts of them, to either side: it is trained towards
    +1 on classes whose mean score is at least the mean over all classes, else towards -1, which
    climbs the balance-and-purity objective J(h) of the paper. Learning and predicting cost
    O(depth), logarithmic in the number of classes.

    Where few enough classes are left (`max_leaf_classes`), a leaf models them all, and dividing
    them would gain nothing. `leaf_model="adaptive"`, the default, is an additive softmax: the
    score of a class is a sum of piecewise linear functions of the columns. It runs at two
    learning rates, in the leaf and in the first node on the way there that has one, and what the
    four say is weighed by their progressive log losses. They start from what naive Bayes says of
    the same columns, times a factor that is learned; when that has come down to nothing, as it
    does on most long streams, the counts are dropped. Such a leaf splits at a threshold of one
    column where its model errs differently on either side: there two models say more than one.
    Both children go on from a copy.

    With `algorithm="stream"`, the default, features are standardised as they come, nodes learn
    by AdaGrad whose memory fades, and with `leaf_model="majority"` a leaf trains its linear test
    first and splits once the test separates classes beyond chance; the children inherit the
    votes. With `algorithm="paper"` it is Algorithm 1 of the paper to the letter: majority leaves,
    plain gradient steps on the values as they are, a split as soon as a leaf has seen two
    classes. The one departure there is that a child of the root is never recycled, which would
    lose the tree. The defaults are what measured best over dozens of real streams.

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
        At least 1: the weight that a leaf sees between two tests whether to split; with a leaf
        model seven times as much, and at least 50 and as much as there are columns. Not used by
        `algorithm="paper"`.
    delta
        Between 0 and 1: the significance level of that test. The levels of all thresholds that
        a leaf with a model ever tries sum up to it. Leaves that predict their majority gain from
        early splits, hence the high default; where there may be nothing to learn, 0.01 keeps the
        tree small. Not used by `algorithm="paper"`.
    algorithm
        `"stream"` or `"paper"`, see above.
    leaf_model
        `"adaptive"`, see above; `"softmax"`: the leaf's own model only, linear in the columns, at
        both rates, without naive Bayes; `"majority"`: the most frequent class, faithful to the
        paper, and the cheapest.
    leaf_learning_rate
        Above 0 and at most 1000: the slower of the leaf models' two step sizes, the other is
        six times as large. It is divided by 4 plus the mean squared norm of the examples.
    max_leaf_classes
        From 2 to 256: with more classes a leaf has no model; it predicts their majority until a
        linear test has divided them.
    max_size
        At least 0: the bytes that leaf models may take before leaves split at thresholds no more,
        for each split copies a model. What is there goes on learning, and may grow by new columns
        and classes.
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
    Accuracy: 92.90%

    >>> x, y = next(iter(datasets.ImageSegments()))
    >>> model.predict_one(x)
    'path'
    >>> model.n_splits, model.height
    (9, 5)

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
        leaf_model: str = "adaptive",
        leaf_learning_rate: float = 2.5,
        max_leaf_classes: int = 256,
        max_size: int = 200_000_000,
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
        self.max_size = max_size
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
            "keep": 1.0 - check_number("forgetting", params["forgetting"], at_least=0, below=1),
            "grace_period": check_number("grace_period", params["grace_period"], at_least=1),
            "split_z": -NormalDist().inv_cdf(delta),
            "delta": delta,
            "leaf_learning_rate": check_number(
                "leaf_learning_rate", params["leaf_learning_rate"], above=0, at_most=1000
            ),
            "max_leaf_classes": check_integer(
                "max_leaf_classes", params["max_leaf_classes"], at_least=2, at_most=256
            ),
            "max_size": check_integer("max_size", params["max_size"], at_least=0, at_most=2**62),
        }

    def _new_core(self) -> LomTreeCore:
        algorithm = check_choice("algorithm", self.algorithm, ("stream", "paper"))
        loss = check_choice("loss", self.loss, tuple(_LOSSES))
        leaf_model = check_choice("leaf_model", self.leaf_model, _LEAF_MODELS)
        if self.seed is not None:
            check_integer("seed", self.seed, at_least=0, at_most=2**64 - 1)
        return LomTreeCore(
            literal=algorithm == "paper",
            loss=_LOSSES[loss],
            seed=self.seed,
            leaf_model="majority" if algorithm == "paper" else leaf_model,
            **self._settings(self._get_params()),
        )

    @property
    def _mutable_attributes(self) -> set[str]:
        return {
            "max_splits", "swap_resistance", "learning_rate", "forgetting", "grace_period", "delta",
        }

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"algorithm": "paper", "learning_rate": 0.25, "max_splits": 20}
        yield {"leaf_model": "majority", "max_splits": 100}
        yield {"leaf_model": "softmax", "max_leaf_classes": 3, "grace_period": 5.0, "seed": 1}

    def _views(self) -> list[inspection.NodeView]:
        state = self.snapshot()
        nodes, classes, labels = state["nodes"], state["classes"], state["labels"]
        leaves = {}
        for node in (state["links"]["left"] < 0).nonzero()[0].tolist():
            span = slice(classes["starts"][node], classes["starts"][node + 1])
            votes = classes["records"][span, 0].tolist()
            total = float(nodes["votes"][node])
            majority = int(nodes["majority"][node])
            leaves[node] = {
                "weight": total,
                "prediction": labels[majority] if majority >= 0 else None,
                "shares": {
                    labels[key]: vote / total
                    for key, vote in zip(classes["keys"][span].tolist(), votes, strict=True)
                    if vote > 0.0
                },
            }
        offsets = [(bias, 1.0) for bias in nodes["bias"].tolist()]
        return inspection.linear_views(
            state, "models", offsets, leaves, tests=self._threshold_tests(state)
        )

    def _threshold_tests(self, state: dict[str, Any]) -> dict[int, tuple[Any, str]]:
        """The feature and the question, in the feature's own units, of splits at thresholds."""
        models = state["leaf_models"]
        if models is None:
            return {}
        scales, tests = state["scaler"]["columns"], {}
        for node in (models["columns"] >= 0).nonzero()[0].tolist():
            column, name = int(models["columns"][node]), state["features"][models["columns"][node]]
            factor, center = float(scales["factor"][column]), float(scales["center"][column])
            threshold = center + (float(models["thresholds"][node]) / factor if factor else 0.0)
            if isinstance(name, Category):
                tests[node] = name, f"{name.name} is {name.value!r}"
            else:
                tests[node] = name, f"{name} > {threshold:.6g}"
        return tests

    def _check_state(self, state: dict[str, Any]) -> None:
        super()._check_state(state)
        nodes, n_labels = state["nodes"], len(state["labels"])
        states.check_links(state["links"])
        states.require(len(nodes) == len(state["links"]), "the number of nodes")
        states.check_tables(state["models"], len(nodes), len(state["features"]), 2)
        states.check_tables(state["classes"], len(nodes), n_labels, 4)
        states.check_tables(state["passages"], n_labels, len(nodes), 2)
        states.check_counts(state["n_splits"], state["n_swaps"])
        states.require(2 * state["n_splits"] + 1 == len(nodes), "the number of splits")
        states.check_finite(
            nodes, "trained", "right", "size", "votes", "majority_votes", "next_test", at_least=0
        )
        # a model that has learned something has a majority in every node
        known = nodes["majority"] >= 0 if n_labels else nodes["majority"] == -1
        states.require((known & (nodes["majority"] < n_labels)).all(), "the majority of a node")
        if state["leaf_models"] is not None:
            self._check_leaf_models(state, n_labels, len(state["features"]))

    def _check_leaf_models(self, state: dict[str, Any], n_labels: int, n_columns: int) -> None:
        models, left = state["leaf_models"], state["links"]["left"]
        columns = models["columns"]
        states.require(len(columns) == len(models["thresholds"]) == len(left), "leaf models")
        states.require(((columns >= -1) & (columns < n_columns)).all(), "a column of a split")
        states.require((columns[left < 0] == -1).all(), "a split of a leaf")
        states.check_finite(models["thresholds"])
        for number in ("mean_norm", "rows"):
            states.check_finite(np.array([models[number]]), at_least=0.0)
        states.require(type(models["parts"]) is list, "the parts of the leaf models")
        parts = {}
        for part in models["parts"]:
            states.check_same_kind(part, _PART)
            node = part["node"]
            states.require(0 <= node < len(left) and node not in parts, "the node of a leaf model")
            parts[node] = part
            has_search = part["search"] is not None
            states.require(
                has_search == (left[node] < 0 and not part["is_crowded"]), "the search of a leaf"
            )
            classes = part["classes"].tolist()
            states.require(len(set(classes)) == len(classes) <= MOST_CLASSES, "a leaf's classes")
            states.require(all(0 <= label < n_labels for label in classes), "a leaf's classes")
            self._check_additive(part, n_columns)
            if part["bayes"] is not None:
                states.require(self.leaf_model == "adaptive", "naive Bayes of a leaf model")
                states.check_same_kind(part["bayes"], _BAYES)
                self._check_additive(part["bayes"], n_columns)
                for name in ("trust", "squares", "rows", "weight"):
                    states.check_finite(np.array([part["bayes"][name]]), at_least=0.0)
                for name in ("linear", "knots"):
                    states.check_finite(part["bayes"][name]["records"], at_least=0.0)
                states.require(part["bayes"]["trust"] > 0.0, "the trust of a leaf model")
                states.require(part["bayes"]["stride"] > 0, "the counts of a leaf model")
            for name in ("losses", "shares"):
                states.require(len(part[name]) == EXPERTS, f"the {name} of a leaf")
                states.check_finite(part[name], at_least=0.0)
            if has_search:
                self._check_search(part["search"], n_columns)
        states.require(set((left < 0).nonzero()[0].tolist()) <= set(parts), "a leaf's model")
        states.require(
            all(left[node] < 0 or columns[node] >= 0 for node in parts), "a model of a node"
        )

    def _check_additive(self, model: dict[str, Any], n_columns: int) -> None:
        stride = model["stride"]
        states.require(
            stride in (0, 1) or (0 < stride <= MOST_CLASSES and stride % 4 == 0),
            "the classes of a leaf model",
        )
        for name, n_keys in (("linear", n_columns + 1), ("knots", KNOTS * n_columns)):
            table = model[name]
            starts = np.array([0, len(table["keys"])])
            states.check_tables({**table, "starts": starts}, 1, n_keys, RATES * stride + 2)
            states.check_finite(table["records"])
            # behind the weights the sum of squares, and a number that fills the pair
            states.check_finite(table["records"][:, RATES * stride], at_least=0.0)
        if stride > 1:
            states.require(0 in model["linear"]["keys"], "the bias of a leaf model")

    def _check_search(self, search: Any, n_columns: int) -> None:
        states.check_same_kind(search, _SEARCH)
        for name in ("rows", "watched", "next_look"):
            states.check_finite(np.array([search[name]]), at_least=0.0)
        states.require(0 <= search["looks"] < 2**31, "the looks of a leaf")
        columns = search["columns"]
        states.require(len(columns) in (0, CANDIDATES), "the candidates of a leaf")
        states.require(((columns >= 0) & (columns < n_columns)).all(), "a column of a candidate")
        for name in ("sums", "squares"):
            states.require(len(search[name]) == BUCKETS, f"the {name} of a leaf")
            states.check_finite(search[name])
        shape = (len(columns), 2 + 2 * BUCKETS)
        states.require(search["candidates"].shape == shape, "the candidates of a leaf")
        states.check_finite(search["candidates"])

    @property
    def n_splits(self) -> int:
        """Number of internal nodes."""
        return int(self._core.n_splits)

    @property
    def n_swaps(self) -> int:
        """How often a leaf was recycled to split another one."""
        return int(self._core.n_swaps)

    @property
    def summary(self) -> dict[str, float]:
        """The shape of the tree in a few numbers."""
        return {
            "n_nodes": self.n_nodes,
            "n_leaves": self.n_leaves,
            "height": self.height,
            "mean_depth": self._core.mean_depth(),
            "n_splits": self.n_splits,
            "n_swaps": self.n_swaps,
            "n_labels": len(self._core.labels),
            "n_features": len(self._core.features),
        }
