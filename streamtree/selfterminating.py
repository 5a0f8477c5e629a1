"""Self-terminating prediction trees, for labels and for numbers."""

from __future__ import annotations

import abc
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from streamtree import inspection
from streamtree._core.kernels.losses import Loss
from streamtree._core.leaves.histogram import LeafModel
from streamtree._core.splits.predicates import Predicate
from streamtree._core.stream.features import Category
from streamtree._core.trees.prediction.nodes import NodeState
from streamtree._core.trees.prediction.tree import PredictionTree, new_tree
from streamtree.base import (
    DEFAULT_BYTES,
    StreamTree,
    StreamTreeClassifier,
    StreamTreeRegressor,
    check_choice,
    check_integer,
    check_nominal,
    check_number,
)
from streamtree.batches import label_list, target_array, weight_array

__all__ = ["SelfTerminatingTreeClassifier", "SelfTerminatingTreeRegressor"]

_LOSSES = {
    "log": Loss.LOGISTIC,
    "hinge": Loss.HINGE,
    "diff_hinge": Loss.RAMP,
    "exponential": Loss.EXPONENTIAL,
}
_PENALTIES = ("l1", "linf")
_LABEL_MODELS = {
    "majority": LeafModel.PATH,
    "softmax": LeafModel.LINEAR,
    "naive_bayes": LeafModel.BAYES,
    "adaptive": LeafModel.ADAPTIVE,
}
_NUMBER_MODELS = {
    "mean": LeafModel.PATH,
    "linear": LeafModel.LINEAR,
    "adaptive": LeafModel.ADAPTIVE,
}


class _SelfTerminatingTree(StreamTree):
    """What the classifier and the regressor share."""

    def __init__(
        self,
        penalty: str = "l1",
        regularization: float = 1e-5,
        depth_penalty: float = 0.0,
        delta: float | None = 0.5,
        leaf_model: str = "adaptive",
        grace_period: float = 20.0,
        max_bins: int = 16,
        max_bytes: int | None = DEFAULT_BYTES,
        nominal_attributes: list[Any] | tuple[Any, ...] | None = None,
        restarts: bool = True,
    ) -> None:
        self.penalty = penalty
        self.regularization = regularization
        self.depth_penalty = depth_penalty
        self.delta = delta
        self.leaf_model = leaf_model
        self.grace_period = grace_period
        self.max_bins = max_bins
        self.max_bytes = max_bytes
        self.nominal_attributes = check_nominal(nominal_attributes)
        self.restarts = restarts
        self._core = self._new_core()

    def _settings(self, params: dict[str, Any]) -> dict[str, Any]:
        delta = params["delta"]
        if delta is not None:
            delta = check_number("delta", delta, above=0, at_most=1)
        return {
            "regularization": check_number(
                "regularization", params["regularization"], at_least=0
            ),
            "depth_penalty": check_number("depth_penalty", params["depth_penalty"], at_least=0),
            "delta": delta,
            "grace_period": check_number("grace_period", params["grace_period"], at_least=1),
            "max_bins": check_integer("max_bins", params["max_bins"], at_least=2, at_most=2**16),
        }

    def _maker_of(self, loss: Loss, leaf_model: LeafModel) -> Callable[[], PredictionTree]:
        penalty = check_choice("penalty", self.penalty, _PENALTIES)
        settings = self._settings(self.__dict__)
        kind = None if leaf_model is LeafModel.PATH else int(leaf_model)
        return functools.partial(new_tree, int(loss), penalty == "linf", kind, **settings)

    @property
    def _mutable_attributes(self) -> set[str]:
        return {
            "regularization", "depth_penalty", "delta", "grace_period", "max_bins", "max_bytes",
            "restarts",
        }

    def _shape(self) -> dict[str, float]:
        return {
            "n_null_branches": self._core.measure("n_in_state", NodeState.NULL_BRANCH),
            "n_open_leaves": self._core.measure("n_in_state", NodeState.OPEN),
        }

    def structure(self) -> list[dict[str, Any]]:
        """Every node in a dict, parents before children.

        Returns
        -------
        The keys are `node` and `parent` (numbers; None above the root), `branch` (which branch of
        the parent it is: `"<="`, `">"`, a category, or None for missing values), `feature` and
        `threshold` (the predicate of an inner node; no threshold for a nominal one), `state`
        (`"inner"`, `"open"`, `"closed"` or `"null_branch"`), `alpha`, `bias` (the sum of alphas
        down to the node) and `counts`. For two labels and for numbers alpha and bias are numbers
        (of the second label); for more labels they are dicts by label, whose biases are
        log-shares.

        """
        state = self._outline()
        tree, features = state["tree"], state["features"]
        # features with categories go by numbers, in the order in which they came
        names = list(dict.fromkeys(name.name for name in features if type(name) is Category))
        biases = [self._bias(values) for values in tree["values"].tolist()]
        nodes = []
        parents = tree["parents"].tolist()
        for i, node in enumerate(tree["nodes"]):
            parent = None if i == 0 else parents[i]
            kind = Predicate(node["predicate"])
            feature = None
            if kind is Predicate.THRESHOLD:
                feature = features[node["column"]]
            elif kind is Predicate.NOMINAL:
                feature = names[node["column"]]
            branch = None
            if parent is not None and node["key"] >= 0:
                if tree["nodes"][parent]["predicate"] == Predicate.NOMINAL:
                    branch = features[node["key"]].value
                else:
                    branch = "<=" if node["key"] == 0 else ">"
            nodes.append({
                "node": i,
                "parent": parent,
                "branch": branch,
                "feature": feature,
                "threshold": (
                    inspection.in_present_unit(
                        state["scaler"]["columns"][node["column"]], float(node["threshold"])
                    ) if kind is Predicate.THRESHOLD else None
                ),
                "state": NodeState(node["state"]).name.lower(),
                "alpha": self._difference(biases[i], None if parent is None else biases[parent]),
                "bias": biases[i],
                "counts": self._counts(tree["counts"][i].tolist()),
            })
        return nodes

    def grow(self, X: Any, y: Any, w: Any = None) -> None:
        """Grow the tree from a whole data set at once, level by level, as the source does.

        The result depends on the penalty alone: every node sees all of its examples before it is
        split, and there is no term for chance. Numbers are still binned. Learning may go on from
        there.

        Parameters
        ----------
        X
            As in `learn_many`, or a list of dicts.
        y
            n_rows labels or numbers.
        w
            n_rows weights above 0 or one for all; None for 1.

        Raises
        ------
        RuntimeError
            If the model has learned before.
        KeyboardInterrupt, or what else a signal handler raises
            Within milliseconds; the model is then as it was.
        ValueError, TypeError
            As in `learn_many`.

        """
        batch = None if isinstance(X, (list, tuple)) else self._batch(X)
        n_rows = len(X) if batch is None else batch.n_rows
        targets, weights = self._targets_to_grow(y, n_rows), weight_array(w, n_rows)
        if weights is None:
            weights = np.ones(n_rows)
        if not weights.all():
            raise ValueError("w must be above 0 for grow(): leave such rows out")
        if batch is None:
            rows: tuple[Any, ...] = (list(X), None, None)
        else:
            rows = (batch.rows(), batch.names, batch.first_rows(weights))
        self._core.grow(*rows, targets, weights)

    def _views(self) -> list[inspection.NodeView]:
        weights = self._outline()["tree"]["nodes"]["weight"].tolist()
        views: list[inspection.NodeView] = []
        structure = self.structure()
        for node, said in zip(structure, self._predicted(structure), strict=True):
            parent = -1 if node["parent"] is None else node["parent"]
            alpha, bias = node["alpha"], node["bias"]
            views.append(inspection.NodeView(
                node=node["node"],
                parent=parent,
                depth=0 if parent < 0 else views[parent].depth + 1,
                branch="" if parent < 0 else _branch_in_words(node, structure[parent]),
                test=_test_in_words(node),
                strengths={} if node["feature"] is None else {node["feature"]: 1.0},
                feature=node["feature"],
                weight=weights[node["node"]],
                values={"alpha": alpha, "bias": bias} if isinstance(alpha, float) else {},
                **said,
            ))
        return views

    @abc.abstractmethod
    def _predicted(self, structure: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What the counts or values of nodes predict, as views have it."""

    def _bias(self, values: list[float]) -> Any:
        return values[0]

    def _difference(self, bias: Any, above: Any) -> Any:
        return bias if above is None else bias - above

    @abc.abstractmethod
    def _counts(self, counts: list[float]) -> Any:
        """The counts of a node, by label or by what they are."""

    @abc.abstractmethod
    def _targets_to_grow(self, y: Any, n_rows: int) -> Any:
        """The targets of `grow`, checked."""


class SelfTerminatingTreeClassifier(_SelfTerminatingTree, StreamTreeClassifier):
    """Self-terminating prediction tree.

    Every node holds a real value alpha for each of its branches; the tree predicts by the sum of
    the alphas on the path of an example. They minimise loss plus penalty, in closed form, and the
    penalty makes many of them exactly 0: such a branch is not grown. The tree ends by itself where
    another split would gain less than it costs, and needs no pruning.

    It is grown as examples come. An open leaf keeps bounded histograms of the numbers and counts
    of the categories it meets. Periodically it looks for the predicate of the smallest penalised
    loss, and grows the branches that differ from the rest of the leaf by more than the penalty
    and, at the level `delta` over all candidates and all looks, by more than chance. A branch that
    does not grow keeps its counts and may grow later; alphas follow the counts. `grow` builds a
    tree from a whole data set at once instead, exactly as the source does.

    A threshold splits numbers, every value of a category has a branch, and so have missing values.
    In columns that are zero in most rows zero counts as missing.

    Parameters
    ----------
    loss
        `"log"` for any number of labels; `"hinge"`, `"diff_hinge"` (the difference of two hinges,
        bounded) or `"exponential"` for two. A third label then raises ValueError.
    penalty
        `"l1"`: lambda |alpha| for every branch. `"linf"`: lambda times the largest |alpha| of a
        predicate, so that branches grow together; for two labels.
    regularization
        At least 0: lambda as a share of the weight of the whole stream. More gives smaller trees.
    depth_penalty
        At least 0: the branches of a node at depth d pay lambda * (1 + `depth_penalty` * d).
    delta
        Above 0 and at most 1: the chance with which an open leaf may grow where nothing is to be
        learned, however long the stream. None trusts every count: penalty only. The default is
        high because a split by chance costs little accuracy and a late one much; where trees must
        stay small on noise, 0.05 is for you.
    leaf_model
        How a leaf predicts. `"majority"`: by the sum of alphas, as in the source. `"softmax"`: by a
        linear softmax over the labels met there (a null branch has one too), which a leaf takes
        over from the one it came from. `"naive_bayes"`: by Bayes' rule over the leaf's histograms.
        `"adaptive"`: by whichever of these three was right most often in the leaf before. A leaf
        with more than 64 labels, or that gave up its statistics, has the first only.
    grace_period
        At least 1: the weight that a leaf sees before its first look for a predicate.
    max_bins
        At least 2: the most bins of a histogram.
    max_bytes
        At least 262144, or None for any number: the bytes that the model may take, with names,
        labels and all that it has learned; not with room for the row at hand. When they run short,
        the leaves that promise least stop collecting first, and may start anew later; labels that
        nodes have no room for count as the last one that found some. New names then share a few
        columns, which `learn_one` warns of long before, and a label that finds no room is refused
        with a ValueError.
    nominal_attributes
        Names of columns whose numbers are categories, as strings are anyway; of an array, numbers
        of columns.
    restarts
        Whether a new tree may take the place of this one where it errs far more than it did, as
        `ForestClassifier` describes it. It may change while the tree learns.

    Notes
    -----
    Learning costs O(depth + features log bins) an example, predicting O(depth + features). A node
    takes about 140 bytes and 16 for every label; an open leaf in addition, for every feature, 8
    bytes for every bin and label met there. A category that was never learned is predicted as a
    missing value.

    References
    ----------
    [^1]: Goldman, S. A. and Singer, Y., 2014. Growth and use of self-terminating prediction trees.
        US patent 8,725,661 (lapsed in 2022).

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamtree import SelfTerminatingTreeClassifier

    >>> model = SelfTerminatingTreeClassifier()
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 90.23%

    The root, and the first of its branches:

    >>> root, branch = model.structure()[:2]
    >>> root["feature"], root["threshold"]
    ('empty_server_form_handler', 0.75)
    >>> branch["branch"], branch["state"], round(branch["alpha"], 2)
    ('<=', 'inner', -2.27)

    """

    def __init__(
        self,
        loss: str = "log",
        penalty: str = "l1",
        regularization: float = 1e-5,
        depth_penalty: float = 0.0,
        delta: float | None = 0.5,
        leaf_model: str = "adaptive",
        grace_period: float = 20.0,
        max_bins: int = 16,
        max_bytes: int | None = DEFAULT_BYTES,
        nominal_attributes: list[Any] | tuple[Any, ...] | None = None,
        restarts: bool = True,
    ) -> None:
        self.loss = loss
        super().__init__(
            penalty=penalty, regularization=regularization, depth_penalty=depth_penalty,
            delta=delta, leaf_model=leaf_model, grace_period=grace_period, max_bins=max_bins,
            max_bytes=max_bytes, nominal_attributes=nominal_attributes, restarts=restarts,
        )

    def _tree_maker(self) -> Callable[[], PredictionTree]:
        loss = check_choice("loss", self.loss, tuple(_LOSSES))
        leaf_model = check_choice("leaf_model", self.leaf_model, tuple(_LABEL_MODELS))
        return self._maker_of(_LOSSES[loss], _LABEL_MODELS[leaf_model])

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"leaf_model": "majority", "delta": None, "regularization": 1e-3, "max_bins": 8}

    def _targets_to_grow(self, y: Any, n_rows: int) -> list[Any]:
        labels = label_list(y, n_rows)
        self._core.labels.normalize(labels)
        return labels

    def _bias(self, values: list[float]) -> Any:
        if self.loss != "log":
            return values[0] if values else 0.0
        by_label = self._by_label(values)
        if len(by_label) == 2:
            return _logit([*by_label.values()])
        return {
            label: math.log(value) if value > 0 else -math.inf
            for label, value in by_label.items()
        }

    def _by_label(self, values: list[float]) -> dict[Any, float]:
        """Numbers of a node by label; short of memory it has none for labels that came late."""
        return dict(itertools.zip_longest(self.labels, values, fillvalue=0.0))

    def _difference(self, bias: Any, above: Any) -> Any:
        if above is None or not isinstance(bias, dict):
            return super()._difference(bias, above)
        ratios = {
            label: bias[label] - above[label] if bias[label] > -math.inf else -math.inf
            for label in bias
        }
        finite = [ratio for ratio in ratios.values() if ratio > -math.inf]
        # alpha is known up to a constant: the one that makes its largest size least
        middle = (max(finite) + min(finite)) / 2 if finite else 0.0
        return {label: ratio - middle for label, ratio in ratios.items()}

    def _counts(self, counts: list[float]) -> Any:
        return self._by_label(counts)

    def _predicted(self, structure: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [_majority(node["counts"]) for node in structure]


def _majority(counts: dict[Any, float]) -> dict[str, Any]:
    total = sum(counts.values())
    if total <= 0.0:
        return {}
    shares = {label: count / total for label, count in counts.items() if count > 0.0}
    return {"prediction": max(shares, key=shares.__getitem__), "shares": shares}


def _test_in_words(node: dict[str, Any]) -> str:
    if node["feature"] is None:
        return ""
    threshold = node["threshold"]
    words = inspection.feature_text(node["feature"])
    return words if threshold is None else f"{words} <= {inspection.short(threshold)}"


def _branch_in_words(node: dict[str, Any], parent: dict[str, Any]) -> str:
    if node["branch"] is None:
        return "missing"
    if parent["threshold"] is None:
        return f"= {node['branch']}"
    return "yes" if node["branch"] == "<=" else "no"


def _logit(shares: list[float]) -> float:
    # the bound of the solvers, which a pure branch without penalty reaches
    if shares[0] <= 0 or shares[1] <= 0:
        return -35.0 if shares[1] <= 0 else 35.0
    return max(-35.0, min(35.0, math.log(shares[1] / shares[0])))


class SelfTerminatingTreeRegressor(_SelfTerminatingTree, StreamTreeRegressor):
    """Self-terminating prediction tree for numbers.

    The regressor beside `SelfTerminatingTreeClassifier`, with squared loss: the tree predicts
    by the sum of real values alpha on the path of an example, soft-thresholded excesses of the
    target over what the node above predicts. A branch whose alpha is 0 is not grown.

    Parameters
    ----------
    penalty
        `"l1"`: lambda |alpha| for every branch. `"linf"`: lambda times the largest |alpha| of a
        predicate, so that branches grow together.
    regularization
        At least 0: lambda as a share of the weight of the whole stream, in units of the target.
        More gives smaller trees.
    depth_penalty
        At least 0: the branches of a node at depth d pay lambda * (1 + `depth_penalty` * d).
    delta
        Above 0 and at most 1: the chance with which an open leaf may grow where nothing is to be
        learned, however long the stream, if the tails of the target are not heavier than
        exponential. None trusts every sum: penalty only.
    leaf_model
        How a leaf predicts. `"mean"`: by the sum of alphas, as in the source. `"linear"`: by a
        linear model that is taken over from the leaf that was split, and never farther than three
        standard deviations from the leaf's mean. `"adaptive"`: by whichever of the two had
        the smaller squared error in the leaf before, drawn towards the mean of all targets as far
        as that would have paid so far.
    grace_period
        At least 1: the weight that a leaf sees before its first look for a predicate.
    max_bins
        At least 2: the most bins of a histogram.
    max_bytes
        At least 262144, or None for any number: the bytes that the model may take, with names and
        all that it has learned; not with room for the row at hand. When they run short, the leaves
        that promise least stop collecting first, and may start anew later. New names then share a
        few columns, which `learn_one` warns of long before.
    nominal_attributes
        Names of columns whose numbers are categories, as strings are anyway; of an array, numbers
        of columns.
    restarts
        Whether a new tree may take the place of this one where it errs far more than it did, as
        `ForestClassifier` describes it. It may change while the tree learns.

    Notes
    -----
    Learning costs O(depth + features log bins) an example, predicting O(depth). A node takes about
    200 bytes, an open leaf in addition 32 for every feature and bin met there.

    References
    ----------
    [^1]: Goldman, S. A. and Singer, Y., 2014. Growth and use of self-terminating prediction trees.
        US patent 8,725,661 (lapsed in 2022).

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamtree import SelfTerminatingTreeRegressor

    >>> model = SelfTerminatingTreeRegressor()
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.R2())
    R2: 0.279475

    """

    @property
    def _shrinks(self) -> bool:
        return self.leaf_model == "adaptive"

    def _tree_maker(self) -> Callable[[], PredictionTree]:
        leaf_model = check_choice("leaf_model", self.leaf_model, tuple(_NUMBER_MODELS))
        return self._maker_of(Loss.SQUARED, _NUMBER_MODELS[leaf_model])

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"penalty": "linf", "delta": None, "regularization": 1e-3, "max_bins": 8}

    def _targets_to_grow(self, y: Any, n_rows: int) -> Any:
        return target_array(y, n_rows)

    def _counts(self, counts: list[float]) -> Any:
        weight, total, squares = counts
        mean = total / weight if weight else 0.0
        variance = squares / weight - mean * mean if weight else 0.0
        return {"weight": weight, "mean": mean, "variance": max(variance, 0.0)}

    def _predicted(self, structure: list[dict[str, Any]]) -> list[dict[str, Any]]:
        mean, share = self._outline()["shrinkage"][["mean", "share"]][0].tolist()
        return [
            {"prediction": node["bias"] + share * (mean - node["bias"])} for node in structure
        ]
