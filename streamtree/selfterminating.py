"""Self-terminating prediction trees, for labels and for numbers."""

from __future__ import annotations

import abc
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamtree import inspection, states
from streamtree._core.features import Category
from streamtree._core.histograms import LeafModel
from streamtree._core.predicates import Predicate
from streamtree._core.predictionnodes import NodeState
from streamtree._core.selfterminating import (
    SelfTerminatingClassifierCore,
    SelfTerminatingRegressorCore,
)
from streamtree._core.solvers import NodeLoss
from streamtree.base import (
    StreamTree,
    StreamTreeClassifier,
    StreamTreeRegressor,
    check_choice,
    check_integer,
    check_number,
)
from streamtree.batches import Batch, label_list, target_array, weight_array

__all__ = ["SelfTerminatingTreeClassifier", "SelfTerminatingTreeRegressor"]

_LOSSES = {
    "log": NodeLoss.LOG,
    "hinge": NodeLoss.HINGE,
    "diff_hinge": NodeLoss.RAMP,
    "exponential": NodeLoss.EXPONENTIAL,
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
# the first rows of a model must fit, with a histogram per column
_LEAST_SIZE = 2**16


# the links of a node besides that to its parent
_LINKS = ("first_child", "last_child", "next_sibling", "low", "high", "missing")
# what a leaf's statistics are made of: dtype and number of dimensions
_LEAF_PARTS = {
    "columns": (np.int64, 2), "ranges": (np.float64, 2), "sums": (np.float64, 2),
    "model": (np.float64, 3), "totals": (np.float64, 1), "numbers": (np.float64, 1),
}  # fmt: skip


class _SelfTerminatingTree(StreamTree):
    """What the classifier and the regressor share."""

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
            "max_size": check_integer(
                "max_size", params["max_size"], at_least=_LEAST_SIZE, at_most=2**62
            ),
        }

    @property
    def _mutable_attributes(self) -> set[str]:
        return {
            "regularization", "depth_penalty", "delta", "grace_period", "max_bins", "max_size",
        }

    @property
    def n_leaves(self) -> int:
        """Number of nodes without branches, null branches included."""
        return self.n_nodes - int(self._core.n_in_state(NodeState.INNER))

    @property
    def summary(self) -> dict[str, float]:
        """The shape of the tree in a few numbers."""
        return {
            "n_nodes": self.n_nodes,
            "n_leaves": self.n_leaves,
            "n_null_branches": self._core.n_in_state(NodeState.NULL_BRANCH),
            "n_open_leaves": self._core.n_in_state(NodeState.OPEN),
            "height": self.height,
            "n_features": len(self._core.features),
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
        state = self._core.snapshot()
        tree, features = state["tree"], state["features"]
        names = {group: features[i].name for i, group in enumerate(tree["groups"]) if group >= 0}
        biases = [self._bias(values) for values in tree["values"].tolist()]
        nodes = []
        for i, node in enumerate(tree["nodes"]):
            parent = None if node["parent"] < 0 else int(node["parent"])
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
                "threshold": float(node["threshold"]) if kind is Predicate.THRESHOLD else None,
                "state": NodeState(node["state"]).name.lower(),
                "alpha": self._difference(biases[i], None if parent is None else biases[parent]),
                "bias": biases[i],
                "counts": self._counts(tree["counts"][i].tolist()),
            })  # fmt: skip
        return nodes

    def _check_state(self, state: dict[str, Any]) -> None:
        super()._check_state(state)
        tree, features = state["tree"], state["features"]
        nodes, groups, n_columns = tree["nodes"], tree["groups"], len(features)
        n_labels = tree["counts"].shape[1]
        states.require(len(nodes) > 0, "the root")
        if "labels" in state:
            states.require(n_labels == len(state["labels"]), "the number of labels")
        else:
            states.require(n_labels == 3, "the sums of a node")
        for part in ("counts", "values"):
            states.require(tree[part].shape == (len(nodes), n_labels), f"the {part} of the nodes")
        states.require(len(groups) == len(tree["standards"]) == n_columns, "the columns")
        # the core numbers the features of categories as they come
        order: dict[Any, int] = {}
        for column, name in enumerate(features):
            group = order.setdefault(name.name, len(order)) if type(name) is Category else -1
            states.require(groups[column] == group, "the feature of a category")
        states.check_counts(tree["rows"])
        states.check_finite(nodes, "weight", "weight_squares", at_least=0.0)
        states.check_finite(tree["counts"])
        states.check_finite(tree["values"])
        states.check_finite(tree["standards"], "pivot", "center", "factor")
        self._check_nodes(nodes, groups, n_labels)
        opened = set()
        for part in tree["leaves"]:
            states.check_same_kind(part, {"node": 0, "rows": 0, "looks": 0})
            node = part["node"]
            states.require(0 <= node < len(nodes) and node not in opened, "the node of a leaf")
            states.require(
                nodes["state"][node] in (NodeState.OPEN, NodeState.NULL_BRANCH), "a leaf's state"
            )
            opened.add(node)
            self._check_leaf(part, n_columns, n_labels)
        is_open = set(np.flatnonzero(nodes["state"] == NodeState.OPEN).tolist())
        states.require(is_open <= opened, "an open leaf without statistics")

    def _check_nodes(self, nodes: NDArray[Any], groups: NDArray[Any], n_labels: int) -> None:
        """Check that the nodes are one tree, every branch known to its parent once."""
        size = len(nodes)
        expected = {name: np.full(size, -1) for name in _LINKS}
        depths = np.zeros(size, dtype=np.int64)
        keys: dict[int, set[int]] = {}
        fields = {name: nodes[name].tolist() for name in nodes.dtype.names or ()}
        states.require(fields["parent"][0] == -1, "the root")
        for node in range(1, size):
            parent, key = fields["parent"][node], fields["key"][node]
            # children are made after their parents
            states.require(0 <= parent < node, "the parent of a node")
            depths[node] = depths[parent] + 1
            siblings = keys.setdefault(parent, set())
            states.require(key not in siblings, "a branch that is there twice")
            siblings.add(key)
            last = expected["last_child"][parent]
            expected["next_sibling" if last >= 0 else "first_child"][
                last if last >= 0 else parent
            ] = node
            expected["last_child"][parent] = node
            if key == -1:
                expected["missing"][parent] = node
            elif fields["predicate"][parent] == Predicate.THRESHOLD:
                states.require(key in (0, 1), "a branch of a threshold")
                expected["low" if key == 0 else "high"][parent] = node
            else:
                states.require(
                    fields["predicate"][parent] == Predicate.NOMINAL
                    and 0 <= key < len(groups)
                    and groups[key] == fields["column"][parent],
                    "a branch of a category",
                )
        for name, links in expected.items():
            states.require((nodes[name] == links).all(), f"the {name} of a node")
        states.require((nodes["depth"] == depths).all(), "the depth of a node")
        for node in range(size):
            predicate, column = fields["predicate"][node], fields["column"][node]
            is_inner = fields["state"][node] == NodeState.INNER
            states.require(0 <= fields["state"][node] <= NodeState.INNER, "the state of a node")
            states.require(is_inner == (predicate != Predicate.NONE), "the predicate of a node")
            states.require(is_inner or node not in keys, "children below a leaf")
            if predicate == Predicate.THRESHOLD:
                states.require(0 <= column < len(groups), "the column of a node")
            elif predicate == Predicate.NOMINAL:
                states.require(column >= 0 and column in groups, "the feature of a node")
            else:
                states.require(predicate == Predicate.NONE, "the predicate of a node")
            states.require(-1 <= fields["majority"][node] < max(n_labels, 1), "a majority")
            states.require(fields["looks"][node] >= 0, "the looks of a node")

    def _check_leaf(self, part: dict[str, Any], n_columns: int, n_labels: int) -> None:
        """Check the statistics of an open leaf."""
        for name, (kind, n_dims) in _LEAF_PARTS.items():
            array = part.get(name)
            is_same = isinstance(array, np.ndarray) and (array.dtype, array.ndim) == (kind, n_dims)
            states.require(is_same, f"the {name} of a leaf")
        labels = part["labels"]
        if isinstance(self, StreamTreeClassifier):
            states.require(
                isinstance(labels, np.ndarray) and labels.dtype == np.int32 and labels.ndim == 1,
                "the labels of a leaf",
            )
            distinct = set(labels.tolist())
            states.require(len(distinct) == len(labels), "a label of a leaf that is there twice")
            states.require(all(0 <= label < n_labels for label in distinct), "a label of a leaf")
            width = len(labels)
        else:
            states.require(labels is None, "the labels of a leaf")
            width = 2
        columns, ranges = part["columns"], part["ranges"]
        states.require(columns.shape[1] == 3 and ranges.shape[1] == 2, "the columns of a leaf")
        numbers, n_bins, rows = columns.T
        states.require((numbers[1:] > numbers[:-1]).all(), "the order of a leaf's columns")
        states.require(((numbers >= 0) & (numbers < n_columns)).all(), "a column of a leaf")
        # a bound that was lowered later takes effect when the next value comes
        states.require(((n_bins >= 0) & (n_bins <= 2**16)).all(), "the bins of a column")
        states.require((rows >= 0).all(), "the rows of a column")
        states.require(int(n_bins.sum()) == len(ranges), "the bins of a leaf")
        states.require(part["sums"].shape == (len(ranges), width), "the sums of a leaf")
        states.require(part["model"].shape == (len(columns) + 1, width, 2), "a leaf's model")
        states.require(part["totals"].shape == (width,), "the totals of a leaf")
        states.require(part["numbers"].shape == (7,), "the numbers of a leaf")
        for array in (ranges, part["sums"], part["model"], part["totals"]):
            states.check_finite(array)
        states.check_finite(part["numbers"][:3], at_least=0.0)
        states.require((ranges[:, 0] <= ranges[:, 1]).all(), "the range of a bin")
        ascends = ranges[1:, 0] > ranges[:-1, 1]
        borders = np.cumsum(n_bins)
        ascends[borders[(borders > 0) & (borders < len(ranges))] - 1] = True
        states.require(ascends.all(), "the order of the bins")
        states.check_counts(part["rows"], part["looks"])

    def _views(self) -> list[inspection.NodeView]:
        weights = self._core.snapshot()["tree"]["nodes"]["weight"].tolist()
        views: list[inspection.NodeView] = []
        for node in self.structure():
            parent = -1 if node["parent"] is None else node["parent"]
            alpha, bias = node["alpha"], node["bias"]
            views.append(inspection.NodeView(
                node=node["node"],
                parent=parent,
                depth=0 if parent < 0 else views[parent].depth + 1,
                branch="" if parent < 0 else self._branch_in_words(node, views[parent]),
                test=self._test_in_words(node),
                strengths={} if node["feature"] is None else {node["feature"]: 1.0},
                weight=weights[node["node"]],
                values={"alpha": alpha, "bias": bias} if isinstance(alpha, float) else {},
                **self._said(node),
            ))  # fmt: skip
        return views

    def _test_in_words(self, node: dict[str, Any]) -> str:
        if node["feature"] is None:
            return ""
        threshold = node["threshold"]
        return f"{node['feature']}" + ("" if threshold is None else f" <= {threshold:.6g}")

    def _branch_in_words(self, node: dict[str, Any], parent: inspection.NodeView) -> str:
        if node["branch"] is None:
            return "missing"
        if " <= " not in parent.test:
            return f"is {node['branch']!r}"
        return "yes" if node["branch"] == "<=" else "no"

    @abc.abstractmethod
    def _said(self, node: dict[str, Any]) -> dict[str, Any]:
        """What a node's counts or values say, as a view has it."""

    def _bias(self, values: list[float]) -> Any:
        return values[0]

    def _difference(self, bias: Any, above: Any) -> Any:
        return bias if above is None else bias - above

    @abc.abstractmethod
    def _counts(self, counts: list[float]) -> Any:
        """The counts of a node, by label or by what they are."""

    def _grow(self, X: Any, w: Any, targets_of: Any) -> None:
        rows = None
        if isinstance(X, (list, tuple)):
            rows, n_rows = list(X), len(X)
            batch = None
        else:
            batch = Batch(X)
            n_rows = batch.n_rows
            if batch.source is None:
                rows = list(batch.dicts())
        targets = targets_of(n_rows)
        weights = weight_array(w, n_rows)
        if weights is None:
            weights = np.ones(n_rows)
        if not weights.all():
            raise ValueError("w must be above 0 for grow(): leave such rows out")
        if rows is None and batch is not None:
            self._core.grow(
                batch.source, batch.names, batch.first_rows(), None, targets, weights
            )
        else:
            self._core.grow(None, None, None, rows, targets, weights)


class SelfTerminatingTreeClassifier(_SelfTerminatingTree, StreamTreeClassifier):
    """Self-terminating prediction tree.

    Every node holds a real value alpha for each of its branches; what the tree says is the sum of
    the alphas on the way of an example. They minimise loss plus penalty, in closed form, and the
    penalty makes many of them exactly 0: such a branch is not grown. The tree ends by itself where
    another split would gain less than it costs, and needs no pruning.

    It is grown as examples come. An open leaf keeps bounded histograms of the numbers and counts
    of the categories it meets. Ever so often it looks for the predicate of the smallest penalised
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
        What speaks for a leaf. `"majority"`: the sum of alphas, as in the source. `"softmax"`: a
        linear softmax over the labels met there (a null branch has one too), which a leaf takes
        over from the one it came from. `"naive_bayes"`: Bayes' rule over the leaf's histograms.
        `"adaptive"`: whichever of these three was right most often in the leaf before. A leaf
        with more than 64 labels, or that gave up its statistics, has the first only.
    grace_period
        At least 1: the weight that a leaf sees before its first look for a predicate.
    max_bins
        At least 2: the most bins of a histogram.
    max_size
        At least 65536: the most bytes that the tree may take, as `sys.getsizeof` reports them for
        its core. Leaves that promise least stop collecting first, and may start anew later. No
        label is refused, though: a new one takes 16 bytes of every node beyond the bound.

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
    Accuracy: 90.15%

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
        max_size: int = 100_000_000,
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.regularization = regularization
        self.depth_penalty = depth_penalty
        self.delta = delta
        self.leaf_model = leaf_model
        self.grace_period = grace_period
        self.max_bins = max_bins
        self.max_size = max_size
        self._core = self._new_core()

    def _new_core(self) -> SelfTerminatingClassifierCore:
        loss = check_choice("loss", self.loss, tuple(_LOSSES))
        penalty = check_choice("penalty", self.penalty, _PENALTIES)
        leaf_model = check_choice("leaf_model", self.leaf_model, tuple(_LABEL_MODELS))
        return SelfTerminatingClassifierCore(
            loss=int(_LOSSES[loss]),
            penalty_is_linf=penalty == "linf",
            leaf_model=int(_LABEL_MODELS[leaf_model]),
            **self._settings(self._get_params()),
        )

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"leaf_model": "majority", "delta": None, "regularization": 1e-3, "max_bins": 8}

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
            n_rows labels.
        w
            n_rows weights above 0 or one for all; None for 1.

        Raises
        ------
        RuntimeError
            If the model has learned before.
        ValueError, TypeError
            As in `learn_many`.

        """

        def labels(n_rows: int) -> list[Any]:
            return [self._core.labels.normalized(label) for label in label_list(y, n_rows)]

        self._grow(X, w, labels)

    def _bias(self, values: list[float]) -> Any:
        if self.loss != "log":
            return values[0] if values else 0.0
        if len(values) == 2:
            return _logit(values)
        return {
            label: math.log(value) if value > 0 else -math.inf
            for label, value in zip(self.labels, values, strict=True)
        }

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
        return dict(zip(self.labels, counts, strict=True))

    def _said(self, node: dict[str, Any]) -> dict[str, Any]:
        total = sum(node["counts"].values())
        if total <= 0.0:
            return {}
        shares = {label: count / total for label, count in node["counts"].items() if count > 0.0}
        return {"prediction": max(shares, key=shares.__getitem__), "shares": shares}


def _logit(shares: list[float]) -> float:
    # the bound of the solvers, which a pure branch without penalty reaches
    if shares[0] <= 0 or shares[1] <= 0:
        return -35.0 if shares[1] <= 0 else 35.0
    return max(-35.0, min(35.0, math.log(shares[1] / shares[0])))


class SelfTerminatingTreeRegressor(_SelfTerminatingTree, StreamTreeRegressor):
    """Self-terminating prediction tree for numbers.

    The regressor beside `SelfTerminatingTreeClassifier`, with squared loss: what the tree says is
    the sum of real values alpha on the way of an example, soft-thresholded excesses of the target
    over what the node above says. A branch whose alpha is 0 is not grown.

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
        What speaks for a leaf. `"mean"`: the sum of alphas, as in the source. `"linear"`: a linear
        model that is taken over from the leaf that was split, and never says anything farther
        than three standard deviations from the leaf's mean. `"adaptive"`: whichever of the two had
        the smaller squared error in the leaf before, drawn towards the mean of all targets as far
        as that would have paid so far.
    grace_period
        At least 1: the weight that a leaf sees before its first look for a predicate.
    max_bins
        At least 2: the most bins of a histogram.
    max_size
        At least 65536: the most bytes that the tree may take, as `sys.getsizeof` reports them for
        its core. Leaves that promise least stop collecting first, and may start anew later.

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
    R2: 0.270515

    """

    def __init__(
        self,
        penalty: str = "l1",
        regularization: float = 1e-5,
        depth_penalty: float = 0.0,
        delta: float | None = 0.5,
        leaf_model: str = "adaptive",
        grace_period: float = 20.0,
        max_bins: int = 16,
        max_size: int = 100_000_000,
    ) -> None:
        self.penalty = penalty
        self.regularization = regularization
        self.depth_penalty = depth_penalty
        self.delta = delta
        self.leaf_model = leaf_model
        self.grace_period = grace_period
        self.max_bins = max_bins
        self.max_size = max_size
        self._core = self._new_core()

    def _new_core(self) -> SelfTerminatingRegressorCore:
        penalty = check_choice("penalty", self.penalty, _PENALTIES)
        leaf_model = check_choice("leaf_model", self.leaf_model, tuple(_NUMBER_MODELS))
        return SelfTerminatingRegressorCore(
            penalty_is_linf=penalty == "linf",
            leaf_model=int(_NUMBER_MODELS[leaf_model]),
            **self._settings(self._get_params()),
        )

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"penalty": "linf", "delta": None, "regularization": 1e-3, "max_bins": 8}

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
            n_rows numbers.
        w
            n_rows weights above 0 or one for all; None for 1.

        Raises
        ------
        RuntimeError
            If the model has learned before.
        ValueError, TypeError
            As in `learn_many`.

        """
        self._grow(
            X, w, lambda n_rows: np.ascontiguousarray(target_array(y, n_rows)[:, 0])
        )

    def _counts(self, counts: list[float]) -> Any:
        weight, total, squares = counts
        mean = total / weight if weight else 0.0
        variance = squares / weight - mean * mean if weight else 0.0
        return {"weight": weight, "mean": mean, "variance": max(variance, 0.0)}

    def _said(self, node: dict[str, Any]) -> dict[str, Any]:
        return {"prediction": float(node["bias"])}
