"""Look at trees with the theory of the LOMtree: their splits, their criteria, over time.

Formulas on counts come from `streamtree.criteria`, which says what was checked about them, and are
offered here as well. What is read off a model comes from its `snapshot()`.

References
----------
[^1]: Choromanska, A., Choromanski, K. and Bojarski, M., 2016. On the boosting ability of top-down
    decision tree learning algorithm for multiclass classification.

"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from streamtree.base import (
    StreamTree,
    StreamTreeClassifier,
    check_integer,
    check_number,
    is_itself,
)
from streamtree.batches import Batch, label_list, weight_array
from streamtree.criteria import (
    CONSTANT,
    CRITERIA,
    Leaves,
    balance,
    balance_bounds,
    check_constant,
    criterion_bounds,
    drop_bound,
    entropy,
    entropy_drop_bound,
    gini,
    gini_drop_bound,
    log_splits_needed,
    modified_gini,
    modified_gini_drop_bound,
    objective,
    objective_bounds,
    purity,
    purity_bound,
    splits_needed,
)
from streamtree.lomtree import LOMTreeClassifier
from streamtree.modeltree import ModelTreeClassifier

__all__ = [
    "CRITERIA", "Recorder", "balance", "balance_bounds", "criterion_bounds", "drop_bound",
    "entropy", "entropy_drop_bound", "gini", "gini_drop_bound", "leaf_of", "log_splits_needed",
    "modified_gini", "modified_gini_drop_bound", "objective", "objective_bounds", "purity",
    "purity_bound", "split_counts", "split_summary", "splits_needed", "tree_criteria",
]

Counts = NDArray[np.float64]


# ------------------------------------------------------------------- reading a model


def _classifier(model: Any) -> StreamTreeClassifier:
    if not is_itself(model, StreamTreeClassifier):
        raise TypeError(
            "model must be a single tree, a classifier of streamtree, got "
            f"{type(model).__name__}"
        )
    return cast(StreamTreeClassifier, model)


def _tree(model: StreamTreeClassifier) -> dict[str, Any]:
    """The state of the tree that speaks: of a label tree with groups, with tables of classes."""
    tree = model.snapshot()["tree"]
    if "whole" not in tree:
        return tree  # type: ignore[no-any-return]
    if tree["is_whole"]:
        return tree["whole"][0]  # type: ignore[no-any-return]
    groups = tree["labels"]["group"]
    order = np.argsort(groups, kind="stable")[(groups < 0).sum() :]
    counts = np.bincount(groups[order], minlength=len(tree["nodes"]))
    classes = {
        "starts": np.append(0, np.cumsum(counts)),
        "keys": order,
        "records": tree["labels"]["weight"][order, None],
    }
    return {**tree, "classes": classes}


def _leaves(model: StreamTreeClassifier) -> tuple[Leaves, NDArray[np.int64]]:
    """What the leaves of a model hold, and the depth of each."""
    tree = _tree(_classifier(model))
    if "classes" in tree:
        # records begin with the weight of the class
        is_leaf = tree["links"]["left"] < 0
        node = np.repeat(np.arange(len(is_leaf)), np.diff(tree["classes"]["starts"]))
        weight = tree["classes"]["records"][:, 0]
    elif "counts" in tree:
        is_leaf = ~np.isin(np.arange(len(tree["parents"])), tree["parents"])
        node, label = tree["counts"].nonzero()
        weight = tree["counts"][node, label]
    elif "grown" in tree:
        nodes, weight = tree["grown"]["nodes"], tree["grown"]["weights"].astype(np.float64)
        is_leaf = nodes["left"] < 0
        node = np.repeat(np.arange(len(nodes)), nodes["n_labels"])
    else:
        raise TypeError(f"{type(model).__name__} keeps no class weights in its leaves")
    number = np.cumsum(is_leaf) - 1
    keep = is_leaf[node] & (weight > 0)
    leaves = Leaves(number[node[keep]], weight[keep], int(is_leaf.sum()))
    return leaves, model._core.depths()[is_leaf]


def tree_criteria(
    model: StreamTreeClassifier, X: Any = None, y: Any = None, *, constant: float = CONSTANT
) -> dict[str, float]:
    """The criteria G^e, G^g and G^m of a tree.

    Without rows they are taken from the class weights that the leaves hold: what the tree has
    learned, and a leaf has also inherited when its parent split. With `X` and `y` they are those
    of the rows, sent through the tree as it is now: G of the theory, which is over one fixed
    distribution. Classes and ways change on a stream, so the two may differ.

    Parameters
    ----------
    model
        Any classifier of the package whose leaves hold class weights; with rows any classifier.
    X, y
        Rows, as for `leaf_of`, and their labels.
    constant
        C of the modified Gini entropy, above 2.

    Returns
    -------
    A dict of `entropy`, `gini`, `modified_gini`, and `heaviest_leaf`, the share of the weight in
    the heaviest leaf.

    Examples
    --------
    >>> from river import datasets
    >>> from streamtree import LOMTreeClassifier
    >>> from streamtree.diagnostics import tree_criteria
    >>> model = LOMTreeClassifier(leaf_model="majority")
    >>> for x, y in datasets.ImageSegments():
    ...     model.learn_one(x, y)
    >>> print(f"{tree_criteria(model)['gini']:.3f} of {1 - 1 / 7:.3f} with one leaf")
    0.162 of 0.857 with one leaf

    """
    constant = check_constant(constant)
    if (X is None) != (y is None):
        raise ValueError("X and y go together")
    if X is None:
        leaves = _leaves(model)[0].checked(f"{type(model).__name__} has learned")
    else:
        leaf = leaf_of(_classifier(model), X)
        _, label = _label_numbers(y, len(leaf))
        (leaf, _), weight = np.unique(np.stack([leaf, label]), axis=1, return_counts=True)
        leaves = Leaves(leaf, weight.astype(np.float64), int(leaf.max(initial=-1)) + 1)
        leaves.checked("X has")
    return _criteria(leaves, constant)


def _criteria(leaves: Leaves, constant: float) -> dict[str, float]:
    totals = leaves.totals()
    return {
        **leaves.criteria(constant),
        "heaviest_leaf": float(totals.max() / totals.sum()),
    }


def _label_numbers(y: Any, n_rows: int) -> tuple[list[Any], NDArray[np.int64]]:
    """The labels in order of appearance, and for every row the place of its label."""
    numbers: dict[Any, int] = {}
    places = [numbers.setdefault(label, len(numbers)) for label in label_list(y, n_rows)]
    return list(numbers), np.array(places, dtype=np.int64)


def split_counts(
    model: LOMTreeClassifier | ModelTreeClassifier, node: int = 0, X: Any = None, y: Any = None
) -> tuple[Counts, Counts]:
    """The weight of every class that a node of a binary tree sends left and right.

    Without rows it is what the leaves on either side hold. The counts a node kept while it was a
    leaf are not asked: they are of a model that has changed since, and are gone once it has split.
    So of a LOMtree with `algorithm="paper"`, whose leaves start empty, only examples since the
    split count, and those of a leaf that was recycled are lost. With `X` and `y` it is the rows
    that reach the node and the sides to which its test sends them now.

    Parameters
    ----------
    model
        The tree.
    node
        The number of the node in `snapshot()`; 0 is the root.
    X, y
        Rows, as for `leaf_of`, and their labels.

    Returns
    -------
    left and right, of shape (n_labels,): by the labels of the model, or for rows by those of y in
    order of appearance.

    """
    if not is_itself(model, (LOMTreeClassifier, ModelTreeClassifier)):
        raise TypeError(
            "model must be a LOMTreeClassifier or a ModelTreeClassifier, "
            f"got {type(model).__name__}"
        )
    tree = _tree(model)
    links = tree["links"]
    node = check_integer("node", node, at_least=0, at_most=len(links) - 1)
    if links["left"][node] < 0:
        raise ValueError(f"node {node} is a leaf: it has no split")
    if (X is None) != (y is None):
        raise ValueError("X and y go together")
    # the side of the node, if any, on which every node lies
    side = np.zeros(len(links), dtype=np.int8)
    pending = [(links["left"][node], -1), (links["right"][node], 1)]
    while pending:
        below, sign = pending.pop()
        side[below] = sign
        if links["left"][below] >= 0:
            pending += [(links["left"][below], sign), (links["right"][below], sign)]
    if X is None:
        starts, label = tree["classes"]["starts"], tree["classes"]["keys"]
        of_record = np.repeat(side, np.diff(starts))
        weight, n_labels = tree["classes"]["records"][:, 0], len(model.labels)
    else:
        of_record = side[leaf_of(model, X)]
        names, label = _label_numbers(y, len(of_record))
        weight, n_labels = np.ones(len(label)), len(names)
    left, right = (
        np.bincount(label[of_record == sign], weight[of_record == sign], n_labels)
        for sign in (-1, 1)
    )
    return left.astype(np.float64), right.astype(np.float64)


def split_summary(
    model: LOMTreeClassifier | ModelTreeClassifier, node: int = 0, X: Any = None, y: Any = None
) -> dict[str, float]:
    """What the theory of the LOMtree says of one split of a tree, from `split_counts`.

    Returns
    -------
    A dict of the `weight` that passed the node, its `objective` J, `balance` and `purity`, the
    bounds of Lemmas 3 and 4 (`least_balance`, `greatest_balance`, `greatest_purity`), and by how
    much the split lowers the `entropy_drop` and `gini_drop` of the node, with the bounds of
    eq. 7 and 8 (`least_entropy_drop`, `least_gini_drop`), as if the node were the whole tree.

    """
    left, right = split_counts(model, node, X, y)
    if not left.any() and not right.any():
        raise ValueError(f"no weight has passed node {node}: nothing is known of its split")
    value, share = objective(left, right), balance(left, right)
    low, high = balance_bounds(value)
    before, after = left + right, np.stack([left, right])
    return {
        "weight": float(before.sum()),
        "objective": value,
        "balance": share,
        "purity": purity(left, right),
        "least_balance": low,
        "greatest_balance": high,
        "greatest_purity": purity_bound(value, share),
        "entropy_drop": entropy(before) - entropy(after),
        "least_entropy_drop": entropy_drop_bound(left, right),
        "gini_drop": gini(before) - gini(after),
        "least_gini_drop": gini_drop_bound(left, right),
    }


# ------------------------------------------------------------------ rows on their way


def leaf_of(model: StreamTree, X: Any) -> NDArray[np.int32]:
    """The node in which every row ends, by its number in `snapshot()`.

    In a soft tree it is the leaf at the end of the most probable path.

    Parameters
    ----------
    model
        Any estimator of the package that is a single tree.
    X
        A list of dicts, or what `predict_many` takes.

    """
    if not is_itself(model, StreamTree):
        raise TypeError(
            "model must be a single tree, an estimator of streamtree, got "
            f"{type(model).__name__}"
        )
    if isinstance(X, list | tuple):
        return model._core.leaves_many(list(X), [])  # type: ignore[no-any-return]
    batch = model._batch(X)
    return model._core.leaves_many(batch.rows(), batch.names)  # type: ignore[no-any-return]


# ------------------------------------------------------------------------- over time


class Recorder:
    """Logs the criteria of a tree and its error, against the number of splits.

    It stands between a stream and a model: every example that is given to it is predicted, then
    learned. A record is made whenever the tree has grown enough, and whenever `record` is called,
    as one would at the end.

    Parameters
    ----------
    model
        A classifier of the package whose leaves hold class weights; a TypeError says so if they
        do not.
    X_test, y_test
        Rows and labels that are not learned, to be asked at every record: a list of dicts or what
        `predict_many` takes, and a sequence. None for no such test.
    spacing
        At least 1: by what factor the number of nodes has to grow between two records. 1 makes a
        record at every growth that is seen.
    constant
        C of the modified Gini entropy, above 2.

    Attributes
    ----------
    records
        A list of dicts. The number of examples so far, `n_examples`; the shape of the tree,
        `n_splits`, `n_nodes`, `n_leaves`, `height` and `mean_depth` (of the leaves, by weight);
        what `tree_criteria` says of the leaves; `error`, the share (by weight) of examples since
        the last record that were predicted wrongly just before they were learned, and
        `mean_error`, the same since the first. With test rows `test_error`, and `test_entropy`,
        `test_gini`, `test_modified_gini` and `test_heaviest_leaf`: the same criteria of the test
        rows, whose classes and whose ways are all seen from the start.

    Notes
    -----
    A record costs a snapshot of the model, and predictions of the test rows if there are any.
    Pass `records` to `streamtree.plots` to see them, or to `pandas.DataFrame`.

    Examples
    --------
    >>> from river import datasets
    >>> from streamtree import LOMTreeClassifier
    >>> from streamtree.diagnostics import Recorder

    >>> recorder = Recorder(LOMTreeClassifier(leaf_model="majority"), spacing=1.5)
    >>> for x, y in datasets.ImageSegments():
    ...     recorder.learn_one(x, y)
    >>> for record in [recorder.records[0], recorder.record()]:
    ...     print("{n_splits:2} splits, gini {gini:.2f}, error {mean_error:.2f}".format(**record))
     1 splits, gini 0.70, error 0.80
    15 splits, gini 0.16, error 0.16

    """

    def __init__(
        self,
        model: StreamTreeClassifier,
        X_test: Any = None,
        y_test: Any = None,
        *,
        spacing: float = 1.05,
        constant: float = CONSTANT,
    ) -> None:
        _leaves(model)
        self.model = model
        self.records: list[dict[str, float]] = []
        self.spacing = check_number("spacing", spacing, at_least=1)
        self.constant = check_constant(constant)
        if (X_test is None) != (y_test is None):
            raise ValueError("X_test and y_test go together")
        self._test = X_test
        if X_test is not None:
            n_rows = len(X_test) if isinstance(X_test, list | tuple) else Batch(X_test).n_rows
            if not n_rows:
                raise ValueError("X_test has no rows")
            self._test_labels = label_list(y_test, n_rows)
        self._n_examples = 0
        # weight and wrongly predicted weight, from the start and up to the last record
        self._seen = np.zeros(2)
        self._recorded = np.zeros(2)
        self._next_record = model.n_nodes + 1

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Predict one example, learn it, and make a record if the tree has grown enough."""
        predicted = self.model.predict_one(x)
        self.model.learn_one(x, y, w=w)
        self._count(1, w, w * (predicted != y))

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """The same for a batch, row by row.

        Growth is noticed after the batch, so give many small ones.
        """
        labels = label_list(y, Batch(X).n_rows)
        predicted = self.model._test_array(X, labels, w).tolist()
        weights = weight_array(w, len(labels))
        weights = np.ones(len(labels)) if weights is None else weights
        wrong = np.array([a != b for a, b in zip(predicted, labels, strict=True)], dtype=bool)
        self._count(len(labels), weights.sum(), weights[wrong].sum())

    def _count(self, n: int, weight: float, wrong: float) -> None:
        self._n_examples += n
        self._seen += weight, wrong
        if self.model.n_nodes >= self._next_record:
            self.record()

    def record(self) -> dict[str, float]:
        """Make a record, and return it; the last one again if nothing came since."""
        if self.records and self.records[-1]["n_examples"] == self._n_examples:
            return self.records[-1]
        leaves, depths = _leaves(self.model)
        leaves.checked(f"{type(self.model).__name__} has learned")
        totals, n_nodes = leaves.totals(), self.model.n_nodes
        weight, wrong = self._seen - self._recorded
        record = {
            "n_examples": self._n_examples,
            "n_splits": n_nodes - leaves.n_leaves,
            "n_nodes": n_nodes,
            "n_leaves": leaves.n_leaves,
            "height": int(depths.max()),
            "mean_depth": float(totals @ depths / totals.sum()),
            **_criteria(leaves, self.constant),
            "error": float(wrong / weight) if weight > 0 else math.nan,
            "mean_error": float(self._seen[1] / self._seen[0]) if self._seen[0] > 0 else math.nan,
            **self._tested(),
        }
        self.records.append(record)
        self._recorded = self._seen.copy()
        self._next_record = max(n_nodes + 1, math.ceil(self.spacing * n_nodes))
        return record

    def _tested(self) -> dict[str, float]:
        if self._test is None:
            return {}
        if isinstance(self._test, list | tuple):
            predicted = [self.model.predict_one(x) for x in self._test]
        else:
            predicted = self.model._predict_array(self._test).tolist()
        wrong = sum(a != b for a, b in zip(predicted, self._test_labels, strict=True))
        criteria = tree_criteria(self.model, self._test, self._test_labels, constant=self.constant)
        return {
            "test_error": wrong / len(predicted),
            **{f"test_{name}": value for name, value in criteria.items()},
        }
