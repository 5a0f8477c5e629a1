"""What every estimator of the package is to river. Of modules only this and cli know river."""

from __future__ import annotations

import abc
import copy
import functools
import inspect
import io
import math
import numbers
import os
import pickle
import reprlib
import sys
from collections.abc import Callable, Hashable
from typing import Any, Self, TypeVar, cast

import numpy as np
from river import base

from streamtree import drawing, inspection, modelfile, parameters
from streamtree._core.learners.classifier import Classifier
from streamtree._core.learners.explaining import (
    explain,
    find_ways,
    measure_moves,
    number_of,
    predict_nodes,
)
from streamtree._core.learners.methods import Holder, OfLabels, OfNumbers
from streamtree._core.learners.regressor import Regressor
from streamtree._core.store.checks import StateError
from streamtree.batches import (
    Batch,
    indexed_frame,
    label_list,
    labels_of,
    target_array,
    target_columns,
    weight_array,
)

__all__ = [
    "StreamClassifier", "StreamModel", "StreamRegressor", "StreamTree", "StreamTreeClassifier",
    "StreamTreeMultiTargetRegressor", "StreamTreeRegressor", "public_estimators",
]


# what any estimator may take, unless it is told otherwise, and must be given at the least
DEFAULT_BYTES = 200_000_000
LEAST_BYTES = 2**18

# one for all models: what is empty makes a new frozenset each time, a frozenset does not
NO_NAMES: frozenset[Any] = frozenset()
# of parameters that can be compared and that nobody changes in place
SCALARS = (bool, int, float, str, type(None))

Method = TypeVar("Method", bound=Callable[..., Any])


def compiled(method: Any) -> Callable[[Method], Method]:
    """Let a compiled function take the place of the method that describes it."""

    def described(declared: Method) -> Method:
        for name in ("__doc__", "__name__", "__qualname__", "__module__", "__annotations__"):
            setattr(method, name, getattr(declared, name))
        return cast(Method, method)

    return described


class StreamModel(Holder, base.Estimator):  # type: ignore[misc]  # compiled, of no known type
    """What every estimator is, a tree or a forest: parameters outside, a compiled core within."""

    _core: Any
    # parts of the snapshot that hold objects of the user
    _packed = ("features", "labels", "waiting_labels", "targets")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let errors of the constructor name the class, and say what to use instead."""
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            cls.__init__ = parameters.checked(cls.__init__)  # type: ignore[method-assign]

    @abc.abstractmethod
    def _settings(self, params: dict[str, Any]) -> dict[str, Any]:
        """Validate all parameters and translate them to those of the core."""

    @abc.abstractmethod
    def _tree_maker(self) -> Callable[[], Any]:
        """What makes an untrained tree of the core, with the present parameters."""

    def _new_core(self) -> Any:
        """An untrained core with the present parameters."""
        return self._core_maker(self._shared_tree_maker())()

    def _shared_tree_maker(self) -> Callable[[], Any]:
        """The same tree maker for all models with the same parameters, for they may be many."""
        values = [self.__dict__.get(name) for name in parameter_names(type(self)) or ()]
        if is_public(type(self)) and all(type(value) in SCALARS for value in values):
            return tree_maker(type(self), *values)
        return self._tree_maker()

    def _core_settings(self) -> dict[str, Any]:
        """What any core is to know besides its tree."""
        return {
            "max_bytes": self._most_bytes, "nominal": self._nominal,
            "restarts": self._may_restart(self.__dict__),
        }

    @abc.abstractmethod
    def _core_maker(self, make_tree: Callable[[], Any]) -> Callable[[], Any]:
        """What makes untrained cores, each over a tree of its own."""

    def _get_params(self) -> dict[str, Any]:
        """As river's, which reads the signature each time: of many models that costs the most.

        Estimators among them are pairs of class and parameters.
        """
        names = parameter_names(type(self))
        if names is None:
            return super()._get_params()
        return {name: comparable(getattr(self, name)) for name in names}

    @property
    def _most_bytes(self) -> int | None:
        return check_max_bytes(getattr(self, "max_bytes", None))

    @staticmethod
    def _may_restart(params: dict[str, Any]) -> bool:
        """Whether a new tree may take the place of this one: never in the papers' form."""
        restarts = check_bool("restarts", params.get("restarts", False))
        return restarts and params.get("algorithm") != "paper"

    @property
    def _nominal(self) -> frozenset[Any]:
        return frozenset(getattr(self, "nominal_attributes", None) or NO_NAMES)

    def _batch(self, X: Any, *, is_asked: bool = False) -> Batch:
        """Rows to learn, or to predict."""
        batch = Batch(X, self._nominal)
        batch.warn_of_strangers(self._core.features, is_asked=is_asked)
        return batch

    def __setattr__(self, name: str, value: Any) -> None:
        """Parameters reach the core when they may change, and refuse to when they may not."""
        if self._core is not None and name in core_parameters(type(self)):
            if name not in self._mutable_attributes:
                raise AttributeError(
                    f"{name!r} is fixed once the model is made; "
                    f"clone({{{name!r}: ...}}) makes a new model"
                )
            params = {**self.__dict__, name: value}
            if name == "max_bytes":
                # members of a forest have bounds of their own
                trial = type(self).__new__(type(self))
                trial.__dict__.update(params)
                trial._new_core()
            self._core.configure(
                max_bytes=check_max_bytes(params.get("max_bytes")),
                restarts=self._may_restart(params),
                **self._settings(params),
            )
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        snapshot = modelfile.with_one_nan(self._core.snapshot())
        packed = {name: _pack(snapshot[name]) for name in self._packed if name in snapshot}
        return {**self.__dict__, "_core": {**snapshot, **packed}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        snapshot = dict(state.pop("_core"))
        for name in self._packed:
            if name in snapshot:
                snapshot[name] = pickle.loads(snapshot[name])
        # pickle sees whether two equal strings are one
        self.__dict__.update({sys.intern(name): interned(value) for name, value in state.items()})
        core = self._new_core()
        core.restore(snapshot)
        self._core = core

    def clone(
        self, new_params: dict[str, Any] | None = None, include_attributes: bool = False
    ) -> Self:
        """A new model with the same parameters.

        Parameters
        ----------
        new_params
            Parameters that are to be others.
        include_attributes
            Whether the clone is to know all that was learned.

        """
        # subclasses elsewhere may do more in their constructors
        is_plain = not new_params and is_public(type(self))
        clone = self._cloner()() if is_plain else super().clone(new_params)
        if include_attributes:
            snapshot = self.snapshot()
            if new_params:
                # a trial of another tree ends where parameters change
                snapshot.pop("challenge", None)
            try:
                clone._core.check_state(snapshot)
            except StateError as error:
                raise ValueError(f"what was learned does not fit {new_params}: {error}") from error
            clone._core.restore(snapshot)
            parameters = self._get_params().keys() | core_parameters(type(self))
            for name, value in self.__dict__.items():
                if name not in parameters:
                    setattr(clone, name, copy.deepcopy(value))
        return clone

    def _cloner(self) -> Callable[[], Self]:
        """What makes clones, all with the parameters of now, which are looked at once only."""
        kind, make_core = type(self), self._core_maker(self._shared_tree_maker())
        # sets and estimators among them are to be nobody else's
        parameters = {
            name: copy.deepcopy(self.__dict__[name]) for name in parameter_names(kind) or ()
        }

        def clone() -> Any:
            model = kind.__new__(kind)
            model.__dict__.update(parameters)
            model._core = make_core()
            return model

        return clone

    @abc.abstractmethod
    def _prepared(self, X: Any, y: Any, w: Any) -> tuple[Batch, tuple[Any, ...]]:
        """A batch to learn, and what the core is to be given of it."""

    def _learn_many(
        self, X: Any, y: Any, w: Any, says: str | None = None,
        output: Callable[[Batch, Any], Any] = lambda batch, said: None,
    ) -> Any:
        """Learn a batch; returns the output for what the core said of its rows.

        Whatever ends it early carries `rows_learned`, the number of rows that were learned.
        """
        learned = 0
        try:
            batch, arguments = self._prepared(X, y, w)
            # if the core does not say, a signal came just after its last row
            learned = batch.n_rows
            return output(batch, self._core.learn_many(*arguments, says))
        except BaseException as error:
            if not hasattr(error, "rows_learned"):
                error.rows_learned = learned  # type: ignore[attr-defined]
            raise

    @abc.abstractmethod
    def _as_array(self, said: Any) -> Any:
        """What the core said of rows, as an array: frames may have no type for it."""

    def _test_array(self, X: Any, y: Any, w: Any = None) -> Any:
        """As `test_then_learn_many`, an array whatever X came in."""
        return self._learn_many(X, y, w, "labels", lambda batch, said: self._as_array(said))

    def _predict_array(self, X: Any) -> Any:
        """As `predict_many`, an array whatever X came in."""
        return self._as_array(self._core_said(X)[1])

    def _core_said(self, X: Any) -> tuple[Batch, Any]:
        """A batch to predict, and what the core says of its rows."""
        batch = self._batch(X, is_asked=True)
        return batch, self._core.predict_many(batch.rows(), batch.names)

    @property
    def lock_timeout(self) -> float:
        """The seconds that a call waits while another thread is inside the model.

        0, as at first: it does not wait but raises RuntimeError. Otherwise calls get in in the
        order in which they came, so that many that predict cannot keep out one that learns;
        RuntimeError comes after so many seconds (`math.inf`: never). It belongs to the object at
        hand: copies, pickles and files begin with 0.
        """
        return float(self._core.intake.lock.timeout)

    @lock_timeout.setter
    def lock_timeout(self, seconds: float) -> None:
        if seconds != math.inf:
            seconds = check_number("lock_timeout, unless math.inf,", seconds, at_least=0)
        self._core.intake.lock.timeout = seconds

    def __sizeof__(self) -> int:
        """All bytes that the estimator takes: names, labels, the tree, room for rows."""
        return int(object.__sizeof__(self)) + int(self._core.n_bytes)

    @property
    def _raw_memory_usage(self) -> int:
        # river adds up the objects that it finds: the names are among them
        return sys.getsizeof(self)

    @property
    def n_nodes(self) -> int:
        """Number of nodes of the tree, leaves included."""
        return int(self._core.tree.n_nodes)

    @property
    def n_leaves(self) -> int:
        """Number of leaves of the tree."""
        return int(self._core.measure("count_leaves"))

    @property
    def n_branches(self) -> int:
        """Number of inner nodes, as river's trees call it."""
        return self.n_nodes - self.n_leaves

    @property
    def height(self) -> int:
        """Number of splits on the longest way from the root to a leaf."""
        return int(self._core.depths().max(initial=0))

    @abc.abstractmethod
    def feature_importances(self) -> dict[Any, float]:
        """By how much every feature moves predictions, as shares that sum to 1, largest first."""

    @abc.abstractmethod
    def debug_one(self, x: dict[Any, Any]) -> str:
        """Tell how the prediction of one example comes about."""

    def _contributions(self, x: dict[Any, Any], output: int) -> dict[str, Any]:
        score, bias, columns = explain(self._core, x, output)
        features: dict[Any, float] = {}
        names = self._core.features.names
        for column, amount in columns.items():
            feature = inspection.feature_of(names[column])
            features[feature] = features.get(feature, 0.0) + amount
        ranked = dict(inspection.strongest(features))
        return {"score": score, "bias": bias, "features": ranked}

    @abc.abstractmethod
    def contributions_one(self, x: dict[Any, Any]) -> dict[Any, Any]:
        """What the prediction of one example is made of."""

    def _contributions_text(self, explained: dict[Any, Any], x: dict[Any, Any]) -> list[str]:
        return ["the prediction is made of", *inspection.contributions_text(explained, x)]

    def snapshot(self) -> dict[str, Any]:
        """The whole learned state as a dict of arrays, numbers and lists.

        The same history gives the same snapshot, whether it came as dicts or as arrays.
        """
        return dict(self._core.snapshot())

    def save(
        self, path: str | os.PathLike[str], *, position: int | None = None,
        notes: dict[str, Any] | None = None,
    ) -> None:
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
        notes
            Anything JSON can say that is to be kept beside the model, by name;
            `streamtree.serialization.load_at` reads it.

        Raises
        ------
        TypeError
            If a feature, a label or a parameter is of a type that a file cannot keep: other than
            str, int, float, bool, None, a numpy number, a date or time without a named
            zone, or a tuple of these; or JSON cannot say the notes. Nothing is written.
        StateError
            If the state contradicts itself, so that `load` would refuse it; that would be an error
            in this package. Nothing is written.
        OSError
            If the file cannot be written, or is no regular file.

        """
        parts = self._file_parts(position)
        _, _, state, _ = parts
        modelfile.check_names(state)
        # what `load` would refuse must not take the place of a good file
        self._new_core().check_state(state)
        modelfile.write(path, *parts, notes)

    def _file_parts(
        self, position: int | None
    ) -> tuple[str, dict[str, Any], dict[str, Any], int | None]:
        """What a file keeps: class, parameters, state, position. TypeError if it cannot."""
        if position is not None:
            position = check_integer("position", position, at_least=0, at_most=2**63 - 1)
        return *self._file_parameters(), self._core.snapshot(), position

    def _file_parameters(self) -> tuple[str, dict[str, Any]]:
        """Of what a file keeps, class and parameters."""
        name = type(self).__name__
        known = self._get_params()
        # in the order in which they were set, which pickle sees
        parameters = {k: _in_file(v) for k, v in self.__dict__.items() if k in known}
        _check_public(self)
        for attribute in self.__dict__.keys() - parameters.keys():
            raise TypeError(f"{attribute!r} is no parameter of {name}: a file cannot keep it")
        return name, parameters


class StreamClassifier(StreamModel, base.MiniBatchClassifier):
    """A classifier on dicts, arrays, sparse matrices and frames."""

    def _core_maker(self, make_tree: Callable[[], Any]) -> Callable[[], Classifier]:
        settings = self._core_settings()
        return lambda: Classifier(make_tree(), make_tree=make_tree, **settings)

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def labels(self) -> list[Hashable]:
        """The labels learned so far, in the order in which they first appeared."""
        return list(self._core.labels.labels)

    @compiled(OfLabels.learn_one)
    def learn_one(self, x: dict[Any, Any], y: Hashable, w: float = 1.0) -> None:
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

    @compiled(OfLabels.predict_one)
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
        k = check_integer("k", k, at_least=1, at_most=sys.maxsize)
        return self._core.predict_topk_one(x, k)  # type: ignore[no-any-return]

    def contributions_one(self, x: dict[Any, Any], label: Hashable = None) -> dict[Any, Any]:
        """What the probability of a label is made of: a bias, and a part of every feature.

        They sum to the probability. The bias is the mean of the tree: of what its leaves say of an
        example without features, each by its weight. From there the example goes its way. A test
        moves the mean to that of the branch, and the features that sent the example there share
        the difference. In the leaf every feature has what its scores change, on the straight way
        from no feature to all of them (Aumann-Shapley values). In a soft tree, which has no one
        way, this holds for gates and leaves together, and the bias is what the tree says of an
        example without features. Of a forest the parts that features have in what the members say,
        in log-odds, each times its exponent, share what lies between the bias and the probability.

        Parameters
        ----------
        x
            The features by name.
        label
            Whose probability; None for the label that `predict_one` gives.

        Returns
        -------
        A dict: `label`; `score`, the probability; `bias`; and `features`, the parts by feature,
        the largest first. `score` is `bias` plus the sum of all parts, to the last digits.

        Raises
        ------
        ValueError
            If the label was never learned.

        Examples
        --------
        >>> from river import datasets
        >>> from streamtree import ModelTreeClassifier
        >>> model = ModelTreeClassifier()
        >>> for x, y in datasets.Phishing():
        ...     model.learn_one(x, y)
        >>> made_of = model.contributions_one(x)
        >>> made_of["label"], round(made_of["score"], 2), round(made_of["bias"], 2)
        (False, 0.97, 0.43)
        >>> {name: round(part, 2) for name, part in list(made_of["features"].items())[:2]}
        {'empty_server_form_handler': 0.32, 'https': 0.16}

        """
        with self._core.intake.lock.reading():
            if label is None:
                label = self.predict_one(x)
                if label is None:
                    return {"label": None, "score": 0.0, "bias": 0.0, "features": {}}
            number = number_of(self._core, label)
            if number < 0:
                raise ValueError(f"label {label!r} was never learned")
            return {"label": self.labels[number], **self._contributions(x, number)}

    def _contributions_text(self, explained: dict[Any, Any], x: dict[Any, Any]) -> list[str]:
        label = inspection.short(explained["label"])
        lines = inspection.contributions_text(explained, x)
        return [f"the probability of {label} is made of", *lines]

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn the rows of a batch one after the other, exactly as a loop of `learn_one` does.

        Numbers and categories are learned in C without the interpreter's lock; frames with cells
        of other types, and sparse matrices with nominal columns, go row by row.

        Parameters
        ----------
        X
            A numeric numpy array or scipy sparse matrix of shape (n_rows, n_features), whose
            columns are the features 0, 1, 2, ..., or a data frame. Cells that a sparse matrix
            does not store are zeros; in one of more than 65,536 columns they are absent.
        y
            n_rows labels: an array, a series or a list.
        w
            n_rows weights or one for all, each from 0 to 1e100; None for 1.

        Raises
        ------
        ValueError, TypeError
            As in `learn_one`, and if the lengths differ; nothing is learned then.
        KeyboardInterrupt, or what else a signal handler raises
            Between two rows, within milliseconds. Its `rows_learned` says how many rows were
            learned: the model is as if the batch had ended there.

        """
        self._learn_many(X, y, w)

    def test_then_learn_many(self, X: Any, y: Any, w: Any = None, *, proba: bool = False) -> Any:
        """Predict every row of a batch just before it is learned.

        The predictions are those of a loop of `predict_one` (or `predict_proba_one`) and
        `learn_one`, bit for bit, at about the cost of `learn_many`: what prequential evaluation
        needs.

        Parameters
        ----------
        X, y, w
            As in `learn_many`. A row of weight 0 is predicted and not learned.
        proba
            Whether to return probabilities in place of labels.

        Returns
        -------
        n_rows labels, as `predict_many` gives them, None for rows before any learning; or the
        probabilities as `predict_proba_many` gives them, 0 for labels that were not known yet.

        Raises
        ------
        ValueError, TypeError
            As in `learn_many`; nothing is learned then.

        Examples
        --------
        >>> import numpy as np
        >>> from streamtree import ModelTreeClassifier
        >>> X = np.array([[0.0], [1.0], [0.1], [0.9]])
        >>> ModelTreeClassifier().test_then_learn_many(X, [0, 1, 0, 1]).tolist()
        [None, 0, 1, 1]

        """
        if proba:
            return self._learn_many(X, y, w, "shares", self._shares)
        return self._learn_many(X, y, w, "labels", self._labels)

    def _as_array(self, said: Any) -> Any:
        return labels_of(said, self.labels)

    def _labels(self, batch: Batch, said: Any) -> Any:
        return batch.label_output(said, self.labels)

    def _shares(self, batch: Batch, said: Any) -> Any:
        # another thread may have learned a label since
        return batch.table_output(said, self.labels[: said.shape[1]])

    def _prepared(self, X: Any, y: Any, w: Any) -> tuple[Batch, tuple[Any, ...]]:
        batch = self._batch(X)
        labels = label_list(y, batch.n_rows)
        self._core.labels.normalize(labels)
        weights = weight_array(w, batch.n_rows)
        return batch, (
            batch.rows(), batch.names, batch.first_rows(weights), labels, weights
        )

    def predict_many(self, X: Any) -> Any:
        """The most likely label of every row.

        Returns
        -------
        An array of n_rows labels, or a series of the same kind and index as a frame.

        """
        return self._labels(*self._core_said(X))

    def predict_proba_many(self, X: Any) -> Any:
        """The probability of every label learned so far, for every row.

        Returns
        -------
        An array of shape (n_rows, n_labels), columns in the order of `labels`, or a frame of
        the same kind and index as X with a column per label.

        """
        batch = self._batch(X, is_asked=True)
        return self._shares(batch, self._core.predict_many(batch.rows(), batch.names, "shares"))


class _NumberModel(StreamModel):
    """What regressors of one and of several targets share."""

    # whether the targets have names
    _several = False

    @property
    def _shrinks(self) -> bool:
        """Whether predictions are drawn to the mean of the targets, as far as that pays."""
        return self._is_robust

    @property
    def _is_robust(self) -> bool:
        """Whether a target far out is learned as one at the edge."""
        return True

    def _core_maker(self, make_tree: Callable[[], Any]) -> Callable[[], Regressor]:
        settings = {
            "several": self._several, "shrinks": self._shrinks, "is_robust": self._is_robust,
            **self._core_settings(),
        }
        return lambda: Regressor(make_tree(), make_tree=make_tree, **settings)

    def _prepared(self, X: Any, y: Any, w: Any) -> tuple[Batch, tuple[Any, ...]]:
        batch = self._batch(X)
        values, targets = self._targets_of(y, batch.n_rows)
        weights = weight_array(w, batch.n_rows)
        return batch, (
            batch.rows(), batch.names, batch.first_rows(weights), targets, values, weights
        )

    @abc.abstractmethod
    def _targets_of(self, y: Any, n_rows: int) -> tuple[Any, list[Any] | None]:
        """The numbers of a batch, shape (n_rows, n_targets), and the names of several targets."""

    def _as_array(self, said: Any) -> Any:
        return said if self._several else said[:, 0]


class StreamRegressor(_NumberModel, base.MiniBatchRegressor):
    """A regressor on dicts, arrays, sparse matrices and frames."""

    @compiled(OfNumbers.learn_one)
    def learn_one(self, x: dict[Any, Any], y: float, w: float = 1.0) -> None:
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

    @compiled(OfNumbers.predict_one)
    def predict_one(self, x: dict[Any, Any]) -> float:
        """The predicted number, 0 before any learning.

        Features that were never learned are ignored.
        """
        return self._core.predict_one(x)  # type: ignore[no-any-return]

    def contributions_one(self, x: dict[Any, Any]) -> dict[Any, Any]:
        """What a predicted number is made of: a bias, and a part of every feature.

        They sum to the prediction, in the unit of the target. The bias is the mean of the tree: of
        what its leaves say of an example without features, each by its weight. From there the
        example goes its way. A test moves the mean to that of the branch, and the features that
        sent the example there share the difference. In the leaf every feature has its weight times
        its value. In a soft tree, which has no one way, this holds for gates and leaves together,
        and the bias is what the tree says of an example without features. What is drawn towards
        the mean, or cut off at the range of the targets, is so in proportion. Of a forest it is the
        explanations of the members by how far each moves the prediction; what the last targets and
        errors add is in the bias.

        Returns
        -------
        A dict: `score`, the prediction; `bias`; and `features`, the parts by feature, the largest
        first. `score` is `bias` plus the sum of all parts, to the last digits.

        """
        return self._contributions(x, 0)

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn the rows of a batch one after the other, exactly as a loop of `learn_one` does.

        Numbers and categories are learned in C without the interpreter's lock; frames with cells
        of other types, and sparse matrices with nominal columns, go row by row.

        Parameters
        ----------
        X
            A numeric numpy array or scipy sparse matrix of shape (n_rows, n_features), whose
            columns are the features 0, 1, 2, ..., or a data frame. Cells that a sparse matrix
            does not store are zeros; in one of more than 65,536 columns they are absent.
        y
            n_rows numbers: an array, a series or a list.
        w
            n_rows weights or one for all, each from 0 to 1e100; None for 1.

        Raises
        ------
        ValueError, TypeError
            As in `learn_one`, and if the lengths differ; nothing is learned then.
        KeyboardInterrupt, or what else a signal handler raises
            Between two rows, within milliseconds. Its `rows_learned` says how many rows were
            learned: the model is as if the batch had ended there.

        """
        self._learn_many(X, y, w)

    def _targets_of(self, y: Any, n_rows: int) -> tuple[Any, list[Any] | None]:
        return target_array(y, n_rows), None

    def test_then_learn_many(self, X: Any, y: Any, w: Any = None) -> Any:
        """Predict every row of a batch just before it is learned.

        The predictions are those of a loop of `predict_one` and `learn_one`, bit for bit, at
        about the cost of `learn_many`: what prequential evaluation needs.

        Parameters
        ----------
        X, y, w
            As in `learn_many`. A row of weight 0 is predicted and not learned.

        Returns
        -------
        n_rows numbers, as `predict_many` gives them.

        Raises
        ------
        ValueError, TypeError
            As in `learn_many`; nothing is learned then.

        Examples
        --------
        >>> import numpy as np
        >>> from streamtree import SoftTreeRegressor
        >>> SoftTreeRegressor().test_then_learn_many(np.zeros((3, 1)), [2.0, 2.0, 2.0]).tolist()
        [0.0, 2.0, 2.0]

        """
        return self._learn_many(
            X, y, w, "numbers", lambda batch, said: batch.number_output(said[:, 0])
        )

    def predict_many(self, X: Any) -> Any:
        """The predicted number of every row.

        Returns
        -------
        A float64 array of shape (n_rows,), or a series of the same kind and index as a frame.

        """
        batch, said = self._core_said(X)
        return batch.number_output(said[:, 0])


class StreamMultiTargetRegressor(_NumberModel, base.MultiTargetRegressor):
    """A regressor of several numbers at once, on dicts, arrays, sparse matrices and frames."""

    _several = True

    @property
    def targets(self) -> list[Hashable]:
        """The names of the targets, in the order of the first example; empty before it."""
        return list(self._core.targets)

    def learn_one(  # type: ignore[override]  # river's has **kwargs; ours names its one
        self, x: dict[Any, Any], y: dict[Any, float], w: float = 1.0
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

    def contributions_one(self, x: dict[Any, Any]) -> dict[Any, Any]:
        """What the predicted numbers are made of: as for a single target, a dict by target."""
        with self._core.intake.lock.reading():
            return {name: self._contributions(x, i) for i, name in enumerate(self.targets)}

    def _contributions_text(self, explained: dict[Any, Any], x: dict[Any, Any]) -> list[str]:
        lines = []
        for target, parts in explained.items():
            lines.append(f"the prediction of {inspection.feature_text(target)} is made of")
            lines += inspection.contributions_text(parts, x)
        return lines

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
        self._learn_many(X, y, w)

    def _targets_of(self, y: Any, n_rows: int) -> tuple[Any, list[Any] | None]:
        return target_columns(y, n_rows)

    def test_then_learn_many(self, X: Any, y: Any, w: Any = None) -> Any:
        """Predict every row of a batch just before it is learned, as for a single target.

        Parameters
        ----------
        X, y, w
            As in `learn_many`. A row of weight 0 is predicted and not learned.

        Returns
        -------
        The numbers of every row, as `predict_many` gives them.

        """
        return self._learn_many(
            X, y, w, "numbers", lambda batch, said: batch.table_output(said, self.targets)
        )

    def predict_many(self, X: Any) -> Any:
        """The predicted numbers of every row.

        Returns
        -------
        A float64 array of shape (n_rows, n_targets), columns in the order of `targets`, or a
        frame of the same kind and index as X with a column per target.

        """
        batch, said = self._core_said(X)
        return batch.table_output(said, self.targets)


class StreamTree(StreamModel):
    """An estimator of one tree, whose nodes are there to be looked at."""

    # whether the weights of nodes are those of examples
    _counts_examples = True

    @property
    def summary(self) -> dict[str, float]:
        """The shape of the tree in a few numbers."""
        return {
            "n_nodes": self.n_nodes, "n_leaves": self.n_leaves, "height": self.height,
            **self._shape(), "n_features": len(self._core.features),
        }

    def _shape(self) -> dict[str, float]:
        """What a summary tells of this family only."""
        return {}

    @abc.abstractmethod
    def _views(self) -> list[inspection.NodeView]:
        """Describe every node, the root first."""

    def _views_at_once(self) -> list[inspection.NodeView]:
        """The views of one moment: they take several looks at the tree."""
        with self._core.intake.lock.reading():
            return self._views()

    def _outline(self) -> dict[str, Any]:
        """A snapshot that has of the tree only nodes, tests and counts."""
        return self._core.snapshot(is_outline=True)  # type: ignore[no-any-return]

    def _said_by(self, nodes: list[int]) -> dict[int, dict[str, Any]]:
        """What nodes say of an example without features, as views have it."""
        outputs = predict_nodes(self._core, nodes)
        return dict(zip(nodes, map(self._as_view, outputs.tolist()), strict=True))

    @abc.abstractmethod
    def _as_view(self, outputs: list[float]) -> dict[str, Any]:
        """Shares or numbers as a view has them: `prediction` and, of classes, `shares`."""

    @abc.abstractmethod
    def _as_step(self, view: inspection.NodeView, said: Any) -> dict[str, Any]:
        """What the core says of an example at a leaf, or else the view of the node, for a path."""

    def draw(self, max_depth: int | None = 4, max_branches: int = 8) -> drawing.TreeDrawing:
        """Draw the tree: a picture by matplotlib, and source text for graphviz.

        A node has the colour of its most frequent class, the stronger the purer it is, or one for
        its number. It tells its test, the share of all examples that came there, and the shares of
        the classes or the number. That of an inner node is the mean of the leaves below. Of a leaf
        with a model it tells the features that move its predictions most.

        Parameters
        ----------
        max_depth
            The depth of the lowest nodes to draw; None draws all. What is left out is counted.
        max_branches
            At least 1: where a node has more branches, those with the fewest examples share a box.

        """
        if max_depth is not None:
            check_integer("max_depth", max_depth, at_least=0, at_most=2**31 - 1)
        check_integer("max_branches", max_branches, at_least=1, at_most=2**31 - 1)
        with self._core.intake.lock.reading():
            views = self._views()
            if self._core.tree.has_leaf_models:
                moves = functools.partial(measure_moves, self._core)
                views = inspection.with_uses(views, self._outline(), moves, max_depth)
        return drawing.TreeDrawing(
            views, max_depth, max_branches, self._note, self._counts_examples
        )

    @property
    def _note(self) -> str:
        """What a drawing says below the tree."""
        if self._core.tree.has_leaf_models:
            return "A leaf predicts by its model; shown is the mean."
        return ""

    def to_dataframe(self) -> Any:
        """A pandas data frame with a row per node: its place, test, weight and prediction."""
        return indexed_frame(inspection.records(self._views_at_once()), "node")

    def to_dict(self) -> dict[str, Any]:
        """The tree as nested dicts of what JSON can hold: for reading, not for keeping."""
        return inspection.as_tree(self._views_at_once())

    def feature_importances(self) -> dict[Any, float]:
        """By how much every feature moves predictions, as shares that sum to 1, largest first.

        It is the mean over all examples of two things. A test moves what is said from what its
        node says to what the branch says (half the sum of the differences of all class shares, or
        the difference of the numbers), and its columns share that by the sizes of their weights. A
        leaf model moves it when one value is known and nothing else: that of one deviation above
        or below the mean, or of a category. The leaves themselves are asked. With several targets
        it is the mean of the shares for each.
        """
        with self._core.intake.lock.reading():
            views = self._views()
            effects = [inspection.split_effects(views)]
            if self._core.tree.has_leaf_models:
                effects.append(inspection.leaf_effects(
                    views, self._outline(), functools.partial(measure_moves, self._core)
                ))
        return inspection.importances(*effects)

    def decision_path(self, x: dict[Any, Any]) -> list[dict[str, Any]]:
        """The nodes that an example reaches, the root first, and what is said there.

        The last step always says what `predict_one` says. In a soft tree an example reaches several
        leaves, each to a degree; then the last step is of no node: it is what they say together.

        Returns
        -------
        A list of dicts:

        - `node`: its number, or None;
        - `test`: the test in words, empty at a leaf;
        - `score`: what the test gives, None at a leaf. Of a threshold of a standardised feature it
          is the distance from it, in deviations;
        - `share`: of the example that reaches the node;
        - `weight`: of the examples behind the node, as far as the model keeps it;
        - `prediction`: what the leaf says of the example; at an inner node the mean of the leaves
          below. A classifier also gives its `probability`.

        """
        with self._core.intake.lock.reading():
            return self._path(x, {view.node: view for view in self._views()})

    def _path(
        self, x: dict[Any, Any], views: dict[int, inspection.NodeView]
    ) -> list[dict[str, Any]]:
        root = next(iter(views.values()))
        return [
            {
                "node": node,
                "test": views[node].test if score is not None else "",
                "score": score,
                "share": share,
                "weight": views.get(node, root).weight,
                **self._as_step(views.get(node, root), said),
            }
            for node, score, share, said in find_ways(self._core, x)
        ]

    def debug_one(self, x: dict[Any, Any]) -> str:
        """Tell how the prediction of one example comes about: node by node, feature by feature.

        It is `decision_path` and `contributions_one` in words; the last line says what
        `predict_one` says.
        """
        with self._core.intake.lock.reading():
            if not self._core.features.names and self._core.intake.scaler.snapshot()["rows"] == 0:
                return "Nothing has been learned yet: the tree is a single empty leaf."
            views = {view.node: view for view in self._views()}
            steps, made_of = self._path(x, views), self.contributions_one(x)
        lines = inspection.path_text(steps, views, x, counts=self._counts_examples)
        lines += self._contributions_text(made_of, x)
        return "\n".join([*lines, f"predicts {inspection.said(steps[-1])}"])


class StreamTreeClassifier(StreamTree, StreamClassifier):
    """A classifier of one tree."""

    def _as_view(self, outputs: list[float]) -> dict[str, Any]:
        if not outputs:
            return {}
        shares = dict(zip(self.labels, outputs, strict=True))
        return {"prediction": max(shares, key=shares.__getitem__), "shares": shares}

    def _as_step(self, view: inspection.NodeView, said: Any) -> dict[str, Any]:
        if said is None:
            share = view.shares.get(view.prediction, 0.0)
            return {"prediction": view.prediction, "probability": share}
        number, share = said
        label = None if number < 0 else self._core.labels.labels[number]
        return {"prediction": label, "probability": float(share)}


class StreamTreeRegressor(StreamTree, StreamRegressor):
    """A regressor of one tree."""

    def _as_view(self, outputs: list[float]) -> dict[str, Any]:
        return {"prediction": outputs[0]}

    def _as_step(self, view: inspection.NodeView, said: Any) -> dict[str, Any]:
        return {"prediction": view.prediction if said is None else float(said[0])}


class StreamTreeMultiTargetRegressor(StreamTree, StreamMultiTargetRegressor):
    """A regressor of several numbers at once, of one tree."""

    def _as_view(self, outputs: list[float]) -> dict[str, Any]:
        return {"prediction": dict(zip(self.targets, outputs, strict=True))} if outputs else {}

    def _as_step(self, view: inspection.NodeView, said: Any) -> dict[str, Any]:
        if said is None:
            return {"prediction": view.prediction}
        numbers = said.tolist() if self.targets else []
        return {"prediction": dict(zip(self.targets, numbers, strict=True))}


def public_estimators() -> dict[str, type[StreamModel]]:
    """The estimators of the package by name."""
    found: dict[str, type[StreamModel]] = {}
    kinds = StreamModel.__subclasses__()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__.startswith("streamtree.") and not inspect.isabstract(kind):
            found[kind.__name__] = kind
    return found


@functools.cache
def parameter_names(estimator: type[StreamModel]) -> tuple[str, ...] | None:
    """The names of an estimator's parameters; None if it takes any number of them."""
    parameters = inspect.signature(estimator).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return None
    return tuple(p.name for p in parameters)


@functools.lru_cache(maxsize=256, typed=True)
def tree_maker(estimator: type[StreamModel], *parameters: Any) -> Callable[[], Any]:
    """What makes the trees of an estimator with these parameters."""
    model = estimator.__new__(estimator)
    model.__dict__.update(zip(parameter_names(estimator) or (), parameters, strict=True))
    return model._tree_maker()


@functools.cache
def is_public(estimator: type[StreamModel]) -> bool:
    """Whether a class is one of `public_estimators`."""
    return public_estimators().get(estimator.__name__) is estimator


@functools.cache
def core_parameters(estimator: type[StreamModel]) -> frozenset[str]:
    """The parameters of an estimator that reach its core; a subclass elsewhere may have others."""
    ours = next(filter(is_public, estimator.__mro__), estimator)
    return frozenset(parameter_names(ours) or ())


def is_itself(model: Any, kind: type[Any] | tuple[type[Any], ...]) -> bool:
    """Whether a model is of a kind; to river a pipeline is also of that of its last step."""
    return issubclass(type(model), kind)


def of_ours(model: Any) -> StreamModel:
    """The model itself; TypeError if it is none of streamtree, so that a file cannot keep it."""
    if not is_itself(model, StreamModel):
        name = type(model).__name__
        hint = "; of a pipeline give the last step" if hasattr(model, "steps") else ""
        raise TypeError(f"a model of streamtree is needed, got {name}{hint}")
    return model  # type: ignore[no-any-return]


def _check_public(model: StreamModel) -> None:
    name = type(model).__name__
    if not is_public(type(model)):
        raise TypeError(f"{name} is not an estimator of streamtree: no file can keep its code")


def _in_file(value: Any) -> Any:
    """A parameter as files have it: estimators by the names of their classes."""
    if type(value) is tuple:
        return tuple([_in_file(part) for part in value])
    if not isinstance(value, StreamModel):
        return value
    _check_public(value)
    parameters = {name: _in_file(getattr(value, name)) for name in value._get_params()}
    return modelfile.Template(type(value).__name__, parameters)


def comparable(value: Any) -> Any:
    """A parameter as something to compare: estimators by their classes and parameters."""
    if type(value) is tuple:
        return tuple([comparable(part) for part in value])
    return (type(value), value._get_params()) if isinstance(value, base.Base) else value


def interned(value: Any) -> Any:
    """A parameter whose strings are those that Python keeps: pickle sees whether two are one."""
    if type(value) is tuple:
        return tuple([interned(part) for part in value])
    return sys.intern(value) if type(value) is str else value


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


def interval(lower: float, upper: float) -> Any:
    """What river's regressors say of an interval."""
    # it brings half of river along
    from river import conf

    return conf.Interval(lower, upper)


def check_bool(name: str, value: Any) -> bool:
    """True or False, and nothing else."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(
            f"{name} must be True or False, got {_shown(value)} ({type(value).__name__})"
        )
    return bool(value)


def check_max_bytes(value: Any) -> int | None:
    """A bound on memory, None for none."""
    if value is None:
        return None
    # the frequent type first: to ask an abstract class takes longer than all else
    if type(value) is not int and (
        isinstance(value, bool) or not isinstance(value, numbers.Integral)
    ):
        raise TypeError(
            f"max_bytes must be an integer, a number of bytes, or None; got {type(value).__name__}"
        )
    if not LEAST_BYTES <= int(value) <= 2**62:
        raise ValueError(
            f"max_bytes must be from {LEAST_BYTES} to {2**62} bytes, got {_shown(value)}"
        )
    return int(value)


def check_nominal(value: Any) -> tuple[Hashable, ...] | None:
    """The names of some columns, None for those of none."""
    if value is None:
        return None
    if not isinstance(value, (list, tuple)):
        raise TypeError(
            f"nominal_attributes must be a list of names, got {type(value).__name__}"
        )
    for column in value:
        try:
            hash(column)
        except TypeError:
            raise TypeError(
                f"nominal_attributes: {column!r} is not hashable, so it is no name"
            ) from None
    return cast(tuple[Hashable, ...], interned(tuple(value))) or None


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
    if type(value) is not float and (
        isinstance(value, bool) or not isinstance(value, numbers.Real)
    ):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.nan
    inside = at_least <= number <= at_most and above < number < below
    if not math.isfinite(number) or not inside:
        bounds = [
            *([f"at least {at_least:g}"] if at_least > -math.inf else []),
            *([f"above {above:g}"] if above > -math.inf else []),
            *([f"at most {at_most:g}"] if at_most < math.inf else []),
            *([f"below {below:g}"] if below < math.inf else []),
        ]
        raise ValueError(f"{name} must be {' and '.join(['finite', *bounds])}, got {_shown(value)}")
    return number


def check_integer(name: str, value: Any, *, at_least: int, at_most: int) -> int:
    """An integer within bounds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}")
    if not at_least <= int(value) <= at_most:
        raise ValueError(f"{name} must be from {at_least} to {at_most}, got {_shown(value)}")
    return int(value)


def check_seed(seed: Any) -> int:
    """A seed as a number; without one 0."""
    return 0 if seed is None else check_integer("seed", seed, at_least=0, at_most=2**64 - 1)


def _shown(value: Any) -> str:
    """A number in an error."""
    try:
        return reprlib.repr(value)
    except ValueError:
        # of so many digits that Python does not write them
        return f"a number of type {type(value).__name__} with thousands of digits"
