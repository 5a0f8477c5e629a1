"""What every estimator of the package is to river. The only module that knows river."""

from __future__ import annotations

import abc
import inspect
import io
import math
import numbers
import os
import pickle
from collections.abc import Hashable
from typing import Any

from river import base

from streamtree import inspection, modelfile, states
from streamtree.batches import (
    Batch,
    indexed_frame,
    label_list,
    target_array,
    target_columns,
    weight_array,
)

__all__ = [
    "StreamTree", "StreamTreeClassifier", "StreamTreeMultiTargetRegressor", "StreamTreeRegressor",
    "public_estimators",
]


class StreamTree(base.Estimator):
    """Parameters on the outside, a compiled core within."""

    _core: Any
    # parts of the snapshot that hold objects of the user
    _packed = ("features", "labels", "targets")

    @abc.abstractmethod
    def _settings(self, params: dict[str, Any]) -> dict[str, Any]:
        """Validate all parameters and translate them to those of the core."""

    @abc.abstractmethod
    def _new_core(self) -> Any:
        """An untrained core with the present parameters."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Parameters reach the core when they may change, and refuse to when they may not."""
        if "_core" in self.__dict__ and name in (params := self._get_params()):
            if name not in self._mutable_attributes:
                raise AttributeError(
                    f"{name!r} is fixed once the model is made; "
                    f"clone({{{name!r}: ...}}) makes a new model"
                )
            self._core.configure(**self._settings({**params, name: value}))
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        snapshot = self._core.snapshot()
        packed = {name: _pack(snapshot[name]) for name in self._packed if name in snapshot}
        return {**self.__dict__, "_core": {**snapshot, **packed}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        snapshot = dict(state.pop("_core"))
        for name in self._packed:
            if name in snapshot:
                snapshot[name] = pickle.loads(snapshot[name])
        self.__dict__.update(state)
        core = self._new_core()
        core.restore(snapshot)
        self.__dict__["_core"] = core

    def _learn_dicts(self, batch: Batch, targets: list[Any], weights: Any) -> None:
        """Learn a frame row by row; every row is checked before the first is learned."""
        rows = list(batch.dicts())
        for x in rows:
            self._core.check_one(x)
        for i, x in enumerate(rows):
            self._core.learn_one(x, targets[i], 1.0 if weights is None else weights[i])

    @property
    def n_nodes(self) -> int:
        """Number of nodes of the tree, leaves included."""
        return int(self._core.n_nodes)

    @property
    def n_leaves(self) -> int:
        """Number of leaves of the tree."""
        return (self.n_nodes + 1) // 2

    @property
    def height(self) -> int:
        """Number of splits on the longest way from the root to a leaf."""
        return int(self._core.depths().max())

    @abc.abstractmethod
    def _views(self) -> list[inspection.NodeView]:
        """Describe every node, the root first."""

    def draw(self, max_depth: int | None = None) -> inspection.TreeDrawing:
        """Draw the tree: graphviz source, and a picture where graphviz is installed.

        Parameters
        ----------
        max_depth
            The depth of the lowest nodes to draw; None draws all.

        """
        if max_depth is not None:
            check_integer("max_depth", max_depth, at_least=0, at_most=2**31 - 1)
        return inspection.TreeDrawing(self._views(), max_depth)

    def to_dataframe(self) -> Any:
        """A pandas data frame with a row per node: its place, test, weight and prediction."""
        return indexed_frame(inspection.records(self._views()), "node")

    def to_dict(self) -> dict[str, Any]:
        """The tree as nested dicts of what JSON can hold: for reading, not for keeping."""
        return inspection.as_tree(self._views())

    def feature_importances(self) -> dict[Any, float]:
        """Share of every feature in the tests of the tree, largest first; they sum to 1.

        A node shares the weight of the examples behind it among the features of its test. In an
        oblique test (or the gate of a soft tree) they count by the sizes of their weights, on
        standardised values unless the algorithm takes values as they are.
        """
        return inspection.importances(self._views())

    def decision_path(self, x: dict[Any, Any]) -> list[dict[str, Any]]:
        """The nodes that an example passes, the root first, with what their tests give.

        Returns
        -------
        A list of dicts: `node`, `test` (empty at a leaf), `score` (None at a leaf), `weight` and
        `prediction` of every node.

        """
        views = {view.node: view for view in self._views()}
        return [
            {
                "node": node,
                "test": views[node].test,
                "score": score,
                "weight": views[node].weight,
                "prediction": views[node].prediction,
            }
            for node, score in self._core.path(x)
        ]

    def debug_one(self, x: dict[Any, Any]) -> str:
        """Tell how the prediction of one example comes about, node by node."""
        path = self._core.path(x)
        if not self._core.features.names and self._core.scaler.snapshot()["rows"] == 0:
            return "Nothing has been learned yet: the tree is a single empty leaf."
        return inspection.path_text({view.node: view for view in self._views()}, path)

    def snapshot(self) -> dict[str, Any]:
        """The whole learned state as a dict of arrays, numbers and lists.

        The same history gives the same snapshot, whether it came as dicts or as arrays.
        """
        return dict(self._core.snapshot())

    def save(self, path: str | os.PathLike[str], *, position: int | None = None) -> None:
        """Write the model to a file, from which `streamtree.load` makes it again.

        The file takes the place of an older one as a whole, once it is on the disk; on any error
        the older one stays as it was. The same history gives the same file.

        Parameters
        ----------
        path
            The file.
        position
            The number of examples behind the model, for a loop that goes on later; see
            `streamtree.checkpoint`.

        Raises
        ------
        TypeError
            If a feature, a label or a parameter is of a type that a file cannot keep: other than
            str, int, float, bool, None, a numpy number, or a tuple of these. Nothing is written.
        OSError
            If the file cannot be written.

        """
        name = type(self).__name__
        # in the order in which they were set, which pickle sees
        parameters = {k: v for k, v in self.__dict__.items() if k in self._get_params()}
        if public_estimators().get(name) is not type(self):
            raise TypeError(f"{name} is not an estimator of streamtree: no file can keep its code")
        for attribute in self.__dict__.keys() - parameters.keys() - {"_core"}:
            raise TypeError(f"{attribute!r} is no parameter of {name}: a file cannot keep it")
        if position is not None:
            position = check_integer("position", position, at_least=0, at_most=2**63 - 1)
        modelfile.write(path, name, parameters, self._core.snapshot(), position)

    def _check_state(self, state: dict[str, Any]) -> None:
        """Raise unless the core can trust a state; an estimator checks what is its own as well.

        The parameters are set; the arrays may still be of any type.
        """
        n_features = states.check_names(state["features"], "the features")
        states.check_scaler(state["scaler"], n_features)
        for names in ("labels", "targets"):
            if state.get(names) is not None:
                states.check_names(state[names], f"the {names}")


class StreamTreeClassifier(StreamTree, base.MiniBatchClassifier):
    """A classifier on dicts, arrays, sparse matrices and frames."""

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def labels(self) -> list[Hashable]:
        """The labels learned so far, in the order in which they first appeared."""
        return list(self._core.labels.labels)

    def learn_one(self, x: dict[Any, Any], y: Hashable, *, w: float = 1.0) -> None:
        """Learn one example.

        Parameters
        ----------
        x
            Features by name. Numbers and booleans are values, strings are categories, None
            and NaN are missing; features may come and go from one example to the next.
        y
            The label: anything hashable but None and NaN.
        w
            The weight of the example, from 0 (which learns nothing) to 1e100.

        Raises
        ------
        ValueError
            If a value is infinite, the label missing or the weight out of range. The model is
            then as it was; the same holds for every other error.
        TypeError
            If a value is neither a number nor a string, or the label is not hashable.

        """
        self._core.learn_one(x, y, w)

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """The most likely label of one example, None before any learning.

        Features that were never learned are ignored. The notes of a learner say what it costs.
        """
        return self._core.predict_one(x)

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """The probability of every label learned so far; an empty dict before any learning."""
        return self._core.predict_proba_one(x)  # type: ignore[no-any-return]

    def predict_topk_one(self, x: dict[Any, Any], k: int = 5) -> list[tuple[Any, float]]:
        """The k most likely labels with their probabilities, the most likely first.

        Fewer if fewer labels are known. Where leaves know a few of many labels it costs less than
        `predict_proba_one`.
        """
        if isinstance(k, bool) or not isinstance(k, numbers.Integral) or k < 1:
            raise ValueError(f"k must be an integer of at least 1, got {k!r}")
        return self._core.predict_topk_one(x, k)

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn the rows of a batch one after the other, exactly as a loop of `learn_one` does.

        Numeric input is learned in C without the interpreter's lock; a frame with other columns
        goes row by row.

        Parameters
        ----------
        X
            A numeric numpy array or scipy sparse matrix of shape (n_rows, n_features), whose
            columns are the features 0, 1, 2, ..., or a data frame. Cells that a sparse matrix
            does not store are zeros.
        y
            n_rows labels: an array, a series or a list.
        w
            n_rows weights or one for all, each from 0 to 1e100; None for 1.

        Raises
        ------
        ValueError, TypeError
            As in `learn_one`, and if the lengths differ; nothing is learned then.

        """
        batch = Batch(X)
        normalized = self._core.labels.normalized
        labels = [normalized(label) for label in label_list(y, batch.n_rows)]
        batch, weights, kept = _weighted(batch, w)
        if kept is not None:
            labels = [labels[i] for i in kept]
        if batch.source is not None:
            self._core.learn_many(batch.source, batch.names, batch.first_rows(), labels, weights)
        else:
            self._learn_dicts(batch, labels, weights)

    def predict_many(self, X: Any) -> Any:
        """The most likely label of every row.

        Returns
        -------
        An array of n_rows labels, or a series of the same kind and index as a frame.

        """
        batch = Batch(X)
        return batch.label_output(self._predict_numbers(batch), self.labels)

    def _predict_numbers(self, batch: Batch) -> Any:
        if batch.source is not None:
            return self._core.predict_many(batch.source, batch.names)
        return self._core.predict_dicts(list(batch.dicts()))

    def predict_proba_many(self, X: Any) -> Any:
        """The probability of every label learned so far, for every row.

        Returns
        -------
        An array of shape (n_rows, n_labels), columns in the order of `labels`, or a frame of
        the same kind and index as X with a column per label.

        """
        batch = Batch(X)
        if batch.source is not None:
            probabilities = self._core.predict_proba_many(batch.source, batch.names)
        else:
            probabilities = self._core.predict_proba_dicts(list(batch.dicts()))
        return batch.table_output(probabilities, self.labels)


class _NumberTree(StreamTree):
    """What regressors of one and of several targets share."""

    def _check_state(self, state: dict[str, Any]) -> None:
        super()._check_state(state)
        shrinkage, targets = state["shrinkage"], state["targets"]
        n_targets = 1 if targets is None else len(targets)
        states.require(shrinkage.shape == (n_targets,), "the shrinkage of the targets")
        states.check_finite(shrinkage, "mean", "product")
        states.check_finite(
            shrinkage, "weight", "variance", "judged_weight", "spread", "share", "rows",
            "judged", at_least=0,
        )
        states.require((shrinkage["share"] <= 1).all(), "the shrinkage of the targets")

    def _learn_numbers(self, batch: Batch, y: Any, targets: list[Any] | None, w: Any) -> None:
        batch, weights, kept = _weighted(batch, w)
        if kept is not None:
            y = y[kept]
        if batch.source is not None:
            first_rows = batch.first_rows()
            self._core.learn_many(batch.source, batch.names, first_rows, targets, y, weights)
        elif targets is None:
            self._learn_dicts(batch, y[:, 0].tolist(), weights)
        else:
            self._core.check_names(targets)
            rows = [dict(zip(targets, row, strict=True)) for row in y.tolist()]
            self._learn_dicts(batch, rows, weights)

    def _predict_numbers(self, batch: Batch) -> Any:
        if batch.source is not None:
            return self._core.predict_many(batch.source, batch.names)
        return self._core.predict_dicts(list(batch.dicts()))


class StreamTreeRegressor(_NumberTree, base.MiniBatchRegressor):
    """A regressor on dicts, arrays, sparse matrices and frames."""

    def learn_one(self, x: dict[Any, Any], y: float, *, w: float = 1.0) -> None:
        """Learn one example.

        Parameters
        ----------
        x
            Features by name. Numbers and booleans are values, strings are categories, None
            and NaN are missing; features may come and go from one example to the next.
        y
            The target: a number from -1e100 to 1e100.
        w
            The weight of the example, from 0 (which learns nothing) to 1e100.

        Raises
        ------
        ValueError
            If a value is infinite, the target not finite or the weight out of range. The model
            is then as it was; the same holds for every other error.
        TypeError
            If a value is neither a number nor a string, or the target is not a number.

        """
        self._core.learn_one(x, y, w)

    def predict_one(self, x: dict[Any, Any]) -> float:
        """The predicted number, 0 before any learning.

        Features that were never learned are ignored.
        """
        return self._core.predict_one(x)  # type: ignore[no-any-return]

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn the rows of a batch one after the other, exactly as a loop of `learn_one` does.

        Numeric input is learned in C without the interpreter's lock; a frame with other columns
        goes row by row.

        Parameters
        ----------
        X
            A numeric numpy array or scipy sparse matrix of shape (n_rows, n_features), whose
            columns are the features 0, 1, 2, ..., or a data frame. Cells that a sparse matrix
            does not store are zeros.
        y
            n_rows numbers: an array, a series or a list.
        w
            n_rows weights or one for all, each from 0 to 1e100; None for 1.

        Raises
        ------
        ValueError, TypeError
            As in `learn_one`, and if the lengths differ; nothing is learned then.

        """
        batch = Batch(X)
        self._learn_numbers(batch, target_array(y, batch.n_rows), None, w)

    def predict_many(self, X: Any) -> Any:
        """The predicted number of every row.

        Returns
        -------
        A float64 array of shape (n_rows,), or a series of the same kind and index as a frame.

        """
        batch = Batch(X)
        return batch.number_output(self._predict_numbers(batch)[:, 0])

class StreamTreeMultiTargetRegressor(_NumberTree, base.MultiTargetRegressor):
    """A regressor of several numbers at once, on dicts, arrays, sparse matrices and frames."""

    @property
    def targets(self) -> list[Hashable]:
        """The names of the targets, in the order of the first example; empty before it."""
        return list(self._core.targets)

    def learn_one(  # type: ignore[override]  # river's has **kwargs; ours names its one
        self, x: dict[Any, Any], y: dict[Any, float], *, w: float = 1.0
    ) -> None:
        """Learn one example.

        Parameters
        ----------
        x
            As for a single target.
        y
            Numbers from -1e100 to 1e100 by name; the first example fixes the names.
        w
            The weight of the example, from 0 (which learns nothing) to 1e100.

        Raises
        ------
        ValueError, TypeError
            As for a single target, and if the names differ; the model is then as it was.

        """
        self._core.learn_one(x, y, w)

    def predict_one(self, x: dict[Any, Any]) -> dict[Any, float]:
        """The predicted number of every target, an empty dict before any learning."""
        return self._core.predict_one(x)  # type: ignore[no-any-return]

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn the rows of a batch one after the other, exactly as a loop of `learn_one` does.

        Parameters
        ----------
        X
            As for a single target.
        y
            A numeric array of shape (n_rows, n_targets), whose columns are the targets 0, 1, ...,
            or a frame with a column per target.
        w
            n_rows weights or one for all, each from 0 to 1e100; None for 1.

        """
        batch = Batch(X)
        values, names = target_columns(y, batch.n_rows)
        self._learn_numbers(batch, values, names, w)

    def predict_many(self, X: Any) -> Any:
        """The predicted numbers of every row.

        Returns
        -------
        A float64 array of shape (n_rows, n_targets), columns in the order of `targets`, or a
        frame of the same kind and index as X with a column per target.

        """
        batch = Batch(X)
        return batch.table_output(self._predict_numbers(batch), self.targets)


def public_estimators() -> dict[str, type[StreamTree]]:
    """The estimators of the package by name."""
    found: dict[str, type[StreamTree]] = {}
    kinds = StreamTree.__subclasses__()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__.startswith("streamtree.") and not inspect.isabstract(kind):
            found[kind.__name__] = kind
    return found


def _weighted(batch: Batch, w: Any) -> tuple[Batch, Any, Any]:
    """The rows that have weight, their weights, and their numbers (None: all rows)."""
    weights = weight_array(w, batch.n_rows)
    if weights is None or weights.all():
        return batch, weights, None
    keep = weights > 0
    return batch.compress(keep), weights[keep], keep.nonzero()[0].tolist()


def _pack(values: list[Any]) -> bytes:
    """Pickle a list by value alone.

    Pickle writes an object that it meets twice as a reference, so that equal models could differ
    in whether two equal strings are one object. `fast` switches that off.
    """
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, protocol=5)
    pickler.fast = True
    pickler.dump(values)
    return buffer.getvalue()


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """One of a few strings."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {type(value).__name__}")
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def check_number(
    name: str,
    value: Any,
    *,
    at_least: float = -math.inf,
    above: float = -math.inf,
    at_most: float = math.inf,
    below: float = math.inf,
) -> float:
    """A finite real number within bounds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    number = float(value)
    bounds = [
        *([f"at least {at_least:g}"] if at_least > -math.inf else []),
        *([f"above {above:g}"] if above > -math.inf else []),
        *([f"at most {at_most:g}"] if at_most < math.inf else []),
        *([f"below {below:g}"] if below < math.inf else []),
    ]
    inside = at_least <= number <= at_most and above < number < below
    if not math.isfinite(number) or not inside:
        raise ValueError(f"{name} must be {' and '.join(['finite', *bounds])}, got {value!r}")
    return number


def check_integer(name: str, value: Any, *, at_least: int, at_most: int) -> int:
    """An integer within bounds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}")
    if not at_least <= int(value) <= at_most:
        raise ValueError(f"{name} must be from {at_least} to {at_most}, got {value!r}")
    return int(value)
